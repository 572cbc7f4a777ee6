"""Reductions, indices of extremes, running sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from annotated_region.backends.onnx_emitter.emission import Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__ = ["reduced"]

# From this opset on the axes of all reductions are an operand; those of ReduceSum are one in all opsets here.
AXES_AS_OPERAND = 18
MOST_FACTORS = 32
REDUCTIONS = {
    "relax.sum": "ReduceSum", "relax.mean": "ReduceMean", "relax.max": "ReduceMax",
    "relax.min": "ReduceMin", "relax.prod": "ReduceProd",
}  # fmt: skip


def reduced(emission: Emission, kind: str, data: str, axes: Sequence[int], keepdims: bool = True) -> str:
    """Emit a reduction; its axes are an operand or an attribute, depending on the opset."""
    if kind == "ReduceSum" or emission.opset >= AXES_AS_OPERAND:
        return emission.node(kind, data, emission.ints(axes), keepdims=int(keepdims))
    return emission.node(kind, data, axes=list(axes), keepdims=int(keepdims))


def _axes(op: OpView) -> list[int]:
    rank = len(extents_of(op.arg_types[0]))
    axes = op.attrs["axis"]
    return list(range(rank)) if axes is None else sorted(axis % rank for axis in axes)


@converter(*REDUCTIONS)
def _reduction(emission: Emission, op: OpView) -> str:
    axes = _axes(op)
    require(bool(axes), "it has no axes to reduce")
    data = emission.operand(op.args[0])
    if op.name == "relax.prod" and "int" in emission.dtype(data):
        return _integer_product(emission, op, data, axes)
    return reduced(emission, REDUCTIONS[op.name], data, axes, op.attrs["keepdims"])


def _integer_product(emission: Emission, op: OpView, data: str, axes: Sequence[int]) -> str:
    """Factor by factor, which wraps around as in TVM: ``ReduceProd`` of ONNX Runtime saturates."""
    extents = extents_of(op.arg_types[0])
    for axis in axes:
        extent = extents[axis]
        require(isinstance(extent, int), "the number of integers to multiply is symbolic")
        assert isinstance(extent, int)
        require(extent <= MOST_FACTORS, f"a product of {extent} integers along an axis")
        if extent > 1:
            sizes = emission.ints([1] * extent)
            factors = emission.nodes("Split", [data, sizes], extent, axis=axis)
            data = reduce(lambda left, right: emission.node("Mul", left, right), factors)
    return data if op.attrs["keepdims"] else emission.node("Squeeze", data, emission.ints(axes))


@converter("relax.variance", "relax.std")
def _spread(emission: Emission, op: OpView) -> str:
    data, axes = emission.operand(op.args[0]), _axes(op)
    require(bool(axes), "it has no axes to reduce")
    centred = emission.node("Sub", data, reduced(emission, "ReduceMean", data, axes))
    squares = emission.node("Mul", centred, centred)
    variance = reduced(emission, "ReduceMean", squares, axes, op.attrs["keepdims"])
    return variance if op.name == "relax.variance" else emission.node("Sqrt", variance)


@converter("relax.argmax", "relax.argmin")
def _extreme(emission: Emission, op: OpView) -> str:
    data, axis = emission.operand(op.args[0]), op.attrs["axis"]
    kind = "ArgMax" if op.name == "relax.argmax" else "ArgMin"
    if axis is not None:
        position = emission.node(kind, data, axis=axis, keepdims=int(op.attrs["keepdims"]))
    else:
        flat = emission.node("Reshape", data, emission.ints([-1]))
        place = emission.node(kind, flat, axis=0, keepdims=1)
        position = emission.node("Reshape", place, emission.ints([1] * len(extents_of(op.out_type))))
    return emission.cast(position, str(op.out_tensor.dtype))


@converter("relax.cumsum")
def _running_sum(emission: Emission, op: OpView) -> str:
    data, axis = emission.cast(emission.operand(op.args[0]), str(op.out_tensor.dtype)), op.attrs["axis"]
    if axis is None:
        data, axis = emission.node("Reshape", data, emission.ints([-1])), 0
    exclusive = int(bool(op.attrs["exclusive"]))
    return emission.node("CumSum", data, emission.number(axis, "int64"), exclusive=exclusive)
