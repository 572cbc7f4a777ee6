"""`Slice` from and to places that are computed from data.

TVM's op for it makes a tensor of a negative extent where the end lies in front of the start. Here the length
is a shape variable, and the elements are gathered.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_converters.expand import computed_extents
from annotated_region.importing.onnx_converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_converters.folding import known_numbers
from annotated_region.importing.onnx_converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_converters.registry import converts

__all__: list[str] = []

_WHOLE = ("int32", "int64")


@converts("", "Slice", (3, 5))
def _sliced(node: OnnxNode) -> relax.Expr:
    """Bounds that are constant, or computed from extents, are left to TVM."""
    bounds = [_as_shape(node, place) for place in (1, 2)]
    if None not in bounds:
        return replace(node, inputs=(node.inputs[0], *bounds, *node.inputs[3:])).by_tvm()
    data = node.tensor(0)
    starts, ends = (_list(node, place) for place in (1, 2))
    (count,) = node.shape(starts)
    node.require(isinstance(count, int) and node.shape(ends) == (count,), "has bounds of unknown number")
    assert isinstance(count, int)
    axes, steps = _constants(node, 3, list(range(count))), _constants(node, 4, [1] * count)
    rank = rank_of(data)
    node.require(len(axes) == len(steps) == count, f"has {count} bounds for the axes {axes}, steps {steps}")
    node.require(all(-rank <= axis < rank for axis in axes) and all(steps), f"has axes {axes}, steps {steps}")
    for place, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        at = relax.const([place], "int64")
        begin, end = (node.emit(relax.op.take(each, at, 0)) for each in (starts, ends))
        data = _along(node, data, axis % rank, begin, end, step)
    return data


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
