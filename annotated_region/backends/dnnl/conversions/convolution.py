"""Convolutions, transposed convolutions and matrix products."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Graph, Kind, TensorId, volume
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import Convolution
from annotated_region.backends.dnnl.views import align_rank, axes_between, permute, permuted_shape, reshape
from annotated_region.targets.op_view import OpView

__all__ = ["CONVERTERS", "DATA_LAYOUTS"]

DATA_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
"""oneDNN's order of the axes, by the number of spatial ones."""


def _with_groups(graph: Graph, weights: TensorId, groups: int) -> TensorId:
    """Weights whose output channels are split into groups, the form that oneDNN wants."""
    if groups == 1:
        return weights
    channels, *rest = graph.shape(weights)
    return reshape(graph, weights, (groups, channels // groups, *rest))


def _convolution(importer: Importer, op: OpView) -> TensorId:
    graph = importer.graph
    rank = len(op.attrs["strides"])
    layout = DATA_LAYOUTS[rank]
    given = op.attrs["data_layout"]
    kernel_layout = "OI" + layout[2:]
    data = permute(graph, importer.operand(op.args[0]), axes_between(given, layout))
    weights = permute(
        graph, importer.operand(op.args[1]), axes_between(op.attrs["kernel_layout"], kernel_layout)
    )
    weights = _with_groups(graph, weights, op.attrs["groups"])
    out_layout = op.attrs["out_layout"] or given
    shape = permuted_shape(importer.shape(op.call), axes_between(out_layout, layout))
    dilation = tuple(value - 1 for value in op.attrs["dilation"])
    padding = tuple(op.attrs["padding"])
    parameters = Convolution(tuple(op.attrs["strides"]), dilation, padding[:rank], padding[rank:])
    result = graph.add(Kind.CONVOLUTION, (data, weights), shape, parameters)
    return permute(graph, result, axes_between(layout, out_layout))


def _deconvolution(importer: Importer, op: OpView) -> TensorId:
    """A transposed convolution; Relax stores its weights as (in, out / groups, ...)."""
    graph = importer.graph
    rank = len(op.attrs["strides"])
    layout, given = DATA_LAYOUTS[rank], op.attrs["data_layout"]
    groups = op.attrs["groups"]
    data = permute(graph, importer.operand(op.args[0]), axes_between(given, layout))
    weights = importer.operand(op.args[1])
    weights = permute(graph, weights, axes_between(op.attrs["kernel_layout"], "IO" + layout[2:]))
    inputs, outputs, *window = graph.shape(weights)
    if groups == 1:
        weights = permute(graph, weights, (1, 0, *range(2, rank + 2)))
    else:
        weights = reshape(graph, weights, (groups, inputs // groups, outputs, *window))
        weights = permute(graph, weights, (0, 2, 1, *range(3, rank + 3)))
    dilation = tuple(value - 1 for value in op.attrs["dilation"])
    padding = tuple(op.attrs["padding"])
    before, after = padding[:rank], padding[rank:]
    extra = op.attrs["output_padding"]
    after = tuple(end - more for end, more in zip(after, extra, strict=True))
    parameters = Convolution(tuple(op.attrs["strides"]), dilation, before, after)
    out_layout = op.attrs["out_layout"] or given
    shape = permuted_shape(importer.shape(op.call), axes_between(out_layout, layout))
    result = graph.add(Kind.DECONVOLUTION, (data, weights), shape, parameters)
    return permute(graph, result, axes_between(layout, out_layout))


def _matmul(importer: Importer, op: OpView) -> TensorId:
    """A matrix product; vectors become matrices, and a stack times one matrix becomes one product."""
    graph = importer.graph
    left, right = importer.operand(op.args[0]), importer.operand(op.args[1])
    result = importer.shape(op.call)
    if len(graph.shape(left)) == 1:
        left = reshape(graph, left, (1, *graph.shape(left)))
    if len(graph.shape(right)) == 1:
        right = reshape(graph, right, (*graph.shape(right), 1))
    if len(graph.shape(right)) == 2:
        *rows, depth = graph.shape(left)
        left = reshape(graph, left, (volume(rows), depth))
    rank = max(len(graph.shape(left)), len(graph.shape(right)))
    left, right = align_rank(graph, left, rank), align_rank(graph, right, rank)
    matrix = (graph.shape(left)[-2], graph.shape(right)[-1])
    product = graph.add(Kind.MATMUL, (left, right), (*result[: rank - 2], *matrix))
    return reshape(graph, product, result)


CONVERTERS: dict[str, Convert] = {
    "relax.nn.conv1d": _convolution,
    "relax.nn.conv2d": _convolution,
    "relax.nn.conv3d": _convolution,
    "relax.nn.conv1d_transpose": _deconvolution,
    "relax.nn.conv2d_transpose": _deconvolution,
    "relax.nn.conv3d_transpose": _deconvolution,
    "relax.matmul": _matmul,
}
