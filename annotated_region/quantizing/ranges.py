"""Which range of a tensor's values its 256 numbers cover: all that was seen, or less, in finer steps.

A narrower range rounds what is inside more finely, and clips what is outside. All ranges hold 0, which
padding and the activations behind make, and which is then exact. With one threshold ``t`` for both ends,
the range is ``[max(low, -t), min(high, t)]``: ends that are nearer to zero stay where they are.

==============  =========================================================================================
``minmax``      the least and the largest value: nothing is clipped (Krishnamoorthi 2018, "Quantizing deep
                convolutional networks for efficient inference: a whitepaper", section 2)
``percentile``  what leaves out the given share of the values, half of it at each end (McKinstry et al. 2018,
                "Discovering low-precision networks close to full-precision networks", section 3)
``entropy``     the threshold whose rounded distribution tells least from that of the values: the least
                divergence of Kullback and Leibler (Migacz 2017, "8-bit inference with TensorRT"), of those
                whose errors are in the mean square no larger than without a threshold. The divergence does
                not know how far off what is clipped is: where most of the probabilities of an attention are
                next to nothing, it would clip those that are not
``mse``         the threshold with the least mean square of the errors of rounding and clipping (Nagel et al.
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
"""How many thresholds are tried."""
_NARROWEST = 64
"""The largest magnitude over the least threshold whose squares are compared."""
_FEWEST = _NUMBERS // 2
"""Bins on one side that a range has at least where distributions are compared; fewer are no distribution."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """From where to where the numbers of a tensor reach; 0 is inside, or an end."""

    low: float
    high: float

    def joined(self, other: ValueRange) -> ValueRange:
        """The least range that holds both."""
        return ValueRange(min(self.low, other.low), max(self.high, other.high))


def chosen_range(histogram: Histogram, method: str, percentile: float) -> ValueRange:
    """The range of a tensor of which something but zeros has been seen.

    Parameters
    ----------
    histogram
        What has been seen.
    method
        One of `method_names.RANGES`.
    percentile
        Of the method of that name: how many of a hundred values are inside.
    """
    return _METHODS[method](histogram, percentile)


def _everything(histogram: Histogram, _percentile: float) -> ValueRange:
    return ValueRange(min(histogram.low, 0.0), max(histogram.high, 0.0))


def _within(histogram: Histogram, threshold: float) -> ValueRange:
    whole = _everything(histogram, 0)
    return ValueRange(max(whole.low, -threshold), min(whole.high, threshold))


def _percentile(histogram: Histogram, percentile: float) -> ValueRange:
    """The ends of the bins in which the last value of either end lies that is kept."""
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
    # From the widest on, so that of equals the widest stays.
    for kept in range(histogram.bins, _FEWEST - 1, -step):
        threshold = histogram.top * kept / histogram.bins
        divergence = _divergence(histogram, kept)
        if divergence < least and _squares(histogram, threshold) <= bound:
            least, chosen = divergence, _within(histogram, threshold)
    return chosen


def _divergence(histogram: Histogram, kept: int) -> float:
    """What the rounded distribution lacks of the true one, in nats, with `kept` bins on each side.

    The true one has what is clipped in its last bins; the rounded one is made without it, and spreads what
    becomes one number evenly over the bins from which that came. Of few values even a smooth distribution has
    uneven bins, and spreading them seems to lose something; as much as that is on average, half a bin by the
    number of values, is taken off (Miller 1955, "Note on the bias of information estimates"). Without that,
    the narrowest range, of one bin a number, would lose nothing inside, and win.
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
    # A bin with clipped values alone would be infinitely surprising; it counts as a small share instead.
    p, q = true / true.sum(), np.maximum(rounded / rounded.sum(), 1e-12)
    return float((p * np.log(p / q)).sum())


def _least_squares(histogram: Histogram, percentile: float) -> ValueRange:
    least, chosen = np.inf, _everything(histogram, percentile)
    # Geometric, because an outlier may be as many times as large as what is rounded.
    for threshold in np.geomspace(histogram.top, histogram.top / _NARROWEST, _THRESHOLDS).tolist():
        error = _squares(histogram, threshold)
        if error < least:
            least, chosen = error, _within(histogram, threshold)
    return chosen


def _squares(histogram: Histogram, threshold: float) -> float:
    """The squares of all errors together: of rounding inside the range, of clipping outside.

    A rounding error is anywhere in a step with equal chances, and its mean square ``step ** 2 / 12``; but
    values within half a step of zero become zero, and most probabilities of an attention are such.
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
