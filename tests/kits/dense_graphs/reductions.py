"""The reference's reductions, norms and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kits.dense_graphs.values import (
    UNIT,
    Noise,
    UnfitValuesError,
    Value,
    decided,
    disturbed,
    moved,
    planes_of,
    require_numbers,
)

__all__ = ["REDUCTIONS", "softmax"]

Array = np.ndarray
Compute = Callable[[Noise, Mapping[str, Any], Sequence[Any]], Any]
APPROXIMATE = 2e-6
SUMMED, MANY_SUMMANDS = 4 * UNIT, 128
"""The error of a sum, and of how many numbers at most: those of more are added one by one by some engines.

Each addition may round by half a unit of the sum so far, and does so in the same direction where the numbers
are equal.
"""


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
        if function is np.mean:
            _require_some(data, options["axis"])
        planes = data.planes(lambda plane: np.asarray(function(plane, **options)))
        if not data.is_float:
            return _wrapped(planes[0], data)
        scale = np.asarray(function(np.abs(data.clean), **options))
        exact = np.full(planes[0].shape, _is_whole(data))
        longer = np.size(data.clean) / max(planes[0].size, 1) / MANY_SUMMANDS
        return disturbed(noise, planes, scale, exact, SUMMED * max(1.0, longer))

    return compute


def _wrapped(whole: Array, data: Value) -> Value:
    """A result of whole numbers, of which the type of the operand keeps the low bits."""
    kept = whole.astype(data.clean.dtype)
    return Value(kept, kept, kept, np.ones(kept.shape, bool))


def _require_some(data: Value, axes: int | tuple[int, ...] | None) -> None:
    """Refuse an extreme or a mean of nothing, and of NaN."""
    if np.size(data.clean) == 0 and np.sum(data.clean, axes).size:
        raise UnfitValuesError("nothing has no extreme and no mean")
    require_numbers(data.clean)


def _of_rows(function: Callable[..., Array], plane: Array, dtype: DTypeLike, **options: Any) -> Array:
    """The extreme of each row, or its place; of no rows none, where numpy raises if their extent is 0."""
    if not plane.size:
        return np.asarray(np.sum(plane, dtype=dtype, **options))
    return np.asarray(function(plane, **options))


def _extreme(function: Callable[..., Array]) -> Compute:
    def compute(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        options: dict[str, Any] = {"axis": _axes(attrs), "keepdims": bool(attrs["keepdims"])}
        (data,) = args
        _require_some(data, options["axis"])
        clean, wide, sharp = data.planes(lambda plane: _of_rows(function, plane, plane.dtype, **options))
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
    if not data.is_float:
        return _wrapped(planes[0], data)
    exact = np.full(planes[0].shape, _is_whole(data))
    return disturbed(noise, planes, planes[0], exact, APPROXIMATE, 8 * UNIT)


def _variance(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    _require_squares(args[0].clean)
    options: dict[str, Any] = {"axis": _axes(attrs), "keepdims": bool(attrs["keepdims"])}
    (data,) = args
    _require_some(data, options["axis"])
    planes = data.planes(lambda plane: np.asarray(np.var(plane, **options)))
    scale = np.asarray(np.mean(data.clean**2, **options))
    return disturbed(noise, planes, scale, np.zeros(scale.shape, bool), SUMMED)


def _deviation(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    value = _variance(noise, attrs, args)
    return moved(lambda plane: plane if plane.dtype == bool else np.sqrt(np.maximum(plane, 0)), [value])


def _searching(function: Callable[..., Array]) -> Compute:
    def compute(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        axis, keep = attrs["axis"], bool(attrs["keepdims"])
        _require_some(args[0], axis)
        if np.isinf(_worst(function, args[0].clean, axis)).any():
            raise UnfitValuesError("TVM finds no place where all is infinite")

        def search(plane: Array) -> Array:
            return _of_rows(function, plane, np.int64, axis=axis, keepdims=keep)

        return decided(search, args)

    return compute


def _worst(function: Callable[..., Array], plane: Array, axis: int | None) -> Array:
    """The extremes that are searched, or zero where they are infinite as numbers above all others are."""
    if not plane.size:
        return np.zeros(0)
    found = np.max(plane, axis) if function is np.argmax else -np.min(plane, axis)
    return np.where(found == np.inf, 0.0, found)


def _order(plane: Array, attrs: Mapping[str, Any]) -> Array:
    """Where the elements stand that come first; of equal ones the first."""
    axis, descending = int(attrs["axis"]), bool(attrs.get("descending", attrs.get("largest")))
    turned = -plane if plane.dtype.kind == "f" else ~plane
    order = np.argsort(turned if descending else plane, axis=axis, kind="stable")
    return np.take(order, np.arange(attrs.get("k", order.shape[axis])), axis=axis)


def _ordered(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """Places, which have to be the same with and without errors, or the elements that stand there."""
    (data,) = args
    require_numbers(data.clean)
    places = decided(lambda plane: _order(plane, attrs), [data])
    if attrs.get("ret_type", "indices" if "dtype" in attrs else "values") == "indices":
        return places
    return moved(lambda plane: np.take_along_axis(plane, places.clean, int(attrs["axis"])), [data])


def softmax(x: Array, axis: int) -> Array:
    """Of rows that hold something finite; of no rows."""
    if not x.size:
        return x
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.asarray(e / np.sum(e, axis=axis, keepdims=True))


def _log_softmax(x: Array, axis: int) -> Array:
    if not x.size:
        return x
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


def _require_squares(x: Array) -> None:
    """Refuse numbers whose squares leave the range of float32, in which engines add them."""
    finite = np.abs(x[np.isfinite(x)])
    if finite.size and x.size * finite.max() ** 2 > np.finfo("float32").max:
        raise UnfitValuesError("a square overflows")


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
    if not x.size:
        return np.ones(x.shape)
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
    _require_squares(args[0].clean)
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
    _require_squares(args[0].clean)
    axes, epsilon = tuple(attrs["axes"]), float(attrs["epsilon"])
    rank = args[0].clean.ndim
    scale = moved(lambda plane: _spread_out(plane, rank, axes), [args[1]])

    def norm(x: Array, g: Array) -> Array:
        return np.asarray(x / np.sqrt(np.mean(x**2, axes, keepdims=True) + epsilon) * g)

    return _disturbed_norm(noise, norm, [args[0], scale], norm(args[0].clean, scale.clean), APPROXIMATE)


def _group_norm(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """Group norm, and instance norm, whose groups are the channels: over the axes that are named."""
    _require_squares(args[0].clean)
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

    def total(plane: Array) -> Array:
        return _running(np.cumsum, plane, attrs["axis"], 0 if attrs["exclusive"] else None)

    if not data.is_float:
        return _wrapped(total(data.clean), data)
    scale = total(np.abs(data.clean))
    # Equal numbers are all rounded to one side, so that the error grows with their count.
    extent = scale.shape[attrs["axis"]] if attrs["axis"] is not None and scale.ndim else scale.size
    exact = np.full(scale.shape, _is_whole(data))
    return disturbed(noise, data.planes(total), scale, exact, max(SUMMED, extent * UNIT), extent * UNIT)


def _cumprod(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    (data,) = args

    def total(plane: Array) -> Array:
        return _running(np.cumprod, plane, attrs["axis"], 1 if attrs["exclusive"] else None)

    if not data.is_float:
        return _wrapped(total(data.clean), data)
    planes = data.planes(total)
    extent = planes[0].shape[attrs["axis"]] if planes[0].ndim else 1
    exact = np.full(planes[0].shape, _is_whole(data))
    return disturbed(noise, planes, np.abs(planes[0]), exact, extent * SUMMED, extent * UNIT)


def _running(accumulate: Callable[..., Array], plane: Array, axis: int, first: int | None) -> Array:
    """Sums or products of all up to each element; of those before it if there is a `first`."""
    if first is not None and plane.size:
        kept = np.take(plane, range(plane.shape[axis] - 1), axis)
        widths = [(int(index == axis % plane.ndim), 0) for index in range(plane.ndim)]
        plane = np.pad(kept, widths, constant_values=first)
    return np.asarray(accumulate(plane, axis=axis, dtype=plane.dtype))


REDUCTIONS: Mapping[str, Compute] = {
    "sum": _summing(np.sum),
    "mean": _summing(np.mean),
    "max": _extreme(np.max),
    "min": _extreme(np.min),
    "prod": _product,
    "variance": _variance,
    "std": _deviation,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
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
