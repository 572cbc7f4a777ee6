"""Ops that depend on the order of elements: top k, sorting, medians, positions in sorted vectors."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.conversions.reduction import reduced
from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require

__all__: list[str] = []


def _ordered(emission: Emission, data: str, count: Dim, axis: int, is_largest: bool) -> tuple[str, str]:
    """The first `count` elements in order, with their indices; equal elements keep their order."""
    first = emission.shape([count])
    values, places = emission.nodes("TopK", [data, first], 2, axis=axis, largest=int(is_largest))
    return values, places


@converter("relax.topk")
def _largest(emission: Emission, op: OpView) -> str | tuple[str | None, ...]:
    data, count = emission.operand(op.args[0]), op.attrs["k"]
    require(isinstance(count, int), "the number of elements is symbolic")
    extent = extents_of(op.arg_types[0])[op.attrs["axis"]]
    whole = count if count > 0 else extent
    values, indices = _ordered(emission, data, whole, op.attrs["axis"], bool(op.attrs["largest"]))
    if op.attrs["ret_type"] == "values":
        return values
    indices = emission.cast(indices, str(op.attrs["dtype"]))
    return (values, indices) if op.attrs["ret_type"] == "both" else indices


@converter("relax.sort", "relax.argsort")
def _sort(emission: Emission, op: OpView) -> str:
    data, axis = emission.operand(op.args[0]), op.attrs["axis"]
    extent = extents_of(op.arg_types[0])[axis]
    values, places = _ordered(emission, data, extent, axis, bool(op.attrs["descending"]))
    return values if op.name == "relax.sort" else emission.cast(places, str(op.out_tensor.dtype))


@converter("relax.median")
def _median(emission: Emission, op: OpView) -> str | tuple[str | None, ...]:
    """The middle element, the lower one of two; along one axis also its index."""
    data, axes, extents = emission.operand(op.args[0]), op.attrs["axis"], list(extents_of(op.arg_types[0]))
    require(axes is None or len(axes) == 1, "a median over several axes")
    if axes is None:
        data, extents = emission.node("Reshape", data, emission.ints([-1])), [_count(extents)]
    axis = (axes[0] if axes else 0) % len(extents)
    extent = extents[axis]
    if not isinstance(extent, int):
        raise Declined("a median along a symbolic extent")
    parts = _ordered(emission, data, extent, axis, False)
    middle = emission.ints([(extent - 1) // 2])
    values, places = (emission.node("Gather", part, middle, axis=axis) for part in parts)
    if axes is None:
        return emission.node("Reshape", values, emission.ints(_ones(op)))
    if not op.attrs["keepdims"]:
        values, places = (emission.node("Squeeze", part, emission.ints([axis])) for part in (values, places))
    return values, places


def _ones(op: OpView) -> list[int]:
    return [1] * len(extents_of(op.out_type))


def _count(extents: list[Dim]) -> int:
    count = 1
    for extent in extents:
        if not isinstance(extent, int):
            raise Declined("a median of a symbolic number of elements")
        count *= extent
    return count


@converter("relax.bucketize")
def _bucketize(emission: Emission, op: OpView) -> str:
    """The number of boundaries below an element, or not above it."""
    data, boundaries = (emission.operand(argument) for argument in op.args)
    require(emission.dtype(data) == emission.dtype(boundaries), "boundaries of another data type")
    require(len(extents_of(op.arg_types[1])) == 1, "boundaries of several axes")
    rank = len(extents_of(op.arg_types[0]))
    column = emission.node("Unsqueeze", data, emission.ints([rank]))
    below = emission.node("GreaterOrEqual" if op.attrs["right"] else "Greater", column, boundaries)
    counted = reduced(emission, "ReduceSum", emission.cast(below, "int32"), [rank], keepdims=False)
    return emission.cast(counted, str(op.out_tensor.dtype))
