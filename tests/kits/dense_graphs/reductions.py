"""The reference's reductions, norms and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kits.dense_graphs.values import (
    UNIT,
    Noise,
    UnfitValuesError,
    Value,
    decided,
    disturbed,
    moved,
    planes_of,
)

__all__ = ["REDUCTIONS", "softmax"]

Array = np.ndarray
Compute = Callable[[Noise, Mapping[str, Any], Sequence[Any]], Any]
APPROXIMATE = 2e-6
SUMMED = 4 * UNIT


def _axes(attrs: Mapping[str, Any]) -> tuple[int, ...] | None:
    return None if attrs["axis"] is None else tuple(int(axis) for axis in attrs["axis"])


def _is_whole(value: Value) -> bool:
    """Whether it is all of small whole numbers, whose sums nobody rounds."""
    clean = value.clean
    return bool(value.exact.all() and np.all(np.isfinite(clean)) and np.all(clean == np.rint(clean)))


def _summing(function: Callable[..., Array]) -> Compute:
    """A sum or mean, whose error is a part of the sum of what is added."""

    def compute(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        (data,) = args
        options: dict[str, Any] = {"axis": _axes(attrs), "keepdims": bool(attrs["keepdims"])}
        planes = data.planes(lambda plane: np.asarray(function(plane, **options)))
        if not data.is_float:
            return Value(planes[0], planes[1], planes[2], np.ones(planes[0].shape, bool))
        scale = np.asarray(function(np.abs(data.clean), **options))
        exact = np.full(planes[0].shape, _is_whole(data))
        return disturbed(noise, planes, scale, exact, SUMMED)

    return compute


def _extreme(function: Callable[..., Array]) -> Compute:
    def compute(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        options: dict[str, Any] = {"axis": _axes(attrs), "keepdims": bool(attrs["keepdims"])}
        (data,) = args
        clean, wide, sharp = data.planes(lambda plane: np.asarray(function(plane, **options)))
        return Value(clean, wide, sharp, np.asarray(np.all(data.exact, **options)))

    return compute


def _require_any_order(sizes: Array, options: Mapping[str, Any]) -> None:
    """A product whose parts leave the range of float32 depends on the order of its factors."""
    large = np.prod(np.where(np.isfinite(sizes), np.maximum(sizes, 1.0), 1.0), **options)
    small = np.prod(np.where(sizes > 0, np.minimum(sizes, 1.0), 1.0), **options)
    if np.any(large > np.finfo("float32").max) or np.any(small < np.finfo("float32").tiny):
        raise UnfitValuesError("a part of a product leaves the range of float32")


def _product(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    options: dict[str, Any] = {"axis": _axes(attrs), "keepdims": bool(attrs["keepdims"])}
    (data,) = args
    if data.is_float:
        _require_any_order(np.abs(data.clean), options)
    planes = data.planes(lambda plane: np.asarray(np.prod(plane, **options)))
    exact = np.full(planes[0].shape, _is_whole(data))
    return disturbed(noise, planes, planes[0], exact, APPROXIMATE, 8 * UNIT)


def _variance(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    options: dict[str, Any] = {"axis": _axes(attrs), "keepdims": bool(attrs["keepdims"])}
    (data,) = args
    planes = data.planes(lambda plane: np.asarray(np.var(plane, **options)))
    scale = np.asarray(np.mean(data.clean**2, **options))
    return disturbed(noise, planes, scale, np.zeros(scale.shape, bool), SUMMED)


def _deviation(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    value = _variance(noise, attrs, args)
    return moved(lambda plane: plane if plane.dtype == bool else np.sqrt(np.maximum(plane, 0)), [value])


def _searching(function: Callable[..., Array]) -> Compute:
    def compute(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        axis, keep = attrs["axis"], bool(attrs["keepdims"])

        def search(plane: Array) -> Array:
            return np.asarray(function(plane, axis=axis, keepdims=keep))

        return decided(search, args)

    return compute


def _order(plane: Array, attrs: Mapping[str, Any]) -> Array:
    """Where the elements stand that come first; of equal ones the first."""
    axis, descending = int(attrs["axis"]), bool(attrs.get("descending", attrs.get("largest")))
    order = np.argsort(-plane if descending else plane, axis=axis, kind="stable")
    return np.take(order, np.arange(attrs.get("k", order.shape[axis])), axis=axis)


def _ordered(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """Places, which have to be the same with and without errors, or the elements that stand there."""
    (data,) = args
    places = decided(lambda plane: _order(plane, attrs), [data])
    if str(attrs["result_dtype"]).startswith("int"):
        return places
    return moved(lambda plane: np.take_along_axis(plane, places.clean, int(attrs["axis"])), [data])


def softmax(x: Array, axis: int) -> Array:
    """Of rows that hold something finite."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(e / np.sum(e, axis=axis, keepdims=True))


def _log_softmax(x: Array, axis: int) -> Array:
    x = x - np.max(x, axis=axis, keepdims=True)
    return np.asarray(x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True)))


def _soft(function: Callable[[Array, int], Array]) -> Compute:
    def compute(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        (data,) = args
        axis = int(attrs["axis"])
        planes = data.planes(lambda plane: function(plane, axis))
        finite = np.where(np.isfinite(data.clean) & (np.abs(data.clean) < 1e8), np.abs(data.clean), 0.0)
        scale = np.maximum(np.abs(planes[0]), 1e-2) * (1 + 0.1 * finite)
        return disturbed(noise, planes, scale, np.zeros(scale.shape, bool), APPROXIMATE, 8 * UNIT)

    return compute


def _normal(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean = np.mean(x, axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(np.var(x, axes, keepdims=True) + epsilon))


def _disturbed_norm(
    noise: Noise, norm: Callable[..., Array], values: Sequence[Value], scale: Array, part: float = SUMMED
) -> Value:
    planes = planes_of(norm, values)
    nothing = np.zeros(planes[0].shape, bool)
    size = np.broadcast_to(scale, planes[0].shape)
    return disturbed(noise, planes, size, nothing, part, 8 * UNIT)


def _spread(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """What an error of the mean comes to behind the division: the largest element over the deviation."""
    deviation = np.sqrt(np.var(x, axes, keepdims=True) + epsilon)
    return np.asarray(1 + 4 * np.max(np.abs(x), axes, keepdims=True) / deviation)


def _affine(vector: Array, rank: int, axis: int) -> Array:
    extents = [1] * rank
    extents[axis] = -1
    return np.asarray(vector.reshape(extents))


def _spread_out(parameter: Array, rank: int, axes: Sequence[int]) -> Array:
    """A parameter of the normalised axes, in their order, as a tensor of the rank of the data."""
    places = [axis % rank for axis in axes]
    extents = [1] * rank
    for place, extent in zip(places, parameter.shape, strict=True):
        extents[place] = extent
    return parameter.transpose(np.argsort(places)).reshape(extents)


def _layer_norm(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    axes, epsilon = tuple(attrs["axes"]), float(attrs["epsilon"])
    rank = args[0].clean.ndim
    data, *parameters = args
    given = [data, *(moved(lambda plane: _spread_out(plane, rank, axes), [each]) for each in parameters)]
    scale = _spread(data.clean, axes, epsilon)
    magnitude = scale * np.maximum(np.abs(given[1].clean), np.abs(given[2].clean))
    return _disturbed_norm(
        noise, lambda x, g, b: np.asarray(_normal(x, axes, epsilon) * g + b), given, magnitude, APPROXIMATE
    )


def _rms_norm(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    axes, epsilon = tuple(attrs["axes"]), float(attrs["epsilon"])
    rank = args[0].clean.ndim
    scale = moved(lambda plane: _spread_out(plane, rank, axes), [args[1]])

    def norm(x: Array, g: Array) -> Array:
        return np.asarray(x / np.sqrt(np.mean(x**2, axes, keepdims=True) + epsilon) * g)

    return _disturbed_norm(noise, norm, [args[0], scale], norm(args[0].clean, scale.clean), APPROXIMATE)


def _group_norm(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """Group norm, and instance norm, whose groups are the channels: over the axes that are named."""
    shape, epsilon = args[0].clean.shape, float(attrs["epsilon"])
    rank = len(shape)
    channels = int(attrs["channel_axis"]) % rank
    groups = int(attrs.get("num_groups", shape[channels]))
    split = (*shape[:channels], groups, shape[channels] // groups, *shape[channels + 1 :])
    places = [int(axis) % rank for axis in attrs["axes"]]
    axes = (channels + 1, *(place + (place > channels) for place in places))

    def norm(x: Array, g: Array, b: Array) -> Array:
        normal = _normal(x.reshape(split), axes, epsilon).reshape(shape)
        return np.asarray(normal * _affine(g, rank, channels) + _affine(b, rank, channels))

    spread = np.broadcast_to(_spread(args[0].clean.reshape(split), axes, epsilon), split).reshape(shape)
    size = np.maximum(np.abs(args[1].clean), np.abs(args[2].clean))
    return _disturbed_norm(noise, norm, args, spread * _affine(size, rank, channels), APPROXIMATE)


def _batch_norm(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[Value, ...]:
    rank, axis, epsilon = args[0].clean.ndim, int(attrs["axis"]), float(attrs["epsilon"])

    def norm(x: Array, *vectors: Array) -> Array:
        g, b, mean, variance = (_affine(vector, rank, axis) for vector in vectors)
        return np.asarray((x - mean) / np.sqrt(variance + epsilon) * g + b)

    x, g, b, mean, variance = (np.abs(value.clean) for value in args)
    scale = norm(x, g, b, -mean, variance)
    return _disturbed_norm(noise, norm, args, scale), args[3], args[4]


def _cumsum(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    (data,) = args
    if not data.is_float:
        whole = np.cumsum(data.clean, axis=attrs["axis"], dtype=data.clean.dtype)
        return Value(whole, whole, whole, np.ones(whole.shape, bool))
    clean, wide, sharp = data.planes(lambda plane: np.asarray(np.cumsum(plane, axis=attrs["axis"])))
    scale = np.cumsum(np.abs(data.clean), axis=attrs["axis"])
    return disturbed(noise, (clean, wide, sharp), scale, np.full(scale.shape, _is_whole(data)), SUMMED)


REDUCTIONS: Mapping[str, Compute] = {
    "sum": _summing(np.sum),
    "mean": _summing(np.mean),
    "max": _extreme(np.max),
    "min": _extreme(np.min),
    "prod": _product,
    "variance": _variance,
    "std": _deviation,
    "cumsum": _cumsum,
    "argmax": _searching(np.argmax),
    "topk": _ordered,
    "sort": _ordered,
    "argsort": _ordered,
    "argmin": _searching(np.argmin),
    "nn.softmax": _soft(softmax),
    "nn.log_softmax": _soft(_log_softmax),
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _rms_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _group_norm,
    "nn.batch_norm": _batch_norm,
}
