"""`Slice` from and to places that are computed from data, and along axes of unknown extent.

TVM's op for places that are data makes a tensor of a negative extent where the end lies in front of the
start. Here the length is a shape variable, and the elements are gathered.

Exporters write the largest and the smallest number for both ends of an axis. Along one of unknown extent TVM
computes with them: its extents overflow if the step is negative, and are hard to compare otherwise. Here the
end is the extent, and a step backwards is one forwards along the reversed axis, where place ``-i - 1`` is
place ``i``, also along an axis of known extent, as targets take no steps backwards::

    Slice(x, starts=-1, ends=-9223372036854775807, steps=-2)    =>    flip(x)[0:n:2]

Where the end lies in front of the start, nothing is between them, and TVM's result has a negative extent.
Such bounds become 0 and 0. If one bound counts from the end and the other from the front, this depends on the
extent of the axis; then the length is computed::

    Slice(x, starts=2, ends=-1)    =>    begin = min(2, n), x[begin : begin + max(n - 3, 0)]

Bounds that are computed from extents give their difference as the extent of the result, and TVM reads beyond
the data if they lie outside. Each call is checked for it (`annotated_region.importing.equations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from tvm import relax, tirx

from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.importing.onnx_models.converters.expand import computed_extents
from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, has_shape, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.types import expect

__all__ = ["require_order"]

_WHOLE = ("int32", "int64")


@converts("", "Slice", (3, 5))
def _sliced(node: OnnxNode) -> relax.Expr:
    """Bounds that are constant, or computed from extents, are left to TVM."""
    bounds = [_as_shape(node, place) for place in (1, 2)]
    if None not in bounds:
        return _between_numbers(replace(node, inputs=(node.inputs[0], *bounds, *node.inputs[3:])))
    data = node.tensor(0)
    starts, ends = (_list(node, place) for place in (1, 2))
    (count,) = node.shape(starts)
    node.require(isinstance(count, int) and node.shape(ends) == (count,), "has bounds of unknown number")
    assert isinstance(count, int)
    axes, steps = _axes_and_steps(node, count)
    for place, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        at = relax.const([place], "int64")
        begin, end = (node.emit(relax.op.take(each, at, 0)) for each in (starts, ends))
        data = _along(node, data, axis, begin, end, step)
    return data


def _axes_and_steps(node: OnnxNode, count: int) -> tuple[list[int], list[int]]:
    """The axes, counted from the front, and the steps along them."""
    axes, steps = _constants(node, 3, list(range(count))), _constants(node, 4, [1] * count)
    rank = rank_of(node.tensor(0))
    node.require(len(axes) == len(steps) == count, f"has {count} bounds for the axes {axes}, steps {steps}")
    node.require(all(-rank <= axis < rank for axis in axes) and all(steps), f"has axes {axes}, steps {steps}")
    return [axis % rank for axis in axes], steps


def _between_numbers(node: OnnxNode) -> relax.Expr:
    """Bounds that are known: a slice between numbers, which may lie outside, then one between extents."""
    starts, ends = (_known_bounds(node, place) for place in (1, 2))
    data = node.inputs[0]
    if starts is None or ends is None or data is None or not has_shape(data):
        return _with_constants(node).by_tvm()
    axes, steps = _axes_and_steps(node, len(starts))
    shape = node.shape(data)
    given = [*map(_AxisSlice, axes, starts, ends, steps)]
    windows = [each.along(shape[each.axis]) for each in given]
    if windows == given and all(_is_left_to_tvm(each, shape) for each in windows):
        return node.by_tvm()
    for each in windows:
        if each.step < 0:
            data = node.emit(relax.op.flip(data, each.axis))
    forward = [each.forward(shape[each.axis]) for each in windows]
    data = _part(node, data, [each for each in forward if each.is_constant], is_inside=False)
    return _part(node, data, [each for each in forward if not each.is_constant], is_inside=True)


@dataclass(frozen=True, slots=True)
class _AxisSlice:
    """The bounds along one axis.

    Attributes
    ----------
    axis, begin, end, step
        As `Slice` has them.
    extent
        The extent of the axis, if the bounds are those of a step forward.
    is_clamped
        Whether the bounds are places of the axis, in order, whatever its extent.
    """

    axis: int
    begin: Extent
    end: Extent
    step: int
    extent: Extent = 0
    is_clamped: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the bounds are numbers, or the end is that of the axis; they are clamped to the axis."""
        return isinstance(self.begin, int) and (isinstance(self.end, int) or self.end is self.extent)

    @property
    def has_numbers(self) -> bool:
        """Whether both bounds are numbers."""
        return isinstance(self.begin, int) and isinstance(self.end, int)

    def is_empty(self, extent: Extent) -> bool:
        """Whether nothing is between the bounds: along this axis, or along one of any extent."""
        if not isinstance(self.begin, int) or not isinstance(self.end, int):
            return False
        if isinstance(extent, int):
            return not self.places(extent)
        if self.step < 0 and self.begin < -1:
            return False  # before a short axis, which means its first element
        low, high = (self.begin, self.end) if self.step > 0 else (self.end, self.begin)
        return (low < 0) == (high < 0) and high <= low

    def along(self, extent: Extent) -> _AxisSlice:
        """The same window with bounds that TVM reads as ONNX does, also where it holds nothing."""
        if self.is_empty(extent):
            return _AxisSlice(self.axis, 0, 0, 1)
        begins_before = isinstance(self.begin, int) and isinstance(extent, int) and self.begin < -extent
        is_first = self.step < 0 and begins_before and isinstance(self.end, int)
        return _AxisSlice(self.axis, 0, 1, 1) if is_first else self

    def places(self, extent: int) -> range:
        """The places along an axis of this extent, as ONNX clamps the bounds, which are numbers.

        Unlike Python's, a step backwards that begins before the axis takes its first element.
        """
        bounds = (expect(int, each) for each in (self.begin, self.end))
        least, most = (0, extent) if self.step > 0 else (-1, extent - 1)
        begin, end = (each + extent if each < 0 else each for each in bounds)
        return range(min(max(begin, 0), most), min(max(end, least), most), self.step)

    def forward(self, extent: Extent) -> _AxisSlice:
        """The window of the reversed axis if the step is negative; bounds far outside become ends."""
        if self.step < 0 and isinstance(extent, int) and self.has_numbers:
            places = self.places(extent)
            first, last = (extent - 1 - place for place in (places[0], places[-1]))
            return _AxisSlice(self.axis, first, last + 1, abs(self.step), extent)
        begin, end = (self.begin, self.end) if self.step > 0 else (-self.begin - 1, -self.end - 1)
        if isinstance(begin, int) and begin <= -_FARTHEST:
            begin = 0
        if isinstance(end, int) and end >= _FARTHEST:
            end = extent
        if not isinstance(extent, int) and isinstance(begin, int):
            is_mixed = isinstance(end, int) and (begin < 0) != (end < 0)
            if is_mixed or (self.step < 0 and begin > 0):
                return self._clamped(begin, end, extent)
        if not isinstance(begin, int) or not (isinstance(end, int) or end is extent):
            begin, end = (_counted_from_the_front(each, extent) for each in (begin, end))
        if bounds_of(extent - end)[1] <= 0:
            end = extent
        return _AxisSlice(self.axis, begin, end, abs(self.step), extent)

    def _clamped(self, begin: int, end: Extent, extent: relax.Expr) -> _AxisSlice:
        """Of bounds whose order depends on the extent: the place of the first, and the length from there."""
        zero = _expression(0)
        most = extent if self.step > 0 else extent - 1  # backwards, a step begins at an element
        first = tirx.Max(extent + begin, zero) if begin < 0 else tirx.Min(_expression(begin), most)
        if self.step < 0 and begin > 0:
            first = tirx.Max(first, zero)
        if isinstance(end, int) and begin >= 0 > end and self.step > 0:
            length = extent + (end - begin)
        elif isinstance(end, int):
            length = (tirx.Max(extent + end, zero) if end < 0 else tirx.Min(_expression(end), extent)) - first
        else:
            length = _expression(end) - first
        last = first + tirx.Max(length, zero)
        return _AxisSlice(self.axis, first, last, abs(self.step), extent, is_clamped=True)


_FARTHEST = 2**31 - 1
"""Bounds as far away as this are an end of the axis, whatever its extent."""


def _with_constants(node: OnnxNode) -> OnnxNode:
    """The node with constants in the place of shapes that are numbers, by which TVM slices no shape."""
    numbers = [None if each is None else known_numbers(each) for each in node.inputs]
    inputs = [
        given if known is None or not isinstance(given, relax.ShapeExpr) else relax.const(known, "int64")
        for given, known in zip(node.inputs[1:], numbers[1:], strict=True)
    ]
    return replace(node, inputs=(node.inputs[0], *inputs))


def _counted_from_the_front(bound: Extent, extent: Extent) -> Extent:
    """A number below zero, or one that is computed from extents and never above it, counts from the end."""
    is_from_end = bound < 0 if isinstance(bound, int) else bounds_of(bound)[1] <= 0
    return extent + bound if is_from_end else bound


def _known_bounds(node: OnnxNode, place: int) -> list[Extent] | None:
    given = node.inputs[place]
    return None if given is None else numbers_of(node.builder, given)


def _is_left_to_tvm(window: _AxisSlice, shape: Sequence[Extent]) -> bool:
    """Numbers along an axis of known extent, in steps forward: targets know no others.

    TVM does the same with extents that its steps lead away from.
    """
    is_known = isinstance(shape[window.axis], int)
    return is_known and window.step > 0 if window.has_numbers else window.step < 0


def _part(node: OnnxNode, data: relax.Expr, windows: Sequence[_AxisSlice], *, is_inside: bool) -> relax.Expr:
    """The slice; where the bounds are not numbers each call is checked to be inside of the axes."""
    shape = node.shape(data)
    kept = [each for each in windows if (each.begin, each.step) != (0, 1) or each.end is not each.extent]
    for each in (each for each in kept if is_inside and not each.is_clamped):
        for low, high in pairwise((0, each.begin, each.end, shape[each.axis])):
            require_order(node, low, high)
    if not kept:
        return data
    bounds = [[getattr(each, name) for each in kept] for name in ("axis", "begin", "end", "step")]
    return node.emit(relax.op.strided_slice(data, *bounds, assume_inbound=is_inside))


def require_order(node: OnnxNode, low: Extent, high: Extent) -> None:
    """Each call is checked for the order of two extents, unless it holds for any extents."""
    if isinstance(low, int) and isinstance(high, int) and low <= high:
        return
    if bounds_of(high - low)[0] < 0:
        node.require_equal(tirx.Min(_expression(low), _expression(high)), low)


def _expression(extent: Extent) -> relax.Expr:
    return tirx.IntImm("int64", extent) if isinstance(extent, int) else extent


def _as_shape(node: OnnxNode, place: int) -> relax.Expr | None:
    """Bounds that are known while a model is read; None if there is one that is not."""
    given = node.inputs[place]
    if given is None or isinstance(given.ty, relax.ShapeType) or known_numbers(given) is not None:
        return given
    numbers = numbers_of(node.builder, given)
    return None if numbers is None else relax.ShapeExpr(numbers)


def _list(node: OnnxNode, place: int) -> relax.Expr:
    given = node.inputs[place]
    if given is not None and isinstance(given.ty, relax.ShapeType):
        return node.emit(relax.op.shape_to_tensor(given))
    bounds = node.tensor(place, _WHOLE, (1,))
    return bounds if dtype_of(bounds) == "int64" else node.emit(relax.op.astype(bounds, "int64"))


def _constants(node: OnnxNode, place: int, default: list[int]) -> list[int]:
    if not node.has(place):
        return default
    numbers = node.constant(node.tensor(place, _WHOLE, (1,)))
    if numbers is None:
        raise node.declined("has axes or steps that are not constant")
    return [int(number) for number in np.asarray(numbers)]


def _along(
    node: OnnxNode, data: relax.Expr, axis: int, begin: relax.Expr, end: relax.Expr, step: int
) -> relax.Expr:
    """Negative bounds count from the end, and bounds beyond an end are that end."""

    def number(value: int) -> relax.Expr:
        return relax.const(value, "int64")

    extent = node.emit(relax.op.shape_to_tensor(relax.ShapeExpr([node.shape(data)[axis]])))
    least, most = (0, extent) if step > 0 else (-1, node.emit(relax.op.subtract(extent, number(1))))

    def inside(bound: relax.Expr, lowest: int) -> relax.Expr:
        is_negative = node.emit(relax.op.less(bound, number(0)))
        from_end = node.emit(relax.op.add(bound, extent))
        place = node.emit(relax.op.where(is_negative, from_end, bound))
        return node.emit(relax.op.minimum(node.emit(relax.op.maximum(place, number(lowest))), most))

    first, last = inside(begin, 0), inside(end, least)
    low, high = (first, last) if step > 0 else (last, first)
    distance = node.emit(relax.op.add(node.emit(relax.op.subtract(high, low)), number(abs(step) - 1)))
    count = node.emit(relax.op.floor_divide(distance, number(abs(step))))
    (length,) = computed_extents(node, node.emit(relax.op.maximum(count, number(0))), 1)
    every = node.emit(relax.op.arange(0, length, 1, "int64"))
    places = node.emit(relax.op.add(node.emit(relax.op.multiply(every, number(step))), first))
    return node.emit(relax.op.take(data, places, axis))
