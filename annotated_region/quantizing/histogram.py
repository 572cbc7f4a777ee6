"""A histogram of the values of a tensor over many inputs, in constant memory.

The bins have equal width and cover ``-top`` to ``top``. A larger value doubles ``top`` as often as needed;
each doubling merges pairs of adjacent bins, so that no value has to be counted again::

    -top            0            top              -2 top          0          2 top
     | a | b | c | d | e | f | g | h |     =>      |   | a+b | c+d | e+f | g+h |   |

The initial ``top`` depends only on the first values, so the same inputs in the same order give the same
counts. Zeros are counted separately, because every scale represents them exactly.
"""

from __future__ import annotations

import numpy as np

__all__ = ["Histogram"]


class Histogram:
    """The distribution of the values of one tensor.

    Parameters
    ----------
    bins
        The number of bins on each side of zero; even.

    Attributes
    ----------
    low, high
        The least and the largest value; infinite before the first value.
    zeros
        The number of values that are exactly zero.
    top
        The upper end of the last bin; 0 before the first nonzero value.
    counts
        [2 * bins]: the number of nonzero values in each bin, from ``-top`` up.
    """

    __slots__ = ("bins", "counts", "high", "low", "top", "zeros")

    def __init__(self, bins: int = 2048) -> None:
        self.bins = bins
        self.counts = np.zeros(2 * bins, np.int64)
        self.low, self.high = np.inf, -np.inf
        self.zeros = 0
        self.top = 0.0

    def add(self, values: np.ndarray) -> None:
        """Count the values of an array, which must be finite. O(values)."""
        if not values.size:
            return
        flat = values.reshape(-1).astype(np.float64, copy=False)
        self.low, self.high = min(self.low, float(flat.min())), max(self.high, float(flat.max()))
        others = flat[flat != 0]
        self.zeros += flat.size - others.size
        if others.size:
            self._widen(max(-float(others.min()), float(others.max())))
            self._count(others)

    def _widen(self, magnitude: float) -> None:
        if not self.top:
            self.top = magnitude
        while self.top < magnitude:
            quarter = self.bins // 2
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.pad(pairs, (quarter, quarter))
            self.top *= 2

    def _count(self, values: np.ndarray) -> None:
        places = np.floor(values / self.top * self.bins).astype(np.int64) + self.bins
        # The value `top` itself belongs to the last bin.
        places = np.clip(places, 0, 2 * self.bins - 1)
        self.counts += np.bincount(places, minlength=2 * self.bins)

    @property
    def centers(self) -> np.ndarray:
        """The middle of each bin."""
        width = self.top / self.bins
        middles: np.ndarray = (np.arange(2 * self.bins) - self.bins + 0.5) * width
        return middles

    @property
    def is_zero(self) -> bool:
        """Whether all values were zero."""
        return not self.top
