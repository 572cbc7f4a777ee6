"""What oneDNN claims: one rule an op, exact about what the code generator and oneDNN can do.

A rule answers True, or says why not. What a rule does not know it declines: a decline costs time, a wrong
claim costs the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tvm import relax

from annotated_region.backends.dnnl.checks import (
    finite,
    first_problem,
    layout_problem,
    number_of,
    number_problem,
    result_problem,
    tensor_problem,
)
from annotated_region.backends.dnnl.conversions.arithmetic import SIMPLE_FUNCTIONS
from annotated_region.backends.dnnl.conversions.convolution import DATA_LAYOUTS
from annotated_region.backends.dnnl.conversions.normalization import reduced_axes
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.op_view import OpView
from annotated_region.rules import register_rule

__all__ = ["TARGET"]

TARGET = "dnnl"

Problems = Iterator[str | None]


def _register(*names: str) -> Callable[[Callable[[OpView], Problems]], Callable[[OpView], Problems]]:
    """Register a generator of problems as the rule of the ops called `names`."""

    def register(problems: Callable[[OpView], Problems]) -> Callable[[OpView], Problems]:
        for name in names:
            register_rule(TARGET, name)(lambda op: first_problem(problems(op)))
        return problems

    return register


def _out_dtype_problem(op: OpView) -> str | None:
    dtype = op.attrs["out_dtype"]
    return None if dtype in (None, "", "void", "float32") else f"the result is asked for as {dtype}"


@_register("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
def _convolution(op: OpView) -> Problems:
    layout = DATA_LAYOUTS[len(op.attrs["strides"])]
    yield tensor_problem(op.arg_types[0], "the data")
    yield tensor_problem(op.arg_types[1], "the kernel")
    yield result_problem(op)
    yield _out_dtype_problem(op)
    yield layout_problem(op.attrs["data_layout"], layout, "the layout")
    yield layout_problem(op.attrs["out_layout"], layout, "the layout of the result")
    yield layout_problem(op.attrs["kernel_layout"], "OI" + layout[2:], "the layout of the kernel")
    yield _symbolic_problem(op, 1, "the kernel")
    yield _channel_problem(op, 0, op.attrs["data_layout"])


def _symbolic_problem(op: OpView, index: int, what: str) -> str | None:
    extents = extents_of(op.arg_types[index]) or ()
    return None if all(isinstance(extent, int) for extent in extents) else f"{what} has a symbolic extent"


def _channel_problem(op: OpView, index: int, layout: str) -> str | None:
    extents = extents_of(op.arg_types[index]) or ()
    known = isinstance(extents[layout.index("C")], int)
    return None if known else "the number of channels is symbolic"


@_register("relax.nn.conv2d_transpose")
def _deconvolution(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the data")
    yield tensor_problem(op.arg_types[1], "the kernel")
    yield result_problem(op)
    yield _out_dtype_problem(op)
    if op.attrs["data_layout"] != "NCHW" or op.attrs["out_layout"] not in ("", "NCHW"):
        yield f"the layout {op.attrs['data_layout']} is not NCHW"
    if op.attrs["kernel_layout"] != "IOHW":
        yield f"the layout of the kernel {op.attrs['kernel_layout']} is not IOHW"
    yield _symbolic_problem(op, 1, "the kernel")
    yield _channel_problem(op, 0, "NCHW")
    after = op.attrs["padding"][2:]
    if any(extra > end for extra, end in zip(op.attrs["output_padding"], after, strict=True)):
        yield "the padding of the result is larger than the padding that it makes up for"


@_register(
    "relax.nn.max_pool1d",
    "relax.nn.max_pool2d",
    "relax.nn.max_pool3d",
    "relax.nn.avg_pool1d",
    "relax.nn.avg_pool2d",
    "relax.nn.avg_pool3d",
)
def _pooling(op: OpView) -> Problems:
    window, dilation, padding = op.attrs["pool_size"], op.attrs["dilation"], op.attrs["padding"]
    layout = DATA_LAYOUTS[len(window)]
    yield tensor_problem(op.arg_types[0], "the data")
    yield result_problem(op)
    yield layout_problem(op.attrs["layout"], layout, "the layout")
    yield layout_problem(op.attrs["out_layout"], layout, "the layout of the result")
    reach = [(size - 1) * step + 1 for size, step in zip(window, dilation, strict=True)]
    if any(pad >= extent for pad, extent in zip(padding, reach * 2, strict=True)):
        yield "the padding is as wide as the window, so a window may hold nothing but padding"
    if "avg" in op.name:
        if any(step != 1 for step in dilation):
            yield "an average over a dilated window"
        if op.attrs["ceil_mode"]:
            yield "an average with ceil_mode, whose divisor at the border is not oneDNN's"


@_register("relax.nn.adaptive_avg_pool1d", "relax.nn.adaptive_avg_pool2d", "relax.nn.adaptive_avg_pool3d")
def _adaptive_pooling(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the data")
    yield result_problem(op)
    before, after = extents_of(op.arg_types[0]) or (), extents_of(op.out_type) or ()
    layout = DATA_LAYOUTS[len(after) - 2]
    yield layout_problem(op.attrs["layout"], layout, "the layout")
    if op.attrs["out_layout"] not in ("", op.attrs["layout"]):
        yield f"the layout of the result is {op.attrs['out_layout']}"
    for axis, letter in enumerate(op.attrs["layout"]):
        whole, part = before[axis], after[axis]
        if letter in "NC" or part == 1:
            continue
        if not isinstance(whole, int) or not isinstance(part, int) or whole % part:
            yield f"windows of different sizes: {whole} divided into {part}"


@_register("relax.matmul")
def _matmul(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the left operand")
    yield tensor_problem(op.arg_types[1], "the right operand")
    yield result_problem(op)
    yield _out_dtype_problem(op)


@_register(*SIMPLE_FUNCTIONS, "relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims")
def _function(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the data")
    yield result_problem(op)


@_register("relax.permute_dims", "relax.broadcast_to")
def _rearrangement(op: OpView) -> Problems:
    yield from _function(op)


@_register("relax.nn.leakyrelu")
def _leaky_relu(op: OpView) -> Problems:
    yield from _function(op)
    if not finite(op.attrs["alpha"]):
        yield "the slope is not finite"


@_register("relax.clip")
def _clip(op: OpView) -> Problems:
    yield from _function(op)
    low, high = (number_of(argument) for argument in op.args[1:])
    if low is None or high is None or not low <= high:
        yield "the bounds are not two numbers in order"


@_register(
    "relax.add",
    "relax.subtract",
    "relax.multiply",
    "relax.divide",
    "relax.maximum",
    "relax.minimum",
)
def _arithmetic(op: OpView) -> Problems:
    yield result_problem(op)
    for index, what in enumerate(("the left operand", "the right operand")):
        yield _operand_problem(op, index, what)


def _operand_problem(op: OpView, index: int, what: str) -> str | None:
    """Why an operand of arithmetic cannot be used; a number without a rank is welcome if it is a constant."""
    type_ = op.arg_types[index]
    is_number = isinstance(type_, relax.TensorType) and type_.ndim == 0 and str(type_.dtype) == "float32"
    return number_problem(op, index, what) if is_number else tensor_problem(type_, what)


@_register("relax.power")
def _power(op: OpView) -> Problems:
    yield result_problem(op)
    yield tensor_problem(op.arg_types[0], "the base")
    yield number_problem(op, 1, "the exponent")
    if str(op.arg_types[1].dtype) != "float32":
        yield f"the exponent is of type {op.arg_types[1].dtype}"


@_register("relax.nn.batch_norm")
def _batch_norm(op: OpView) -> Problems:
    for type_, what in zip(
        op.arg_types, ("the data", "the scale", "the shift", "the mean", "the variance"), strict=True
    ):
        yield tensor_problem(type_, what)
    if op.attrs["training"]:
        yield "it is in training mode, which computes statistics"
    if not (op.attrs["center"] and op.attrs["scale"]):
        yield "it leaves out the scale or the shift"
    if not 2 <= op.arg_types[0].ndim <= 5:
        yield f"the data has rank {op.arg_types[0].ndim}; known are 2 to 5"
    elif op.attrs["axis"] % op.arg_types[0].ndim == 0:
        yield "it normalises along the batch"
    yield _symbolic_problem(op, 1, "the scale")


@_register("relax.nn.layer_norm")
def _layer_norm(op: OpView) -> Problems:
    for type_, what in zip(op.arg_types, ("the data", "the scale", "the shift"), strict=True):
        yield tensor_problem(type_, what)
    yield result_problem(op)
    rank = op.arg_types[0].ndim
    if [axis % rank for axis in op.attrs["axes"]] != [rank - 1]:
        yield f"it normalises over axes {op.attrs['axes']}; only the last one is known"
    if not 2 <= rank <= 5:
        yield f"the data has rank {rank}; known are 2 to 5"
    if not (op.attrs["center"] and op.attrs["scale"]):
        yield "it leaves out the scale or the shift"


@_register("relax.nn.softmax", "relax.nn.log_softmax")
def _softmax(op: OpView) -> Problems:
    yield from _function(op)


@_register("relax.mean", "relax.sum", "relax.max", "relax.min")
def _reduction(op: OpView) -> Problems:
    yield from _function(op)
    if not reduced_axes(op, op.arg_types[0].ndim):
        yield "it reduces no axis"


@_register("relax.concat")
def _concat(op: OpView) -> Problems:
    yield result_problem(op)
    fields = getattr(op.arg_types[0], "fields", None)
    if fields is None:
        yield "its operands are not known one by one"
        return
    for position, field in enumerate(fields):
        yield tensor_problem(field, f"operand {position}")
