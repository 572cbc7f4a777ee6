"""Normalisations, softmax and reductions."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Dim, Kind, TensorId, volume
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.ops.checks import Problems, epsilon_problem, symbolic_problem
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import (
    Arithmetic,
    Curve,
    GroupNorm,
    Norm,
    Permutation,
    Reduction,
    Softmax,
    linear,
)
from annotated_region.backends.dnnl.views import along_axis, permute, reshape
from annotated_region.targets.op_view import OpView

__all__ = ["reduced_axes"]

AFFINE = ("the data", "the scale", "the shift")

_MOST_AXES_OF_ROWS = 4

NEUTRAL = (("scale", 1.0), ("center", 0.0))
"""The attributes that disable scale and shift, with the neutral values of these."""


def _affine_problems(op: OpView) -> Problems:
    """TVM 0.27 applies scale and shift even if the attributes disable them; then they must be neutral."""
    yield epsilon_problem(op)
    for index, (attribute, number) in enumerate(NEUTRAL, 1):
        if not op.attrs[attribute] and not _repeats(op, index, number):
            yield f"it disables {AFFINE[index]}, which is not {number:g}"


def _repeats(op: OpView, index: int, number: float) -> bool:
    """Whether an argument is a constant with all elements equal to `number`."""
    value = op.constant(index)
    return value is not None and bool((value == number).all())


def _vectors(call: OpConversion) -> list[TensorId]:
    """The scale and the shift of a norm; empty if both are neutral."""
    is_neutral = (_repeats(call.op, index, number) for index, (_, number) in enumerate(NEUTRAL, 1))
    return [] if all(is_neutral) else call.operands()[1:]


def _batch_norm_problems(op: OpView) -> Problems:
    yield from _affine_problems(op)
    if op.attrs["training"]:
        yield "it is in training mode, which computes statistics"
    rank = op.arg_tensor(0).ndim
    if not 2 <= rank <= 5:
        yield f"the data has rank {rank}; supported ranks are 2 to 5"
    elif op.attrs["axis"] % rank == 0:
        yield "it normalises along the batch"
    yield symbolic_problem(op, 1, "the scale")


@converts(
    "relax.nn.batch_norm",
    operands=(*AFFINE, "the mean", "the variance"),
    result=None,
    unless=_batch_norm_problems,
)
def _batch_norm(call: OpConversion) -> tuple[TensorId | None, ...]:
    """Arithmetic per channel with the running statistics, which inference does not update."""
    graph = call.graph
    data, scale, shift, mean, variance = call.operands()
    rank, channels = len(graph.shape(data)), graph.shape(variance)
    axis = call.attrs["axis"] % rank
    forward = (0, axis, *(other for other in range(1, rank) if other != axis))
    guarded = graph.add(Kind.ELTWISE, (variance,), channels, linear(1.0, call.attrs["epsilon"]))
    inverse = graph.add(Kind.RECIPROCAL_ROOT, (guarded,), channels)
    factor = graph.add(Kind.BINARY, (inverse, scale), channels, Arithmetic("binary_mul"))
    result = permute(graph, data, forward)
    for algorithm, vector in (("binary_sub", mean), ("binary_mul", factor), ("binary_add", shift)):
        operands = (result, along_axis(graph, vector, 1, rank))
        result = graph.add(Kind.BINARY, operands, graph.shape(result), Arithmetic(algorithm))
    return permute(graph, result, Permutation(forward).inverse), mean, variance


def _rows_problem(op: OpView) -> str | None:
    """Why the normalised axes cannot be flattened into one row, or None."""
    rank = op.arg_tensor(0).ndim
    axes = [axis % rank for axis in op.attrs["axes"]]
    if axes != list(range(rank - len(axes), rank)):
        return f"it normalises over axes {op.attrs['axes']}; only the last axes are supported"
    return None


def _layer_norm_problems(op: OpView) -> Problems:
    yield from _affine_problems(op)
    yield _rows_problem(op)


def _rms_norm_problems(op: OpView) -> Problems:
    yield epsilon_problem(op)
    yield _rows_problem(op)


@converts("relax.nn.layer_norm", operands=AFFINE, unless=_layer_norm_problems)
@converts("relax.nn.rms_norm", operands=AFFINE[:2], unless=_rms_norm_problems)
def _row_norm(call: OpConversion) -> TensorId:
    """A norm over the last axes, which are flattened into one and restored afterwards."""
    graph, shape = call.graph, call.shape
    is_centred = call.op.name == "relax.nn.layer_norm"
    data, vectors = call.operand(0), _vectors(call) if is_centred else call.operands()[1:]
    outer = len(shape) - len(call.attrs["axes"])
    size = volume(shape[outer:])
    rows = (*_axes_of_rows(shape[:outer]), size)
    inputs = [reshape(graph, data, rows), *(reshape(graph, vector, (size,)) for vector in vectors)]
    kind = Kind.LAYER_NORM if is_centred else Kind.RMS_NORM
    return reshape(graph, graph.add(kind, inputs, rows, Norm(call.attrs["epsilon"])), shape)


def _axes_of_rows(outer: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The axes that are not normalised as one to four, which oneDNN takes."""
    joined = len(outer) - _MOST_AXES_OF_ROWS + 1
    if joined > 1:
        return (volume(outer[:joined]), *outer[joined:])
    return outer or (1,)


def _group_norm_problems(op: OpView) -> Problems:
    yield from _affine_problems(op)
    rank = op.arg_tensor(0).ndim
    axes = sorted(axis % rank for axis in op.attrs["axes"])
    if axes[:1] == [0] and (extents_of(op.arg_types[0]) or (0,))[0] == 1:
        del axes[0]  # PyTorch folds the batch into the channels, and lists the remaining batch axis too
    if op.attrs["channel_axis"] % rank != 1 or axes != list(range(2, rank)):
        yield f"it normalises over axes {op.attrs['axes']} with the channels on {op.attrs['channel_axis']}"
    yield symbolic_problem(op, 1, "the scale")


@converts("relax.nn.group_norm", "relax.nn.instance_norm", operands=AFFINE, unless=_group_norm_problems)
def _group_norm(call: OpConversion) -> TensorId:
    """A group norm; an instance norm has one group per channel."""
    groups = call.attrs.get("num_groups", call.shape[1])
    operands = (call.operand(0), *_vectors(call))
    return call.add(Kind.GROUP_NORM, operands, GroupNorm(call.attrs["epsilon"], groups))


@converts("relax.nn.softmax", "relax.nn.log_softmax")
def _softmax(call: OpConversion) -> TensorId:
    algorithm = "softmax_log" if call.op.name == "relax.nn.log_softmax" else "softmax_accurate"
    axis = call.attrs["axis"] % len(call.shape)
    return call.add(Kind.SOFTMAX, [call.operand(0)], Softmax(axis, algorithm))


REDUCTIONS = {
    "relax.mean": "reduction_mean",
    "relax.sum": "reduction_sum",
    "relax.max": "reduction_max",
    "relax.min": "reduction_min",
    "relax.prod": "reduction_mul",
}


def reduced_axes(op: OpView) -> tuple[int, ...]:
    """The nonnegative axes of a reduction; all axes if the op names none."""
    axes, rank = op.attrs["axis"], op.arg_tensor(0).ndim
    return tuple(range(rank)) if axes is None else tuple(sorted({axis % rank for axis in axes}))


def reduction_problem(op: OpView) -> Problems:
    """Why a reduction cannot be claimed."""
    if not reduced_axes(op):
        yield "it has no axes to reduce"


@converts(*REDUCTIONS, unless=reduction_problem)
def _reduction(call: OpConversion) -> TensorId:
    """A reduction that keeps the axes, then a view that drops them if needed."""
    return reshape(call.graph, _reduced(call, call.operand(0), REDUCTIONS[call.op.name]), call.shape)


@converts("relax.variance", unless=reduction_problem)
def _variance(call: OpConversion) -> TensorId:
    """The mean square of the difference from the mean."""
    graph, data = call.graph, call.operand(0)
    shape = graph.shape(data)
    mean = _reduced(call, data, "reduction_mean")
    centred = graph.add(Kind.BINARY, (data, mean), shape, Arithmetic("binary_sub"))
    squared = graph.add(Kind.ELTWISE, (centred,), shape, Curve("eltwise_square"))
    return reshape(graph, _reduced(call, squared, "reduction_mean"), call.shape)


def _reduced(call: OpConversion, data: TensorId, algorithm: str) -> TensorId:
    axes = reduced_axes(call.op)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(call.graph.shape(data)))
    return call.graph.add(Kind.REDUCTION, (data,), kept, Reduction(algorithm))
