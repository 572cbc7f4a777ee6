"""Convolutions, transposed convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from annotated_region.backends.dnnl.graph import Kind, TensorId, volume
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.ops.checks import (
    DATA_LAYOUTS,
    FLOATS,
    OPERANDS,
    Problems,
    layout_problem,
    symbolic_problem,
    window_problem,
)
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Convolution, Parameters
from annotated_region.backends.dnnl.views import align_rank, axes_between, permute, permuted_shape, reshape
from annotated_region.targets.op_view import OpView

__all__ = ["CONVOLUTIONS", "DATA_AND_KERNEL", "convolution", "convolution_problems", "matrix_product"]

CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
DATA_AND_KERNEL = ("the data", "the kernel")

Steps: TypeAlias = tuple[int, ...]
Window: TypeAlias = Callable[[Steps, Steps, Steps, Steps], Convolution]
"""Creates the parameters of a convolution from strides, dilation, and padding before and after."""


def _out_dtype_problem(op: OpView) -> Problems:
    dtype = op.attrs["out_dtype"]
    if dtype not in (None, "", "void", *FLOATS):
        yield f"the requested result dtype is {dtype}"


def _kernel_problems(op: OpView) -> Problems:
    """Checks of the kernel, the channels and the window."""
    yield symbolic_problem(op, 1, "the kernel")
    kernel = op.constant(1) if any(op.attrs["padding"]) or "transpose" in op.name else None
    if kernel is not None and not np.isfinite(kernel).all():
        yield "the kernel is not finite: TVM multiplies it by the zeros of the padding, too"
    extents = extents_of(op.arg_types[0]) or ()
    if not isinstance(extents[op.attrs["data_layout"].index("C")], int):
        yield "the number of channels is symbolic"
    yield window_problem(op)


def convolution_problems(op: OpView) -> Problems:
    """Reasons to decline a convolution of any type of numbers."""
    layout = DATA_LAYOUTS[len(op.attrs["strides"])]
    yield layout_problem(op.attrs["data_layout"], layout, "the layout")
    yield layout_problem(op.attrs["out_layout"], layout, "the layout of the result")
    yield layout_problem(op.attrs["kernel_layout"], "OI" + layout[2:], "the layout of the kernel")
    yield from _kernel_problems(op)


def _float_problems(op: OpView) -> Problems:
    yield from _out_dtype_problem(op)
    yield from convolution_problems(op)


@converts(*CONVOLUTIONS, operands=DATA_AND_KERNEL, unless=_float_problems)
def _convolution(call: OpConversion) -> TensorId:
    return convolution(call, Kind.CONVOLUTION, Convolution)


def convolution(call: OpConversion, kind: Kind, window: Window) -> TensorId:
    """A convolution; the kernel of one with groups has an axis for them."""
    graph, groups = call.graph, call.attrs["groups"]
    data, weights = _operands(call, "OI")
    if groups > 1:  # the form that oneDNN requires
        channels, *rest = graph.shape(weights)
        weights = reshape(graph, weights, (groups, channels // groups, *rest))
    return _convolved(call, kind, data, weights, window=window)


def _operands(call: OpConversion, channels: str) -> tuple[TensorId, TensorId]:
    """Data and weights in oneDNN's order of the axes, the weights led by `channels`."""
    layout = DATA_LAYOUTS[len(call.attrs["strides"])]
    data = permute(call.graph, call.operand(0), axes_between(call.attrs["data_layout"], layout))
    order = axes_between(call.attrs["kernel_layout"], channels + layout[2:])
    return data, permute(call.graph, call.operand(1), order)


def _convolved(
    call: OpConversion,
    kind: Kind,
    data: TensorId,
    weights: TensorId,
    more: Steps = (),
    window: Window = Convolution,
) -> TensorId:
    """The convolution, in the layout of the op; `more` is the output padding at the end of each axis."""
    strides, padding = tuple(call.attrs["strides"]), tuple(call.attrs["padding"])
    rank = len(strides)
    layout, out_layout = DATA_LAYOUTS[rank], call.attrs["out_layout"] or call.attrs["data_layout"]
    dilation = tuple(step - 1 for step in call.attrs["dilation"])
    after = tuple(end - extra for end, extra in zip(padding[rank:], more or (0,) * rank, strict=True))
    shape = permuted_shape(call.shape, axes_between(out_layout, layout))
    parameters = window(strides, dilation, padding[:rank], after)
    result = call.graph.add(kind, (data, weights), shape, parameters)
    return permute(call.graph, result, axes_between(layout, out_layout))


def _deconvolution_problems(op: OpView) -> Problems:
    yield from _out_dtype_problem(op)
    rank = len(op.attrs["strides"])
    layout = DATA_LAYOUTS[rank]
    if op.attrs["data_layout"] != layout:
        yield f"the layout {op.attrs['data_layout']} is not {layout}"
    if op.attrs["out_layout"] not in ("", layout):
        yield f"the layout of the result {op.attrs['out_layout']} is not {layout}"
    if op.attrs["kernel_layout"] != "IO" + layout[2:]:
        yield f"the layout of the kernel {op.attrs['kernel_layout']} is not IO{layout[2:]}"
    yield from _kernel_problems(op)
    after = op.attrs["padding"][rank:]
    if any(extra > end for extra, end in zip(op.attrs["output_padding"], after, strict=True)):
        yield "output_padding exceeds the padding"


@converts(
    "relax.nn.conv1d_transpose",
    "relax.nn.conv2d_transpose",
    "relax.nn.conv3d_transpose",
    operands=DATA_AND_KERNEL,
    unless=_deconvolution_problems,
)
def _deconvolution(call: OpConversion) -> TensorId:
    """A transposed convolution; Relax stores its weights as (in, out / groups, ...)."""
    graph, groups = call.graph, call.attrs["groups"]
    data, weights = _operands(call, "IO")
    inputs, outputs, *window = graph.shape(weights)
    if groups == 1:
        weights = permute(graph, weights, (1, 0, *range(2, len(window) + 2)))
    else:
        weights = reshape(graph, weights, (groups, inputs // groups, outputs, *window))
        weights = permute(graph, weights, (0, 2, 1, *range(3, len(window) + 3)))
    return _convolved(call, Kind.DECONVOLUTION, data, weights, tuple(call.attrs["output_padding"]))


@converts("relax.matmul", operands=OPERANDS, unless=_out_dtype_problem)
def _matmul(call: OpConversion) -> TensorId:
    left, right = call.operands()
    return matrix_product(call, Kind.MATMUL, left, right)


def matrix_product(
    call: OpConversion,
    kind: Kind,
    left: TensorId,
    right: TensorId,
    parameters: Parameters = NO_PARAMETERS,
) -> TensorId:
    """A matrix product; vectors become matrices, and a stack times one matrix becomes one product."""
    graph = call.graph
    if len(graph.shape(left)) == 1:
        left = reshape(graph, left, (1, *graph.shape(left)))
    if len(graph.shape(right)) == 1:
        right = reshape(graph, right, (*graph.shape(right), 1))
    if len(graph.shape(right)) == 2:
        *rows, depth = graph.shape(left)
        left = reshape(graph, left, (volume(rows), depth))
    rank = max(len(graph.shape(left)), len(graph.shape(right)))
    left, right = align_rank(graph, left, rank), align_rank(graph, right, rank)
    shape = (*call.shape[: rank - 2], graph.shape(left)[-2], graph.shape(right)[-1])
    return reshape(graph, graph.add(kind, (left, right), shape, parameters), call.shape)
