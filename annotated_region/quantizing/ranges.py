"""Chooses the range that the 256 integers of a quantized tensor cover: all observed values, or fewer.

A narrower range has finer steps, but clips the values outside. All ranges include 0, which padding and
activations produce, so that it is exact. With one threshold ``t`` for both ends, the range is
``[max(low, -t), min(high, t)]``: ends that are closer to zero do not change.

==============  =========================================================================================
``minmax``      the least and the largest value: nothing is clipped (Krishnamoorthi 2018, "Quantizing deep
                convolutional networks for efficient inference: a whitepaper", section 2)
``percentile``  clips the given share of the values, half of it at each end (McKinstry et al. 2018,
                "Discovering low-precision networks close to full-precision networks", section 3)
``entropy``     the threshold with the least Kullback-Leibler divergence between the rounded and the observed
                distribution (Migacz 2017, "8-bit inference with TensorRT"), among those whose mean square
                error does not exceed that of no threshold. The divergence alone ignores the distance of
                clipped values: for attention probabilities, most of which are close to zero, it would clip
                the others
``mse``         the threshold with the least mean square error of rounding and clipping (Nagel et al.
                2021, "A white paper on neural network quantization", section 3.1)
==============  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from annotated_region.quantizing.histogram import Histogram
from annotated_region.quantizing.method_names import RANGES

__all__ = ["ValueRange", "chosen_range"]

_NUMBERS = 256
_THRESHOLDS = 256
"""The number of thresholds to try."""
_NARROWEST = 64
"""The ratio of the largest magnitude to the smallest threshold that ``mse`` tries."""
_FEWEST = _NUMBERS // 2
"""The minimum number of bins per side of a range for which ``entropy`` compares distributions."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The range of a quantized tensor; it includes 0."""

    low: float
    high: float

    def joined(self, other: ValueRange) -> ValueRange:
        """The smallest range that contains both."""
        return ValueRange(min(self.low, other.low), max(self.high, other.high))


def chosen_range(histogram: Histogram, method: str, percentile: float) -> ValueRange:
    """The range of a tensor with at least one nonzero observed value.

    Parameters
    ----------
    histogram
        The observed values.
    method
        One of `method_names.RANGES`.
    percentile
        For the method of that name: the percentage of values inside the range.
    """
    return _METHODS[method](histogram, percentile)


def _everything(histogram: Histogram, _percentile: float) -> ValueRange:
    return ValueRange(min(histogram.low, 0.0), max(histogram.high, 0.0))


def _within(histogram: Histogram, threshold: float) -> ValueRange:
    whole = _everything(histogram, 0)
    return ValueRange(max(whole.low, -threshold), min(whole.high, threshold))


def _percentile(histogram: Histogram, percentile: float) -> ValueRange:
    """The range up to the bins that contain the outermost values to keep, on each side."""
    counts, bins = histogram.counts, histogram.bins
    left_out = (counts.sum() + histogram.zeros) * (1 - percentile / 100) / 2
    width = histogram.top / bins
    below = int(np.searchsorted(np.cumsum(counts), left_out, side="right"))
    above = int(np.searchsorted(np.cumsum(counts[::-1]), left_out, side="right"))
    whole = _everything(histogram, 0)
    low, high = (below - bins) * width, (bins - above) * width
    return ValueRange(max(whole.low, min(low, 0.0)), min(whole.high, max(high, 0.0)))


def _entropy(histogram: Histogram, percentile: float) -> ValueRange:
    least, chosen = np.inf, _everything(histogram, percentile)
    bound = _squares(histogram, histogram.top)
    step = max(1, (histogram.bins - _FEWEST) // _THRESHOLDS)
    # Widest first, so that ties keep the widest range.
    for kept in range(histogram.bins, _FEWEST - 1, -step):
        threshold = histogram.top * kept / histogram.bins
        divergence = _divergence(histogram, kept)
        if divergence < least and _squares(histogram, threshold) <= bound:
            least, chosen = divergence, _within(histogram, threshold)
    return chosen


def _divergence(histogram: Histogram, kept: int) -> float:
    """The divergence of the rounded distribution from the true one, in nats, with `kept` bins on each side.

    The true distribution has the clipped values in its outermost bins; the rounded one excludes them, and
    spreads the values that round to one integer evenly over the bins that they come from. With few values,
    even a smooth distribution has uneven bins, and spreading them overestimates the divergence; its expected
    bias, half a bin over the number of values, is subtracted (Miller 1955, "Note on the bias of information
    estimates"). Otherwise the narrowest range, with one bin per integer, would have no divergence inside, and
    always win.
    """
    first, last = histogram.bins - kept, histogram.bins + kept
    inside = histogram.counts[first:last]
    true = inside.astype(np.float64)
    true[0] += histogram.counts[:first].sum()
    true[-1] += histogram.counts[last:].sum()
    reach = _within(histogram, histogram.top * kept / histogram.bins)
    step = (reach.high - reach.low) / (_NUMBERS - 1)
    numbers = np.rint((histogram.centers[first:last] - reach.low) / step).astype(np.int64).clip(0, _NUMBERS)
    is_there = true > 0
    sums = np.bincount(numbers, inside, minlength=_NUMBERS + 1)
    sharers = np.bincount(numbers, is_there, minlength=_NUMBERS + 1)
    rounded = (sums / np.maximum(sharers, 1))[numbers] * is_there
    noise = (is_there.sum() - (sharers > 0).sum()) / 2 / true.sum()
    return max(0.0, _relative_entropy(true[is_there], rounded[is_there]) - float(noise))


def _relative_entropy(true: np.ndarray, rounded: np.ndarray) -> float:
    if not rounded.sum():
        return float("inf")
    # A bin with only clipped values would make the divergence infinite, so it gets a small probability.
    p, q = true / true.sum(), np.maximum(rounded / rounded.sum(), 1e-12)
    return float((p * np.log(p / q)).sum())


def _least_squares(histogram: Histogram, percentile: float) -> ValueRange:
    least, chosen = np.inf, _everything(histogram, percentile)
    # Geometric spacing, because outliers may exceed the other values by orders of magnitude.
    for threshold in np.geomspace(histogram.top, histogram.top / _NARROWEST, _THRESHOLDS).tolist():
        error = _squares(histogram, threshold)
        if error < least:
            least, chosen = error, _within(histogram, threshold)
    return chosen


def _squares(histogram: Histogram, threshold: float) -> float:
    """The sum of squared errors: of rounding inside the range, of clipping outside.

    Rounding errors are modelled as uniform over a step, with mean square ``step ** 2 / 12``. Values within
    half a step of zero are treated separately: they become zero, which applies to most attention
    probabilities.
    """
    reach = _within(histogram, threshold)
    step = (reach.high - reach.low) / (_NUMBERS - 1)
    magnitudes = np.abs(histogram.centers)
    over = np.maximum(magnitudes - threshold, 0)
    rounding = np.where(magnitudes < step / 2, magnitudes**2, step**2 / 12)
    return float((histogram.counts * np.where(over > 0, over**2, rounding)).sum())


_METHODS: Mapping[str, Callable[[Histogram, float], ValueRange]] = {
    "minmax": _everything,
    "percentile": _percentile,
    "entropy": _entropy,
    "mse": _least_squares,
}

assert tuple(_METHODS) == RANGES, "every name has a method"
