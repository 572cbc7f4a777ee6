"""The reference's ops that move elements: views, joins, parts, copies, padding, nearest pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from kits.dense_graphs.values import UNIT, Noise, UnfitValuesError, Value, disturbed, moved, source

__all__ = ["MOVEMENT"]

Array = np.ndarray
Compute = Callable[[Noise, Mapping[str, Any], Sequence[Any]], Any]


def _moving(move: Callable[..., Array]) -> Compute:
    """An op on one tensor; `move` takes a plane, the other arguments and the attributes."""

    def compute(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        return moved(lambda plane: move(plane, attrs, *args[1:]), args[:1])

    return compute


def _squeeze(x: Array, attrs: Mapping[str, Any]) -> Array:
    return np.squeeze(x, None if attrs["axis"] is None else tuple(attrs["axis"]))


def _expand(x: Array, attrs: Mapping[str, Any]) -> Array:
    return np.expand_dims(x, tuple(attrs["axis"]))


def _permute(x: Array, attrs: Mapping[str, Any]) -> Array:
    return np.transpose(x, attrs["axes"])


def _joined(join: Callable[..., Array]) -> Compute:
    def compute(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        axis = 0 if attrs["axis"] is None else attrs["axis"]
        return moved(lambda *planes: join(planes, axis=axis), args[0])

    return compute


def _split(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[Value, ...]:
    data, axis = args[0], attrs["axis"]
    given = attrs["indices_or_sections"]
    extent = data.clean.shape[axis]
    if isinstance(given, tuple):
        borders = [0, *(min(int(each), extent) for each in given), extent]
    else:
        size = -(-extent // int(given))
        borders = [min(index * size, extent) for index in range(int(given) + 1)]
    return tuple(_part(data, axis, slice(a, b)) for a, b in pairwise(borders))


def _part(data: Value, axis: int, part: slice) -> Value:
    index: list[slice] = [slice(None)] * data.clean.ndim
    index[axis] = part
    return moved(lambda plane: plane[tuple(index)], [data])


def _slice(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, axes, begins, ends, *steps = args
    index: list[slice] = [slice(None)] * data.clean.ndim
    strides = steps[0] if steps else (1,) * len(axes)
    for axis, begin, end, step in zip(axes, begins, ends, strides, strict=True):
        index[axis] = slice(begin, end, step)
    return moved(lambda plane: plane[tuple(index)], [data])


def _take(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    index, axis = args[1].clean, attrs["axis"]
    if index.size and not args[0].clean.shape[axis]:
        raise UnfitValuesError("nothing is taken from")
    mode = {"fast": "raise"}.get(attrs["mode"], attrs["mode"])
    return moved(lambda plane: np.take(plane, index, axis=axis, mode=mode), args[:1])


def _gather_elements(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    index, axis = args[1].clean, attrs["axis"]
    return moved(lambda plane: np.take_along_axis(plane, index, axis), args[:1])


def _gather_nd(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    indices = tuple(np.moveaxis(args[1].clean, -1, 0))
    return moved(lambda plane: plane[indices], args[:1])


def _index_tensor(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    indices = tuple(index.clean for index in args[1])
    return moved(lambda plane: plane[indices], args[:1])


def _one_hot(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """One number at the place of an index, and another elsewhere; everywhere if it is outside."""
    indices, on, off = args
    places = np.arange(attrs["depth"]) == indices.clean[..., None]
    chosen = np.where(places, on, off).astype(attrs["result_dtype"])
    return source(np.moveaxis(chosen, -1, attrs["axis"]))


def _arange(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    return source(np.arange(*args, dtype=attrs["result_dtype"]))


def _filling(fill: Callable[..., Array]) -> Compute:
    def compute(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        return source(np.asarray(fill(*args)).astype(attrs["result_dtype"]))

    return compute


BORDERS: Mapping[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def _pad(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    widths = [int(width) for width in attrs["pad_width"]]
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    if attrs["pad_mode"] in BORDERS:
        if not args[0].clean.size:
            raise UnfitValuesError("nothing has no border")
        return moved(lambda plane: np.pad(plane, pairs, BORDERS[attrs["pad_mode"]]), args[:1])
    value = float(np.float32(attrs["pad_value"]))

    def pad(plane: Array) -> Array:
        filling = True if plane.dtype == bool else value
        return np.pad(plane, pairs, constant_values=filling)

    return moved(pad, args[:1])


def _positions(before: int, after: int, mode: str) -> Array:
    """Where the pixels of a resized axis lie on the old one."""
    places = np.arange(after)
    if mode == "align_corners":
        return places * (before - 1) / max(after - 1, 1)
    if mode == "asymmetric":
        return places * before / after
    return (places + 0.5) * before / after - 0.5


ROUNDED: Mapping[str, Callable[[Array], Array]] = {
    "floor": lambda position: np.floor(position + 1e-5),
    "ceil": lambda position: np.ceil(position - 1e-5),
    "round_prefer_floor": lambda position: np.ceil(position - 0.5),
    "round_prefer_ceil": lambda position: np.floor(position + 0.5),
}
"""As TVM has them; half a pixel of ``round`` goes up or down, as the processor has it."""


def _nearest(plane: Array, axis: int, after: int, attrs: Mapping[str, Any]) -> Array:
    before = plane.shape[axis]
    position = _positions(before, after, attrs["coordinate_transformation_mode"])
    method = attrs["rounding_method"]
    if method == "round" and np.any(np.abs(position % 1 - 0.5) < 1e-4):
        raise UnfitValuesError("a pixel lies between two")
    method = "round_prefer_floor" if method == "round" else method
    return np.asarray(
        np.take(plane, np.clip(ROUNDED[method](position), 0, before - 1).astype(int), axis=axis)
    )


def _weighted(plane: Array, axis: int, low: Array, weights: Sequence[Array]) -> Array:
    """The sum of neighbours, the first of which stands at `low`; beyond the border the last one is read."""
    shape = [1] * plane.ndim
    shape[axis] = -1
    last = plane.shape[axis] - 1
    parts = (
        np.take(plane, np.clip(low + place, 0, last), axis) * weight.reshape(shape)
        for place, weight in enumerate(weights)
    )
    return np.asarray(sum(parts))


def _linear(plane: Array, axis: int, after: int, attrs: Mapping[str, Any]) -> Array:
    before = plane.shape[axis]
    position = np.clip(_positions(before, after, attrs["coordinate_transformation_mode"]), 0, before - 1)
    low = np.floor(position).astype(int)
    part = position - low
    return _weighted(plane, axis, low, [1 - part, part])


def _cubic(plane: Array, axis: int, after: int, attrs: Mapping[str, Any]) -> Array:
    """By Keys' kernel (1981) of four neighbours."""
    alpha = float(attrs["cubic_alpha"])
    position = _positions(plane.shape[axis], after, attrs["coordinate_transformation_mode"])
    low = np.floor(position).astype(int)
    part = position - low

    def near(x: Array) -> Array:
        return np.asarray((alpha + 2) * x**3 - (alpha + 3) * x**2 + 1)

    def far(x: Array) -> Array:
        return np.asarray(alpha * (x**3 - 5 * x**2 + 8 * x - 4))

    return _weighted(plane, axis, low - 1, [far(1 + part), near(part), near(1 - part), far(2 - part)])


def _resize(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, size = args[:2]
    axes = [axis for axis, letter in enumerate(attrs["layout"]) if letter not in "NC"]
    way = {"nearest_neighbor": _nearest, "linear": _linear, "cubic": _cubic}[attrs["method"]]

    def resize(plane: Array) -> Array:
        for axis, after in zip(axes, size, strict=True):
            plane = way(plane, axis, after, attrs)
        return plane

    if way is _nearest:
        return moved(resize, [data])
    clean, wide, sharp = resize(data.clean), resize(data.wide), resize(data.sharp)
    nothing = np.zeros(clean.shape, bool)
    # Where pixels lie is rounded, too: by a part of the difference between neighbours.
    scale = np.full(clean.shape, np.abs(data.clean).max(initial=0.0))
    return disturbed(noise, (clean, wide, sharp), scale, nothing, 16 * UNIT)


def _triangle(keep: Callable[..., Array]) -> Compute:
    """What is above or below a diagonal; zeros, which are exact, elsewhere."""

    def compute(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        shift = int(args[1])

        def cut(plane: Array) -> Array:
            kept = keep(np.ones(plane.shape, bool), shift)
            return np.where(kept, plane, plane.dtype == bool).astype(plane.dtype)

        return moved(cut, args[:1])

    return compute


MOVEMENT: Mapping[str, Compute] = {
    "reshape": _moving(lambda x, _attrs, shape: x.reshape(shape)),
    "flatten": _moving(lambda x, _attrs: x.reshape(-1)),
    "squeeze": _moving(_squeeze),
    "expand_dims": _moving(_expand),
    "permute_dims": _moving(_permute),
    "broadcast_to": _moving(lambda x, _attrs, shape: np.broadcast_to(x, shape)),
    "tile": _moving(lambda x, attrs: np.tile(x, attrs["repeats"])),
    "repeat": _moving(lambda x, attrs: np.repeat(x, attrs["repeats"], attrs["axis"])),
    "concat": _joined(np.concatenate),
    "stack": _joined(np.stack),
    "split": _split,
    "strided_slice": _slice,
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "index_tensor": _index_tensor,
    "arange": _arange,
    "one_hot": _one_hot,
    "shape_to_tensor": _filling(np.asarray),
    "full": _filling(lambda shape, value: np.full(shape, value.clean)),
    "zeros": _filling(np.zeros),
    "ones": _filling(np.ones),
    "full_like": _filling(lambda like, value: np.full(like.clean.shape, value.clean)),
    "zeros_like": _filling(lambda like: np.zeros(like.clean.shape)),
    "ones_like": _filling(lambda like: np.ones(like.clean.shape)),
    "nn.pad": _pad,
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "flip": _moving(lambda x, attrs: np.flip(x, attrs["axis"])),
    "triu": _triangle(np.triu),
    "tril": _triangle(np.tril),
    "annotation.compiler_begin": _moving(lambda x, _attrs: x),
    "annotation.compiler_end": _moving(lambda x, _attrs: x),
}
