"""The reference's ops that few models have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kits.box_means import box_means
from kits.dense_graphs.values import UNIT, Noise, Value, decided, disturbed, moved, planes_of, source
from kits.grid_samples import sampled

__all__ = ["RARE"]

Array = np.ndarray
Compute = Callable[[Noise, Mapping[str, Any], Sequence[Any]], Any]
APPROXIMATE = 2e-6
SUMMED = 4 * UNIT


def _close_to(function: Callable[..., Array]) -> Compute:
    """A function that engines approximate to a part of its value, or of 1."""

    def compute(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        planes = planes_of(function, args)
        scale = np.maximum(np.abs(planes[0]), 1.0)
        return disturbed(noise, planes, scale, np.zeros(scale.shape, bool), APPROXIMATE, 4 * UNIT)

    return compute


def _summed(noise: Noise, function: Callable[..., Array], values: Sequence[Value]) -> Value:
    """A sum of products, whose error is a part of the sum of their magnitudes."""
    planes = planes_of(function, values)
    scale = function(*(np.abs(value.clean) for value in values))
    return disturbed(noise, planes, scale, np.zeros(scale.shape, bool), SUMMED)


def _outer(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    return _summed(noise, np.multiply.outer, args)


def _einsum(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    return _summed(noise, lambda *planes: np.asarray(np.einsum(attrs["subscripts"], *planes)), args[0])


def _shift(function: Callable[[Array, Array], Array]) -> Compute:
    def compute(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        return source(function(*(value.clean for value in args)))

    return compute


def _median(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value | tuple[Value, Value]:
    """The lower one of the two in the middle; which it is has to be the same with and without errors."""
    axis = attrs["axis"]
    data = args[0] if axis else moved(lambda plane: plane.reshape(-1), args)
    at = axis[0] if axis else 0
    before = (data.clean.shape[at] - 1) // 2
    place = decided(lambda plane: np.take(np.argsort(plane, at, kind="stable"), [before], at), [data])
    value = moved(lambda plane: np.take_along_axis(plane, place.clean, at), [data])
    if not axis:
        return moved(lambda plane: plane.reshape(()), [value])
    pair = (value, place)
    return pair if attrs["keepdims"] else (_squeezed(value, at), _squeezed(place, at))


def _squeezed(value: Value, axis: int) -> Value:
    return moved(lambda plane: plane.squeeze(axis), [value])


def _bucketize(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    side: Any = "right" if attrs["right"] else "left"
    return decided(lambda x, bounds: np.searchsorted(bounds, x, side).astype(attrs["result_dtype"]), args)


def _meshgrid(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[Value, ...]:
    left, right = args[0]
    shape = (*left.clean.shape, *right.clean.shape)
    return (
        moved(lambda plane: np.broadcast_to(plane[:, None], shape), [left]),
        moved(lambda plane: np.broadcast_to(plane, shape), [right]),
    )


def _eye(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    rows, columns, shift = args
    return source(np.eye(rows, columns, shift, dtype=attrs["result_dtype"]))


def _eye_like(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, shift = args
    rows, columns = data.clean.shape
    return source(np.eye(rows, columns, shift, dtype=attrs["result_dtype"]))


def _hamming(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    size, periodic, alpha, beta = args
    whole = size if periodic else size - 1
    values = alpha - beta * np.cos(2 * np.pi * np.arange(size) / whole)
    return disturbed(noise, (values,) * 3, np.ones(size), np.zeros(size, bool), APPROXIMATE, 4 * UNIT)


def _pixels(x: Array, attrs: Mapping[str, Any]) -> Array:
    factor = int(attrs["upscale_factor"])
    batch, channels, height, width = x.shape
    apart = x.reshape(batch, channels // factor**2, factor, factor, height, width)
    beside = apart.transpose(0, 1, 4, 2, 5, 3)
    return beside.reshape(batch, channels // factor**2, height * factor, width * factor)


def _shuffle(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    return moved(lambda plane: _pixels(plane, attrs), args)


def _flatten(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    shape = args[0].clean.shape
    return moved(lambda plane: plane.reshape(shape[0], int(np.prod(shape[1:]))), args)


def _dropout(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[Value, Value]:
    return args[0], source(np.ones(args[0].clean.shape))


def _reverse(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, lengths = args
    axes = (attrs["batch_axis"], attrs["seq_axis"])

    def turned(plane: Array) -> Array:
        result = np.array(plane)
        rows, given = (np.moveaxis(each, axes, (0, 1)) for each in (result, plane))
        for row, length in enumerate(lengths.clean):
            rows[row, :length] = given[row, :length][::-1]
        return result

    return moved(turned, [data])


def _slice_scatter(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, part, *bounds = args
    index = [slice(None)] * data.clean.ndim
    index[int(attrs["axis"])] = slice(*bounds)

    def put(plane: Array, new: Array) -> Array:
        result = np.array(plane)
        result[tuple(index)] = new
        return result

    return moved(put, [data, part])


def _size(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    return source(np.asarray(args[0].clean.size, "int64"))


def _lines(count: int, is_aligned: bool) -> Array:
    """The coordinates of the pixels of an axis, from -1 to 1."""
    return np.linspace(-1, 1, count) if is_aligned else (2 * np.arange(count) + 1) / count - 1


def _affine_grid(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    theta, (height, width) = args[:2]
    is_aligned = bool(attrs["align_corners"])
    y, x = np.meshgrid(_lines(height, is_aligned), _lines(width, is_aligned), indexing="ij")
    places = np.stack([x, y, np.ones(x.shape)])
    return _summed(noise, lambda each: np.asarray(np.einsum("nij,jhw->nihw", each, places)), [theta])


def _grid_sample(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """A coordinate that is wrong by a part of 1 moves the sample by as much of the largest pixel's extent."""
    way = attrs["method"], attrs["padding_mode"], attrs["align_corners"]
    planes = planes_of(lambda image, grid: sampled(image, grid, *way), args)
    image, grid = (value.clean for value in args)
    reach = max(image.shape[2:]) * (1 + np.abs(grid).max(initial=0))
    scale = np.full(planes[0].shape, np.abs(image).max(initial=0) * reach)
    return disturbed(noise, planes, scale, np.zeros(scale.shape, bool), SUMMED, 4 * UNIT)


def _roi_align(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """An error of a corner moves each sample by as much."""
    size, scale, samples = attrs["pooled_size"], attrs["spatial_scale"], attrs["sample_ratio"]
    way = size, scale, samples, attrs["aligned"]
    planes = planes_of(lambda image, rows: box_means(image, rows, *way), args)
    image, rows = (value.clean for value in args)
    reach = max(image.shape[2:]) + scale * np.abs(rows[:, 1:]).max(initial=0)
    largest = np.full(planes[0].shape, np.abs(image).max(initial=0) * reach)
    return disturbed(noise, planes, largest, np.zeros(largest.shape, bool), SUMMED, 4 * UNIT)


RARE: Mapping[str, Compute] = {
    **{name: _close_to(getattr(np, f"arc{name[1:]}")) for name in ("acos", "asin", "acosh", "atanh")},
    "tan": _close_to(np.tan),
    "log_add_exp": _close_to(np.logaddexp),
    "left_shift": _shift(np.left_shift),
    "right_shift": _shift(np.right_shift),
    "outer": _outer,
    "einsum": _einsum,
    "median": _median,
    "bucketize": _bucketize,
    "meshgrid": _meshgrid,
    "eye": _eye,
    "eye_like": _eye_like,
    "hamming_window": _hamming,
    "nn.pixel_shuffle": _shuffle,
    "nn.batch_flatten": _flatten,
    "nn.dropout": _dropout,
    "reverse_sequence": _reverse,
    "slice_scatter": _slice_scatter,
    "size": _size,
    "image.affine_grid": _affine_grid,
    "image.grid_sample": _grid_sample,
    "vision.roi_align": _roi_align,
}
"""What the reference computes."""
