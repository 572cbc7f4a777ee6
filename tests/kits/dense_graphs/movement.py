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


def _source_pixels(before: int, after: int) -> Array:
    """Where the centres of the pixels of a resized axis lie on the old one (half_pixel)."""
    return (np.arange(after) + 0.5) * before / after - 0.5


def _nearest(plane: Array, axis: int, after: int, attrs: Mapping[str, Any]) -> Array:
    before = plane.shape[axis]
    if attrs["coordinate_transformation_mode"] == "asymmetric":
        position = np.floor(np.arange(after) * before / after)
    else:
        position = np.ceil(_source_pixels(before, after) - 0.5)  # half a pixel is rounded down
    return np.asarray(np.take(plane, np.clip(position, 0, before - 1).astype(int), axis=axis))


def _linear(plane: Array, axis: int, after: int, mode: str) -> Array:
    before = plane.shape[axis]
    if mode == "align_corners":
        position = np.arange(after) * (before - 1) / max(after - 1, 1)
    else:
        position = _source_pixels(before, after)
    position = np.clip(position, 0, before - 1)
    low = np.floor(position).astype(int)
    part = position - low
    shape = [1] * plane.ndim
    shape[axis] = -1
    part = part.reshape(shape)
    high = np.minimum(low + 1, before - 1)
    return np.asarray(np.take(plane, low, axis) * (1 - part) + np.take(plane, high, axis) * part)


def _resize(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, size = args[:2]
    axes = [axis for axis, letter in enumerate(attrs["layout"]) if letter not in "NC"]

    def resize(plane: Array) -> Array:
        for axis, after in zip(axes, size, strict=True):
            if attrs["method"] == "nearest_neighbor":
                plane = _nearest(plane, axis, after, attrs)
            else:
                plane = _linear(plane, axis, after, attrs["coordinate_transformation_mode"])
        return plane

    if attrs["method"] == "nearest_neighbor":
        return moved(resize, [data])
    clean, wide, sharp = resize(data.clean), resize(data.wide), resize(data.sharp)
    nothing = np.zeros(clean.shape, bool)
    return disturbed(noise, (clean, wide, sharp), resize(np.abs(data.clean)), nothing, 8 * UNIT)


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
