"""Normalisations, softmax and reductions."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Graph, Kind, TensorId, volume
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import (
    Arithmetic,
    BatchNorm,
    Curve,
    GroupNorm,
    Norm,
    Reduction,
    Softmax,
)
from annotated_region.backends.dnnl.views import permute, reshape
from annotated_region.targets.op_view import OpView

__all__ = ["CONVERTERS", "REDUCTIONS", "reduced_axes"]


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
    result = graph.add(Kind.BATCH_NORM, inputs, graph.shape(data), BatchNorm(op.attrs["epsilon"]))
    return permute(graph, result, backward), mean, variance


def _layer_norm(importer: Importer, op: OpView) -> TensorId:
    """Over the last axes, which become one, and back."""
    graph, shape = importer.graph, importer.shape(op.call)
    data, scale, shift = (importer.operand(argument) for argument in op.args)
    outer = shape[: len(shape) - len(op.attrs["axes"])]
    size = volume(shape[len(outer) :])
    rows = (*(outer or (1,)), size)
    inputs = (reshape(graph, data, rows), reshape(graph, scale, (size,)), reshape(graph, shift, (size,)))
    result = graph.add(Kind.LAYER_NORM, inputs, rows, Norm(op.attrs["epsilon"]))
    return reshape(graph, result, shape)


def _rms_norm(importer: Importer, op: OpView) -> TensorId:
    graph, shape = importer.graph, importer.shape(op.call)
    data, scale = (importer.operand(argument) for argument in op.args)
    outer = shape[: len(shape) - len(op.attrs["axes"])]
    size = volume(shape[len(outer) :])
    rows = (*outer, size)
    inputs = (reshape(graph, data, rows), reshape(graph, scale, (size,)))
    result = graph.add(Kind.RMS_NORM, inputs, rows, Norm(op.attrs["epsilon"]))
    return reshape(graph, result, shape)


def _group_norm(importer: Importer, op: OpView) -> TensorId:
    """Groups of channels, or each channel for itself in an instance norm."""
    shape = importer.shape(op.call)
    inputs = tuple(importer.operand(argument) for argument in op.args)
    groups = op.attrs.get("num_groups", shape[1])
    parameters = GroupNorm(op.attrs["epsilon"], groups)
    return importer.graph.add(Kind.GROUP_NORM, inputs, shape, parameters)


def _softmax(importer: Importer, op: OpView) -> TensorId:
    graph = importer.graph
    data = importer.operand(op.args[0])
    algorithm = "softmax_log" if op.name == "relax.nn.log_softmax" else "softmax_accurate"
    axis = op.attrs["axis"] % len(graph.shape(data))
    return graph.add(Kind.SOFTMAX, (data,), graph.shape(data), Softmax(axis, algorithm))


REDUCTIONS = {
    "relax.mean": "reduction_mean",
    "relax.sum": "reduction_sum",
    "relax.max": "reduction_max",
    "relax.min": "reduction_min",
    "relax.prod": "reduction_mul",
}


def reduced_axes(op: OpView, rank: int) -> tuple[int, ...]:
    """The axes that a reduction removes, counted from the front; all of them if the op names none."""
    axes = op.attrs["axis"]
    return tuple(range(rank)) if axes is None else tuple(sorted({axis % rank for axis in axes}))


def _reduction(importer: Importer, op: OpView) -> TensorId:
    """A reduction that keeps the axes, then a view."""
    graph = importer.graph
    data = importer.operand(op.args[0])
    reduced = _reduced(graph, data, reduced_axes(op, len(graph.shape(data))), REDUCTIONS[op.name])
    return reshape(graph, reduced, importer.shape(op.call))


def _variance(importer: Importer, op: OpView) -> TensorId:
    """The mean square of what is left without the mean."""
    graph = importer.graph
    data = importer.operand(op.args[0])
    shape = graph.shape(data)
    axes = reduced_axes(op, len(shape))
    mean = _reduced(graph, data, axes, "reduction_mean")
    centred = graph.add(Kind.BINARY, (data, mean), shape, Arithmetic("binary_sub"))
    squared = graph.add(Kind.ELTWISE, (centred,), shape, Curve("eltwise_square"))
    return reshape(graph, _reduced(graph, squared, axes, "reduction_mean"), importer.shape(op.call))


def _reduced(graph: Graph, data: TensorId, axes: tuple[int, ...], algorithm: str) -> TensorId:
    shape = graph.shape(data)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return graph.add(Kind.REDUCTION, (data,), kept, Reduction(algorithm))


CONVERTERS: dict[str, Convert] = {
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.rms_norm": _rms_norm,
    "relax.nn.group_norm": _group_norm,
    "relax.nn.instance_norm": _group_norm,
    "relax.nn.softmax": _softmax,
    "relax.nn.log_softmax": _softmax,
    **dict.fromkeys(REDUCTIONS, _reduction),
    "relax.variance": _variance,
}
