"""Idioms of values that are partly overwritten at computed indices, and of reversed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.values import Noise, Value, moved
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


def _put_along_axis(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    index = args[1].clean

    def put(data: Array, updates: Array) -> Array:
        result = np.array(data)
        np.put_along_axis(result, index, updates, attrs["axis"])
        return result

    return moved(put, [args[0], args[2]])


def _put_slices(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    return moved(_put_at(tuple(np.moveaxis(args[1].clean, -1, 0))), [args[0], args[2]])


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
