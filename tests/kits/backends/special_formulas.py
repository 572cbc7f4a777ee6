"""What numpy makes of the operands of some ops: by their definitions, without TVM and without a target.

Means and variances are computed in double precision; orders of factors are those that the names tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

__all__ = [
    "LOWEST",
    "NOWHERE",
    "batch_norm",
    "convolution",
    "first_extreme",
    "folded_batch_norm",
    "grouped_norm",
    "largest_in_window",
    "overflowed_norm",
    "silu",
    "transposed_convolution",
]

Array = np.ndarray
NOWHERE = np.float64(3e300)
"""Stands where a formula has no answer; no float32 is near."""

LOWEST = float(np.finfo("float32").min)
OVERFLOWING = 1.8e19
"""The squares of larger numbers are infinite."""


def single(array: Array) -> Array:
    """Rounded to float32; what is too large is infinite."""
    with np.errstate(all="ignore"):
        return np.asarray(array, "float64").astype("float32")


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``."""
    with np.errstate(all="ignore"):
        return np.asarray(x / (1 + np.exp(-x)))


# --- windows


Index = tuple[Any, ...]


def _taps(kernel: tuple[int, ...], data: tuple[int, ...]) -> Iterator[tuple[Index, Index, Index]]:
    """Indices of each place of a kernel, and of what meets there of the result and of the data."""
    for tap in product(*map(range, kernel)):
        ends = zip(tap, kernel, data, strict=True)
        shifts = [(place - size // 2, extent) for place, size, extent in ends]
        result = [slice(max(0, -shift), extent - max(0, shift)) for shift, extent in shifts]
        given = [slice(max(0, shift), extent - max(0, -shift)) for shift, extent in shifts]
        yield (..., *tap), (..., *result), (..., *given)


def convolution(x: Array, kernel: Array) -> Array:
    """Without stride, padded to the size of the data; padding is left out of the sums, not multiplied.

    A kernel of one input channel is a depthwise one.
    """
    is_depthwise = kernel.shape[1] == 1 < x.shape[1]
    result = np.zeros((x.shape[0], kernel.shape[0], *x.shape[2:]))
    with np.errstate(all="ignore"):
        for tap, where, given in _taps(kernel.shape[2:], x.shape[2:]):
            data, weights = x[given].astype("float64"), kernel[tap]
            if is_depthwise:
                terms = data * weights.reshape(-1, *[1] * (x.ndim - 2))
            else:
                terms = (data[:, None] * weights.reshape(1, *weights.shape, *[1] * (x.ndim - 2))).sum(2)
            result[where] += terms
    return single(result)


def transposed_convolution(x: Array, kernel: Array) -> Array:
    """The same for a transposed one, whose kernel has the input channels first."""
    turned = np.flip(kernel.swapaxes(0, 1), range(2, kernel.ndim))
    return convolution(x, turned)


def largest_in_window(x: Array, padding: int, empty: float) -> Array:
    """The largest number of each window of three, which passes over NaN; `empty` where there is none."""
    rank = x.ndim - 2
    widths = [(0, 0), (0, 0), *[(padding, padding)] * rank]
    known = np.pad(np.where(np.isnan(x), -math.inf, x), widths, constant_values=-math.inf)
    has_number = np.pad(~np.isnan(x), widths, constant_values=False)
    axes, behind = tuple(range(2, x.ndim)), tuple(range(-rank, 0))

    def windows(array: Array) -> Array:
        return np.lib.stride_tricks.sliding_window_view(array, [3] * rank, axes)

    return np.where(windows(has_number).any(behind), windows(known).max(behind), empty)


def first_extreme(x: Array, axis: int, is_better: Callable[[Array, Array], Array]) -> Array:
    """Where the extreme stands: the first place, until a later number is better than what stands there."""
    place, best = np.zeros_like(x.take([0], axis), "int64"), x.take([0], axis)
    for index in range(1, x.shape[axis]):
        here = x.take([index], axis)
        place, best = (np.where(is_better(here, best), *pair) for pair in ((index, place), (here, best)))
    return place


# --- norms


def _column(vector: Array, rank: int) -> Array:
    return vector.reshape(-1, *[1] * (rank - 2))


def batch_norm(x: Array, scale: Array, shift: Array, mean: Array, variance: Array) -> Array:
    """The scale is multiplied by the inverse deviation first."""
    with np.errstate(all="ignore"):
        factor = single(scale / np.sqrt(variance + np.float32(1e-5)))
        centred = x - _column(mean, x.ndim)
        return np.asarray(centred * _column(factor, x.ndim) + _column(shift, x.ndim))


def folded_batch_norm(x: Array, scale: Array, shift: Array, mean: Array, variance: Array) -> Array:
    """The same, and the mean is multiplied by the factor before it is taken away."""
    with np.errstate(all="ignore"):
        factor = single(scale / np.sqrt(variance + np.float32(1e-5)))
        rest = shift - mean * factor
        return np.asarray(x * _column(factor, x.ndim) + _column(rest, x.ndim))


def _moments(x: Array, groups: int) -> tuple[Array, Array]:
    """Mean and inverse deviation of each group, for each number."""
    grouped = x.reshape(x.shape[0], groups, -1).astype("float64")
    mean = grouped.mean(2, keepdims=True)
    inverse = 1 / np.sqrt(np.square(grouped - mean).mean(2, keepdims=True) + 1e-5)
    wide_mean, wide_inverse = (np.broadcast_to(each, grouped.shape) for each in (mean, inverse))
    return wide_mean.reshape(x.shape), wide_inverse.reshape(x.shape)


def grouped_norm(x: Array, scale: Array, shift: Array, groups: int, *, is_folded: bool) -> Array:
    """The scale is multiplied by the inverse deviation first; `is_folded`: and the mean by that."""
    with np.errstate(all="ignore"):
        mean, inverse = _moments(x, groups)
        factor = single(_column(scale, x.ndim) * inverse)
        if is_folded:
            return np.asarray(x * factor + single(_column(shift, x.ndim) - single(mean * factor)))
        return np.asarray(single(x - mean) * factor + _column(shift, x.ndim))


def overflowed_norm(x: Array, _scale: Array, shift: Array, groups: int) -> Array:
    """The shift, in groups whose squares overflow: the deviation is infinite, or all numbers are the mean.

    Elsewhere there is no rule.
    """
    grouped = np.abs(x).reshape(x.shape[0], groups, -1)
    overflows = np.broadcast_to((grouped > OVERFLOWING).any(2, keepdims=True), grouped.shape).reshape(x.shape)
    return np.where(overflows, _column(shift, x.ndim), NOWHERE)
