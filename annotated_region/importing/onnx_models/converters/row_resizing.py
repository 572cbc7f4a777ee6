"""`Resize` along an axis of symbolic extent, as rows that are taken and blended.

TVM cannot compile its own op for corners that stay, nor scale an extent by a fraction. Places are computed in
the call, in float32 as ONNX Runtime does, by ops that targets claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.shared_ops.interpolation import Interpolation
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["SymbolicScale", "resized_rows", "scaled_extent"]

_LARGEST_DENOMINATOR = 64
"""Of scales of symbolic extents: the products of such fractions and extents are exact in float32."""


@dataclass(frozen=True, slots=True)
class SymbolicScale:
    """The change of an axis whose extents need not be numbers.

    Attributes
    ----------
    before, after
        The extents.
    scale
        The scale that the model gives; without it, the quotient of the extents.
    """

    before: Extent
    after: Extent
    scale: float | None = None


def scaled_extent(node: OnnxNode, extent: Extent, scale: float) -> Extent:
    """A symbolic extent times a fraction, rounded down."""
    exact = Fraction(scale)
    node.require(
        exact.denominator <= _LARGEST_DENOMINATOR,
        f"scales an axis of symbolic extent by {scale}, which is no fraction of a small power of 2",
    )
    return (extent * exact.numerator) // exact.denominator


def resized_rows(
    node: OnnxNode, data: relax.Expr, axis: int, how: Interpolation, scale: SymbolicScale
) -> relax.Expr:
    """The data with an axis resized to the nearest element, or to means of two."""
    node.require(how.mode != "cubic" and not how.antialias, f"resizes the axis {axis} of symbolic extent")
    places = _places(node, how, scale)
    last = node.emit(relax.op.subtract(_number(node, scale.before), _single(1.0)))
    if how.mode == "nearest":
        nearest = node.emit(_ROUNDINGS[how.nearest_mode](node, places))
        return node.emit(relax.op.take(data, _index(node, _inside(node, nearest, last)), axis))
    inside = _inside(node, places, last)
    first = node.emit(relax.op.floor(inside))
    second = node.emit(relax.op.minimum(node.emit(relax.op.add(first, _single(1.0))), last))
    weights = node.emit(relax.op.subtract(inside, first))
    behind = rank_of(data) - 1 - axis
    if behind:
        weights = node.emit(relax.op.expand_dims(weights, list(range(1, behind + 1))))
    if dtype_of(data) != "float32":
        weights = node.emit(relax.op.astype(weights, dtype_of(data)))
    one, other = (node.emit(relax.op.take(data, _index(node, each), axis)) for each in (first, second))
    step = node.emit(relax.op.multiply(node.emit(relax.op.subtract(other, one)), weights))
    return node.emit(relax.op.add(one, step))


def _places(node: OnnxNode, how: Interpolation, scale: SymbolicScale) -> relax.Expr:
    """Where each row of the result lies among those of the data."""
    every = node.emit(relax.op.arange(0, scale.after, 1, "int64"))
    rows = node.emit(relax.op.astype(every, "float32"))
    before, after = (_number(node, each) for each in (scale.before, scale.after))
    if how.coordinates == "align_corners":
        last, last_after = (node.emit(relax.op.subtract(each, _single(1.0))) for each in (before, after))
        steps = node.emit(relax.op.maximum(last_after, _single(1.0)))
        return node.emit(relax.op.divide(node.emit(relax.op.multiply(rows, last)), steps))
    factor = node.emit(relax.op.divide(after, before)) if scale.scale is None else _single(scale.scale)
    if how.coordinates == "asymmetric":
        return node.emit(relax.op.divide(rows, factor))
    node.require(
        how.coordinates in ("half_pixel", "pytorch_half_pixel"),
        f"resizes an axis of symbolic extent by the coordinates {how.coordinates!r}",
    )
    half = _single(0.5)
    centres = node.emit(relax.op.divide(node.emit(relax.op.add(rows, half)), factor))
    places = node.emit(relax.op.subtract(centres, half))
    if how.coordinates == "half_pixel":
        return places
    is_line = node.emit(relax.op.greater(after, _single(1.0)))
    return node.emit(relax.op.where(is_line, places, _single(0.0)))


_ROUNDINGS: dict[str, Callable[[OnnxNode, relax.Expr], relax.Expr]] = {
    "round_prefer_floor": lambda node, each: relax.op.ceil(node.emit(relax.op.subtract(each, _single(0.5)))),
    "round_prefer_ceil": lambda node, each: relax.op.floor(node.emit(relax.op.add(each, _single(0.5)))),
    "floor": lambda _node, each: relax.op.floor(each),
    "ceil": lambda _node, each: relax.op.ceil(each),
}


def _inside(node: OnnxNode, places: relax.Expr, last: relax.Expr) -> relax.Expr:
    return node.emit(relax.op.minimum(node.emit(relax.op.maximum(places, _single(0.0))), last))


def _index(node: OnnxNode, places: relax.Expr) -> relax.Expr:
    return node.emit(relax.op.astype(places, "int64"))


def _number(node: OnnxNode, extent: Extent) -> relax.Expr:
    """An extent as one number in float32."""
    if isinstance(extent, int):
        return _single(float(extent))
    list_of_one = node.emit(relax.op.shape_to_tensor(relax.ShapeExpr([extent])))
    return node.emit(relax.op.astype(node.emit(relax.op.squeeze(list_of_one, [0])), "float32"))


def _single(number: float) -> relax.Expr:
    return relax.const(number, "float32")
