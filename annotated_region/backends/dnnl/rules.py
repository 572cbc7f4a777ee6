"""What oneDNN claims of convolutions, products, pooling and arithmetic: one rule an op.

The rules are exact about what the code generator and oneDNN can do.

A rule answers True, or says why not. What a rule does not know it declines: a decline costs time, a wrong
claim costs the answer.
"""

from __future__ import annotations

import numpy as np

from annotated_region.backends.dnnl.checks import (
    finite,
    function_problems,
    layout_problem,
    number_of,
    number_problem,
    operand_problem,
    result_problem,
    symbolic_problem,
    tensor_problem,
    window_problem,
)
from annotated_region.backends.dnnl.conversions.arithmetic import OWN_FUNCTIONS, SIMPLE_FUNCTIONS
from annotated_region.backends.dnnl.conversions.convolution import DATA_LAYOUTS
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.registration import Problems, claims
from annotated_region.targets.op_view import OpView

__all__: list[str] = []


def _out_dtype_problem(op: OpView) -> str | None:
    dtype = op.attrs["out_dtype"]
    return None if dtype in (None, "", "void", "float32") else f"the result is asked for as {dtype}"


@claims("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
def _convolution(op: OpView) -> Problems:
    layout = DATA_LAYOUTS[len(op.attrs["strides"])]
    yield tensor_problem(op.arg_types[0], "the data")
    yield tensor_problem(op.arg_types[1], "the kernel")
    yield result_problem(op)
    yield _out_dtype_problem(op)
    yield layout_problem(op.attrs["data_layout"], layout, "the layout")
    yield layout_problem(op.attrs["out_layout"], layout, "the layout of the result")
    yield layout_problem(op.attrs["kernel_layout"], "OI" + layout[2:], "the layout of the kernel")
    yield symbolic_problem(op, 1, "the kernel")
    yield _padding_problem(op)
    yield _channel_problem(op, 0, op.attrs["data_layout"])
    yield window_problem(op)


def _channel_problem(op: OpView, index: int, layout: str) -> str | None:
    extents = extents_of(op.arg_types[index]) or ()
    known = isinstance(extents[layout.index("C")], int)
    return None if known else "the number of channels is symbolic"


def _padding_problem(op: OpView) -> str | None:
    kernel = op.constant(1) if any(op.attrs["padding"]) or "transpose" in op.name else None
    known = kernel is None or bool(np.isfinite(kernel).all())
    return None if known else "the kernel is not finite: TVM multiplies it by the zeros of the padding, too"


@claims("relax.nn.conv1d_transpose", "relax.nn.conv2d_transpose", "relax.nn.conv3d_transpose")
def _deconvolution(op: OpView) -> Problems:
    rank = len(op.attrs["strides"])
    layout = DATA_LAYOUTS[rank]
    yield tensor_problem(op.arg_types[0], "the data")
    yield tensor_problem(op.arg_types[1], "the kernel")
    yield result_problem(op)
    yield _out_dtype_problem(op)
    if op.attrs["data_layout"] != layout or op.attrs["out_layout"] not in ("", layout):
        yield f"the layout {op.attrs['data_layout']} is not {layout}"
    if op.attrs["kernel_layout"] != "IO" + layout[2:]:
        yield f"the layout of the kernel {op.attrs['kernel_layout']} is not IO{layout[2:]}"
    yield symbolic_problem(op, 1, "the kernel")
    yield _padding_problem(op)
    yield _channel_problem(op, 0, layout)
    yield window_problem(op)
    after = op.attrs["padding"][rank:]
    if any(extra > end for extra, end in zip(op.attrs["output_padding"], after, strict=True)):
        yield "the padding of the result is larger than the padding that it makes up for"


@claims(
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
    yield window_problem(op)
    reach = [(size - 1) * step + 1 for size, step in zip(window, dilation, strict=True)]
    if any(pad >= extent for pad, extent in zip(padding, reach * 2, strict=True)):
        yield "the padding is as wide as the window, so a window may hold nothing but padding"
    if "avg" in op.name:
        if any(step != 1 for step in dilation):
            yield "an average over a dilated window"
        if op.attrs["ceil_mode"]:
            yield "an average with ceil_mode, whose divisor at the border is not oneDNN's"


@claims("relax.nn.adaptive_avg_pool1d", "relax.nn.adaptive_avg_pool2d", "relax.nn.adaptive_avg_pool3d")
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


@claims("relax.matmul")
def _matmul(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the left operand")
    yield tensor_problem(op.arg_types[1], "the right operand")
    yield result_problem(op)
    yield _out_dtype_problem(op)


@claims(*SIMPLE_FUNCTIONS, *OWN_FUNCTIONS)
def _function(op: OpView) -> Problems:
    yield from function_problems(op)


@claims("relax.nn.leakyrelu")
def _leaky_relu(op: OpView) -> Problems:
    yield from function_problems(op)
    if not finite(op.attrs["alpha"]):
        yield "the slope is not finite"


@claims("relax.clip")
def _clip(op: OpView) -> Problems:
    yield from function_problems(op)
    low, high = (number_of(argument) for argument in op.args[1:])
    if low is None or high is None or not low <= high:
        yield "the bounds are not two numbers in order"


@claims(
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
        yield operand_problem(op, index, what)


@claims("relax.power")
def _power(op: OpView) -> Problems:
    yield result_problem(op)
    yield tensor_problem(op.arg_types[0], "the base")
    yield number_problem(op, 1, "the exponent")
    if str(op.arg_types[1].dtype) != "float32":
        yield f"the exponent is of type {op.arg_types[1].dtype}"
