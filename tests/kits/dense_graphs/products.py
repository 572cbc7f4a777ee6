"""The reference's products: matmul, convolutions and their transposes, pools, attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from kits.dense_graphs.elementwise import moved_whole
from kits.dense_graphs.reductions import softmax
from kits.dense_graphs.values import (
    UNIT,
    Noise,
    UnfitValuesError,
    Value,
    disturbed,
    moved,
    planes_of,
    rounded_rows,
)

__all__ = ["PRODUCTS"]

Array = np.ndarray
Compute = Callable[[Noise, Mapping[str, Any], Sequence[Any]], Any]
SUMMED = 4 * UNIT
APPROXIMATE = 2e-6
ABSORBING = 2.0**20
"""A bias as large as that is meant to hide: float32 keeps no more than eighths of a score beside it."""


def _contracted(noise: Noise, function: Callable[..., Array], values: Sequence[Value]) -> Value:
    """A sum of products, whose error is a part of the sum of their magnitudes."""
    planes = planes_of(function, values)
    scale = function(*(np.abs(v.clean) for v in values))
    is_whole = all(v.exact.all() and np.all(v.clean == np.rint(v.clean)) for v in values)
    exact = np.full(scale.shape, is_whole and bool(np.all(scale < 2**23)))
    return disturbed(noise, planes, scale, exact, SUMMED)


def _matmul(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    if not args[0].is_float:
        return moved_whole(np.matmul, args)
    read = [rounded_rows(noise, each) for each in args] if noise.roundings.operands else args
    return _contracted(noise, np.matmul, read)


def _windows(x: Array, kernel: Sequence[int], attrs: Mapping[str, Any], outside: float) -> Array:
    """The windows of an image (N, C, spatial): (N, C, places, window)."""
    rank = len(kernel)
    padding = [int(p) for p in attrs["padding"]]
    strides, dilation = attrs["strides"], attrs["dilation"]
    pairs = [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:], strict=True)]
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    if attrs.get("ceil_mode"):
        for axis in range(rank):
            low, high = pairs[2 + axis]
            left = (x.shape[2 + axis] + low + high - reach[axis]) % strides[axis]
            pairs[2 + axis] = (low, high + (strides[axis] - left if left else 0))
    x = np.pad(x, pairs, constant_values=outside)
    if any(extent < part for extent, part in zip(x.shape[2:], reach, strict=True)):
        raise UnfitValuesError("no window fits")
    views = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + rank)))
    steps = tuple(slice(None, None, step) for step in strides)
    inside = tuple(slice(None, None, step) for step in dilation)
    return views[(slice(None), slice(None), *steps, *inside)]


def _first(x: Array, layout: str, wanted: str) -> Array:
    return x.transpose([layout.index(letter) for letter in wanted])


LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _conv(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    rank = len(attrs["strides"])
    plain = LAYOUTS[rank]
    kernel_plain = "OI" + plain[2:]
    out_layout = attrs["out_layout"] or attrs["data_layout"]
    groups = int(attrs["groups"])

    def conv(x: Array, w: Array) -> Array:
        x = _first(x, attrs["data_layout"], plain)
        w = _first(w, attrs["kernel_layout"], kernel_plain)
        views = _windows(x, w.shape[2:], attrs, 0.0)
        batch, channels, *rest = views.shape
        views = views.reshape(batch, groups, channels // groups, *rest)
        w = w.reshape(groups, -1, *w.shape[1:])
        letters = "xyz"[:rank]
        window = "ijk"[:rank]
        result = np.einsum(f"ngc{letters}{window},goc{window}->ngo{letters}", views, w)
        filters = result.shape[1] * result.shape[2]
        return _first(result.reshape(batch, filters, *result.shape[3:]), plain, out_layout)

    return _contracted(noise, conv, args)


def _conv_transpose(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    rank = len(attrs["strides"])
    strides, dilation = attrs["strides"], attrs["dilation"]
    padding, extra = [int(p) for p in attrs["padding"]], attrs["output_padding"]
    groups = int(attrs["groups"])

    def conv(x: Array, w: Array) -> Array:
        batch, channels, *extents = x.shape
        kernel = w.shape[2:]
        out = w.shape[1] * groups
        whole = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(extents, strides, kernel, dilation, strict=True)
        ]
        result = np.zeros([batch, groups, w.shape[1], *(n + e for n, e in zip(whole, extra, strict=True))])
        x = x.reshape(batch, groups, channels // groups, *extents)
        w = w.reshape(groups, channels // groups, *w.shape[1:])
        for place in product(*map(range, kernel)):
            part = np.einsum("ngc...,gco->ngo...", x, w[(slice(None),) * 3 + place])
            index = tuple(
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, n, s in zip(place, dilation, extents, strides, strict=True)
            )
            result[(slice(None),) * 3 + index] += part
        result = result.reshape(batch, out, *result.shape[3:])
        cut = tuple(
            slice(low, n + e - high)
            for low, high, n, e in zip(padding[:rank], padding[rank:], whole, extra, strict=True)
        )
        return np.asarray(result[(slice(None), slice(None), *cut)])

    return _contracted(noise, conv, args)


def _max_pool(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    (data,) = args
    size = attrs["pool_size"]
    plain = LAYOUTS[len(size)]
    axes = tuple(range(-len(size), 0))

    def pool(x: Array) -> Array:
        outside = True if x.dtype == bool else np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        x = _first(x, attrs["layout"], plain)
        views = _windows(x, size, attrs, outside)
        found = views.all(axes) if x.dtype == bool else views.max(axes)
        return _first(np.asarray(found), plain, attrs["out_layout"] or attrs["layout"])

    return moved(pool, [data])


def _avg_pool(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    size = attrs["pool_size"]
    plain = LAYOUTS[len(size)]
    axes = tuple(range(-len(size), 0))

    def pool(x: Array) -> Array:
        x = _first(x, attrs["layout"], plain)
        total = _windows(x, size, attrs, 0.0).sum(axes)
        counted = np.ones_like(x)
        count = np.prod(size) if attrs["count_include_pad"] else _windows(counted, size, attrs, 0.0).sum(axes)
        return _first(np.asarray(total / count), plain, attrs["out_layout"] or attrs["layout"])

    return _contracted(noise, pool, args)


def _adaptive_pool(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    rank = args[0].clean.ndim - 2
    plain = LAYOUTS[rank]

    def pool(x: Array) -> Array:
        x = _first(x, attrs["layout"], plain)
        wanted = attrs["output_size"]
        for axis, after in enumerate(x.shape[2:] if wanted is None else wanted, start=2):
            x = np.stack([part.mean(axis) for part in _bins(x, axis, int(after))], axis)
        return _first(x, plain, attrs["out_layout"] or attrs["layout"])

    return _contracted(noise, pool, args)


def _bins(x: Array, axis: int, after: int) -> Iterator[Array]:
    before = x.shape[axis]
    for index in range(after):
        low, high = index * before // after, -(-(index + 1) * before // after)
        yield np.take(x, range(low, high), axis)


def _masked(scores: Array, bias: Array) -> Array:
    """Scores and what is added to them; in float32, a number as large as -1e9 takes up a score whole."""
    exact = scores + bias
    return np.asarray(np.where(np.abs(bias) < ABSORBING, exact, exact.astype("float32")))


def _attention(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """Of (batch, row, head, depth); a mask hides columns from rows."""
    queries, keys = args[0].clean, args[1].clean
    rows, columns, depth = queries.shape[1], keys.shape[1], queries.shape[3]
    if not keys.size:
        raise UnfitValuesError("no key is there")
    given = attrs["scale"]
    factor = depth**-0.5 if given is None else float(given)
    seen = np.ones((rows, columns), bool)
    if attrs["causal_mask"]:
        shift = abs(columns - rows) if attrs["causal_mask"] == "BottomRight" else 0  # as TVM has it
        seen = np.tri(rows, columns, shift, dtype=bool)

    def attend(q: Array, k: Array, v: Array, *bias: Array) -> Array:
        groups = q.shape[2] // k.shape[2]
        k, v = np.repeat(k, groups, 2), np.repeat(v, groups, 2)
        scores = np.einsum("brhd,bchd->bhrc", q, k) * factor
        scores = np.where(seen, _masked(scores, bias[0]) if bias else scores, -np.inf)
        return np.asarray(np.einsum("bhrc,bchd->brhd", softmax(scores, -1), v))

    clean, wide, sharp = planes_of(attend, args)
    if len(args) > 3:  # a sum of a score and a large number is rounded as that number is
        bias = args[3].wide
        error = np.where(np.abs(bias) < ABSORBING, bias, 0.0) * 2 * UNIT * noise.parts(bias.shape)
        wide = attend(*(value.wide for value in args[:3]), bias + error)
    groups = queries.shape[2] // keys.shape[2]
    products = np.einsum("brhd,bchd->bhrc", np.abs(queries), np.repeat(np.abs(keys), groups, 2))
    largest = products.max(initial=0) * factor
    scale = np.full(clean.shape, (1 + largest) * np.abs(args[2].clean).max(initial=0))
    return disturbed(noise, (clean, wide, sharp), scale, np.zeros(scale.shape, bool), APPROXIMATE)


PRODUCTS: Mapping[str, Compute] = {
    "matmul": _matmul,
    **{f"nn.conv{n}d": _conv for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _conv_transpose for n in (1, 2, 3)},
    **{f"nn.max_pool{n}d": _max_pool for n in (1, 2, 3)},
    **{f"nn.avg_pool{n}d": _avg_pool for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": _adaptive_pool for n in (1, 2, 3)},
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
}
