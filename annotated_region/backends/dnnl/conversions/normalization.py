"""Normalisations, softmax and reductions."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.views import permute, reshape
from annotated_region.op_view import OpView

__all__ = ["CONVERTERS", "reduced_axes"]


def _batch_norm(importer: Importer, op: OpView) -> tuple[TensorId | None, ...]:
    """Normalisation with the stored statistics, which inference leaves as they are."""
    graph = importer.graph
    data, scale, shift, mean, variance = (importer.operand(argument) for argument in op.args)
    rank = len(graph.shape(data))
    axis = op.attrs["axis"] % rank
    forward = (0, axis, *(other for other in range(1, rank) if other != axis))
    backward = tuple(forward.index(position) for position in range(rank))
    data = permute(graph, data, forward)
    inputs = (data, scale, shift, mean, variance)
    result = graph.add(Kind.BATCH_NORM, inputs, graph.shape(data), ints=(0,), floats=(op.attrs["epsilon"],))
    return permute(graph, result, backward), mean, variance


def _layer_norm(importer: Importer, op: OpView) -> TensorId:
    graph = importer.graph
    inputs = tuple(importer.operand(argument) for argument in op.args)
    return graph.add(Kind.LAYER_NORM, inputs, importer.shape(op.call), floats=(op.attrs["epsilon"],))


def _softmax(importer: Importer, op: OpView) -> TensorId:
    graph = importer.graph
    data = importer.operand(op.args[0])
    algorithm = "softmax_log" if op.name == "relax.nn.log_softmax" else "softmax_accurate"
    axis = op.attrs["axis"] % len(graph.shape(data))
    return graph.add(Kind.SOFTMAX, (data,), graph.shape(data), algorithm, ints=(axis,))


def reduced_axes(op: OpView, rank: int) -> tuple[int, ...]:
    """The axes that a reduction removes, counted from the front; all of them if the op names none."""
    axes = op.attrs["axis"]
    return tuple(range(rank)) if axes is None else tuple(sorted({axis % rank for axis in axes}))


def _reduction(importer: Importer, op: OpView) -> TensorId:
    """A reduction that keeps the axes, then a view; the mean over a whole image is a pooling."""
    graph = importer.graph
    data = importer.operand(op.args[0])
    shape = graph.shape(data)
    rank = len(shape)
    axes = reduced_axes(op, rank)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    if op.name == "relax.mean" and rank in (3, 4, 5) and axes == tuple(range(2, rank)):
        spatial = rank - 2
        window = (*(0,) * spatial, *(1,) * spatial, *(0,) * 3 * spatial)
        result = graph.add(Kind.POOLING, (data,), kept, "pooling_avg_exclude_padding", ints=window)
    else:
        result = graph.add(Kind.REDUCTION, (data,), kept, f"reduction_{op.name.removeprefix('relax.')}")
    return reshape(graph, result, importer.shape(op.call))


CONVERTERS: dict[str, Convert] = {
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.softmax": _softmax,
    "relax.nn.log_softmax": _softmax,
    "relax.mean": _reduction,
    "relax.sum": _reduction,
    "relax.max": _reduction,
    "relax.min": _reduction,
}
