"""Idioms of values that are partly overwritten at computed indices, and of reversed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.values import UNIT, Noise, Value, disturbed, moved, planes_of
from kits.dense_graphs.views import viewed

__all__ = ["UPDATED", "UPDATES"]

Array = np.ndarray


def flipped(bench: Bench) -> int:
    """Along one axis, backwards."""
    value = viewed(bench, bench.value())
    axis = bench.number(0, len(bench.shape_of(value)) - 1)
    return bench.unary("flip", value, axis=axis)


def updated(bench: Bench) -> int | None:
    """One place of each line, or one slice, is overwritten; no place twice, as the order is undefined."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if not shape or not all(isinstance(extent, int) for extent in shape):
        return None
    return bench.one_of((_lines_updated, _slice_updated, _element_updated))(bench, value, shape)


def _lines_updated(bench: Bench, value: int, shape: Sequence[Dim]) -> int:
    axis = bench.number(0, len(shape) - 1)
    places = tuple(1 if index == axis else extent for index, extent in enumerate(shape))
    indices = _indices(bench, shape[axis], places)
    updates = bench.source(places, constant=0.3)
    attrs = {"axis": axis, "reduction": "update"}
    return bench.add("scatter_elements", (value, indices, updates), attrs, shape)


def _slice_updated(bench: Bench, value: int, shape: Sequence[Dim]) -> int:
    count = bench.number(1, min(2, len(shape)))
    indices = tuple(_indices(bench, extent, (1,)) for extent in shape[:count])
    joined = bench.add("stack", indices, {"axis": -1}, (1, count), "int64")
    updates = bench.source((1, *shape[count:]), constant=0.3)
    return bench.add("scatter_nd", (value, joined, updates), {"reduction": "update"}, shape)


def _element_updated(bench: Bench, value: int, shape: Sequence[Dim]) -> int:
    indices = [_indices(bench, extent, (1,)) for extent in shape]
    updates = bench.source((1,), constant=0.3)
    return bench.add("index_put", (value, updates, *indices), {}, shape)


def _indices(bench: Bench, extent: Dim, shape: Sequence[Dim]) -> int:
    given = bench.source(shape, "whole", "int64", constant=0.2)
    limit = bench.add("constant", (), {"value": extent, "key": len(bench.nodes)}, (), "int64")
    return bench.binary("floor_mod", given, limit, "int64")


COMBINED: Mapping[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _combined(noise: Noise, reduction: str, index: tuple[Array, ...], args: Sequence[Any]) -> Value:
    """Updates combined with the data, in any order: of whole numbers, which nobody rounds, or of a few."""
    data, _, updates = args

    def combine(plane: Array, new: Array) -> Array:
        result = np.array(plane)
        COMBINED[reduction].at(result, index, new)
        return result

    planes = planes_of(combine, [data, updates])
    if not data.is_float:
        return Value(*planes, np.ones(planes[0].shape, bool))
    scale = combine(np.abs(data.clean), np.abs(updates.clean)) + np.abs(data.clean)
    is_whole = all(np.all(each.exact & (each.clean == np.rint(each.clean))) for each in (data, updates))
    return disturbed(noise, planes, scale, np.full(scale.shape, is_whole), 8 * UNIT)


def _put_along_axis(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    index = args[1].clean
    if attrs["reduction"] in COMBINED:
        places = list(np.indices(index.shape))
        places[attrs["axis"]] = index
        return _combined(noise, attrs["reduction"], tuple(places), args)

    def put(data: Array, updates: Array) -> Array:
        result = np.array(data)
        np.put_along_axis(result, index, updates, attrs["axis"])
        return result

    return moved(put, [args[0], args[2]])


def _put_slices(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    index = tuple(np.moveaxis(args[1].clean, -1, 0))
    if attrs["reduction"] in COMBINED:
        return _combined(noise, attrs["reduction"], index, args)
    return moved(_put_at(index), [args[0], args[2]])


def _put_elements(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    return moved(_put_at(tuple(index.clean for index in args[1])), [args[0], args[2]])


def _put_at(indices: tuple[Array, ...]) -> Callable[[Array, Array], Array]:
    def put(data: Array, updates: Array) -> Array:
        result = np.array(data)
        result[indices] = updates
        return result

    return put


UPDATES: tuple[tuple[float, Idiom], ...] = ((0.5, flipped), (0.8, updated))
"""Weights and idioms."""

UPDATED: Mapping[str, Callable[[Noise, Mapping[str, Any], Sequence[Any]], Value]] = {
    "scatter_elements": _put_along_axis,
    "scatter_nd": _put_slices,
    "index_put": _put_elements,
}
"""What the reference computes."""
