"""When two answers agree: NaN with NaN, infinities of one sign, and numbers that are near each other."""

from __future__ import annotations

import numpy as np

__all__ = ["agree"]

RELATIVE = 1e-5
"""Of a number itself: a few roundings of float32, and ``1 + erf(x)`` of GELU where it nearly cancels."""

OF_THE_LARGEST = 2e-6
"""Of the largest number of an answer, for sums: terms may cancel."""

ORDINARY = 1e3
"""Numbers above come of a special one; they are compared with each other's size, as those below are."""

SMALLEST = float(np.finfo("float32").tiny)
"""Below, an answer may be zero."""


def agree(wanted: np.ndarray, found: np.ndarray, *, is_sum: bool) -> np.ndarray:
    """Where both are none, or the same, or near.

    Parameters
    ----------
    wanted, found
        Arrays whose shapes fit each other.
    is_sum
        Whether numbers are sums of terms that may cancel.
    """
    with np.errstate(all="ignore"):
        left, right = (np.asarray(array, "float64") for array in (wanted, found))
        is_finite = np.isfinite(left) & np.isfinite(right)
        share = _size(left) * OF_THE_LARGEST if is_sum else 0.0
        is_near = np.abs(left - right) <= RELATIVE * np.abs(left) + share + SMALLEST
    return np.asarray((left == right) | (is_near & is_finite) | (np.isnan(left) & np.isnan(right)))


def _size(array: np.ndarray) -> np.ndarray:
    """For each number the largest one of its kind, ordinary or not."""
    sizes = np.abs(array)
    is_ordinary = sizes < ORDINARY
    largest = [sizes[kind & np.isfinite(sizes)].max(initial=0.0) for kind in (is_ordinary, ~is_ordinary)]
    return np.asarray(np.where(is_ordinary, *largest))
