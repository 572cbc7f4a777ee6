"""Comparison of a result with the reference: largest error, its position, NaN and infinity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from annotated_region.checking.tolerance import Tolerance

__all__ = ["ResultCheck", "compared"]

_BLOCK = 1 << 20  # values compared at a time, which bounds the size of temporary copies
_LEAST_FILL, _FAR = 1e4, 100.0  # the least magnitude of mask values, and their least ratio to other values
_STEPS = {"int8": 127.0, "uint8": 255.0}


@dataclass(frozen=True, slots=True)
class ResultCheck:
    """The comparison of one result with the reference.

    Attributes
    ----------
    name
        The name of the result.
    dtype, shape
        The dtype and shape of the reference.
    absolute
        The largest absolute difference where both are finite.
    relative
        The same relative to the largest finite magnitude of the reference, excluding mask values.
    cosine
        The cosine of the angle between both as vectors; 1 if both are zero.
    where
        The index of the value that exceeds the tolerance most, or of the largest difference; None if
        nothing differs.
    found, wanted
        The values at that index.
    wrong
        The number of values that exceed the tolerance.
    nan, inf
        The number of values that are NaN, or infinite, on one side only.
    allowed
        The error that the tolerance allows for a value of magnitude zero.
    reason
        The derivation of the tolerance.
    failure
        Why the result is wrong; empty if it is right.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    absolute: float = 0.0
    relative: float = 0.0
    cosine: float = 1.0
    where: tuple[int, ...] | None = None
    found: float | None = None
    wanted: float | None = None
    wrong: int = 0
    nan: int = 0
    inf: int = 0
    allowed: float = 0.0
    reason: str = ""
    failure: str = ""

    @property
    def ok(self) -> bool:
        """Whether the result is within the tolerance."""
        return not self.failure


def compared(name: str, found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> ResultCheck:
    """Compare a result with the reference.

    Integers and booleans must be equal, except 8-bit integers if the region quantizes: a sum in a different
    order may round to the next step.
    """
    dtype, shape = str(wanted.dtype), tuple(wanted.shape)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        what = f"{found.dtype}{list(found.shape)} instead of {dtype}{list(shape)}"
        return ResultCheck(name, dtype, shape, failure=f"it is {what}")
    is_exact = not _is_float(wanted.dtype) and not (dtype in _STEPS and tolerance.in_int8)
    seen = _Distance(*_limits(wanted, tolerance, is_exact))
    for first, left, right in _blocks(found, wanted):
        seen.take(first, left, right)
    reason = "integers and booleans are equal" if is_exact else tolerance.reason
    at = seen.place
    return ResultCheck(
        name,
        dtype,
        shape,
        absolute=seen.absolute,
        relative=seen.absolute / seen.largest if seen.largest > 0 else seen.absolute,
        cosine=seen.cosine,
        where=None if at is None else tuple(int(index) for index in np.unravel_index(at, shape)),
        found=None if at is None else float(found.reshape(-1)[at]),
        wanted=None if at is None else float(wanted.reshape(-1)[at]),
        wrong=seen.wrong,
        nan=seen.nan,
        inf=seen.inf,
        allowed=seen.atol,
        reason=reason,
        failure=seen.failure(),
    )


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or "float" in str(dtype)  # ml_dtypes are of kind V


def _limits(wanted: np.ndarray, tolerance: Tolerance, is_exact: bool) -> tuple[float, float, float]:
    """The absolute and the relative tolerance, and the largest finite magnitude of the reference.

    Mask values are excluded from the magnitude.
    """
    largest = _largest(wanted, np.inf)
    if largest >= _LEAST_FILL and _is_fill(wanted, largest):
        largest = _largest(wanted, largest)
    if is_exact:
        return 0.0, 0.0, largest
    steps = _STEPS.get(str(wanted.dtype))
    return tolerance.allowed(steps or largest), 0.0 if steps else tolerance.rtol, largest


def _largest(wanted: np.ndarray, below: float) -> float:
    """The largest finite magnitude below a bound."""
    magnitudes = (np.abs(right) for _first, right, _same in _blocks(wanted, wanted))
    return max((float(each[each < below].max(initial=0.0)) for each in magnitudes), default=0.0)


def _is_fill(wanted: np.ndarray, largest: float) -> bool:
    """Whether the largest magnitude is a mask value, far from all other values.

    Attention scores are masked by -1e9 or the least float32. A tolerance relative to such a value would
    accept any error of the scores.
    """
    others = _largest(wanted, largest)
    blocks = _blocks(wanted, wanted)
    places = sum(int(np.count_nonzero(np.abs(right) == largest)) for _first, right, _same in blocks)
    return places > 1 and 0.0 < others * _FAR <= largest


def _blocks(left: np.ndarray, right: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Blocks of both in double precision, each with the position of its first value."""
    flat_left, flat_right = left.reshape(-1), right.reshape(-1)
    for first in range(0, flat_left.size, _BLOCK):
        piece = slice(first, first + _BLOCK)
        yield first, flat_left[piece].astype("float64"), flat_right[piece].astype("float64")


@dataclass(slots=True)
class _Distance:
    """Statistics of the difference of two arrays, accumulated block by block."""

    atol: float
    rtol: float
    largest: float
    absolute: float = 0.0
    excess: float = -np.inf
    place: int | None = None
    wrong: int = 0
    nan: int = 0
    inf: int = 0
    infinite_here: int = 0
    dot: float = 0.0
    left_square: float = 0.0
    right_square: float = 0.0

    def take(self, first: int, left: np.ndarray, right: np.ndarray) -> None:
        """Accumulate one block."""
        both = np.isfinite(left) & np.isfinite(right)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        self.nan += int(np.count_nonzero(np.isnan(left) != np.isnan(right)))
        self.inf += int(np.count_nonzero(np.isinf(left) != np.isinf(right)))
        self.inf += int(np.count_nonzero(np.isinf(left) & np.isinf(right) & ~same))
        self.infinite_here += int(np.count_nonzero(np.isinf(left) & np.isfinite(right)))
        numbers, others = np.where(both, left, 0.0), np.where(both, right, 0.0)
        difference = np.abs(numbers - others)
        excess = difference - (self.atol + self.rtol * np.abs(others))
        excess[~both] = np.where(same[~both], -np.inf, np.inf)
        self.wrong += int(np.count_nonzero(excess > 0))
        self.absolute = max(self.absolute, float(difference.max(initial=0.0)))
        self._note_place(first, excess, same)
        self.dot += float(numbers @ others)
        self.left_square += float(numbers @ numbers)
        self.right_square += float(others @ others)

    def _note_place(self, first: int, excess: np.ndarray, same: np.ndarray) -> None:
        excess[same] = -np.inf
        worst = int(excess.argmax()) if excess.size else 0
        if excess.size and excess[worst] > self.excess:
            self.excess, self.place = float(excess[worst]), first + worst

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both."""
        if self.left_square == 0.0 or self.right_square == 0.0:
            return 1.0 if self.left_square == self.right_square else 0.0
        # Separate roots, because the product of the squares may overflow.
        cosine = self.dot / np.sqrt(self.left_square) / np.sqrt(self.right_square)
        return float(min(1.0, max(-1.0, cosine)))

    def failure(self) -> str:
        """Why the result is wrong; empty if it is right."""
        if not self.wrong:
            return ""
        parts = [f"{self.nan} values are NaN on one side only"] if self.nan else []
        if self.infinite_here:
            parts.append(f"{self.infinite_here} values are infinite where the reference is finite")
        elif self.inf:
            parts.append(f"{self.inf} values are infinite on one side only, or of other sign")
        rest = self.wrong - self.nan - self.inf
        if rest > 0:
            parts.append(f"{rest} values are beyond the tolerance")
        return "; ".join(parts)
