"""Counts the values of a tensor over many inputs, in memory that does not grow with their number.

The bins are of one width and cover ``-top`` to ``top``. A larger value doubles ``top`` as often as needed,
and then each two neighbouring bins become one, so that no value has to be looked at again::

    -top            0            top              -2 top          0          2 top
     | a | b | c | d | e | f | g | h |     =>      |   | a+b | c+d | e+f | g+h |   |

The first values alone say where that begins, and all else is counting: the same inputs in the same order
give the same counts. Zeros are counted by themselves, because every scale keeps them exactly.
"""

from __future__ import annotations

import numpy as np

__all__ = ["Histogram"]


class Histogram:
    """What has been seen of one tensor.

    Parameters
    ----------
    bins
        On each side of zero; an even number.

    Attributes
    ----------
    low, high
        The least and the largest value; infinite while nothing has been seen.
    zeros
        How many values were exactly zero.
    top
        The largest magnitude that has a bin; 0 before the first value other than zero.
    counts
        [2 * bins]: how many other values lie in each bin, from ``-top`` up.
    """

    __slots__ = ("bins", "counts", "high", "low", "top", "zeros")

    def __init__(self, bins: int = 2048) -> None:
        self.bins = bins
        self.counts = np.zeros(2 * bins, np.int64)
        self.low, self.high = np.inf, -np.inf
        self.zeros = 0
        self.top = 0.0

    def add(self, values: np.ndarray) -> None:
        """Count the values of an array, all finite. O(values)."""
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
        # The largest value stands on the upper end of the last bin.
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
        """Whether nothing but zeros has been seen."""
        return not self.top
