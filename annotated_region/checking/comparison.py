"""How a result differs from the reference: by how much, where, and where one of them is no number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from annotated_region.checking.tolerance import Tolerance

__all__ = ["ResultCheck", "compared"]

_BLOCK = 1 << 20  # values that are compared at once, so that large results need no copies of their size
_LEAST_FILL, _FAR = 1e4, 100.0  # masks are filled with this magnitude at least, and other values are smaller
_STEPS = {"int8": 127.0, "uint8": 255.0}


@dataclass(frozen=True, slots=True)
class ResultCheck:
    """One result beside the reference.

    Attributes
    ----------
    name
        What it is called.
    dtype, shape
        Of the reference.
    absolute
        The largest absolute difference where both are finite.
    relative
        The same over the largest finite magnitude of the reference, but for what masks are filled with.
    cosine
        Of the angle between both as vectors; 1 where both are zero.
    where
        The index of the value that is furthest beyond the tolerance, or of the largest difference; None where
        nothing differs.
    found, wanted
        The values there.
    wrong
        How many values are beyond the tolerance.
    nan, inf
        How many values are NaN, or infinite, on one side only.
    allowed
        What the tolerance allows a value of magnitude zero.
    reason
        Where the tolerance comes from.
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

    Whole numbers and truth values have to be equal, but for those of 8 bits where the region quantizes: a sum
    in another order may round to the next step.
    """
    dtype, shape = str(wanted.dtype), tuple(wanted.shape)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        what = f"{found.dtype}{list(found.shape)} instead of {dtype}{list(shape)}"
        return ResultCheck(name, dtype, shape, failure=f"it is {what}")
    is_exact = not _is_float(wanted.dtype) and not (dtype in _STEPS and "int8" in tolerance.reason)
    seen = _Distance(*_limits(wanted, tolerance, is_exact))
    for first, left, right in _blocks(found, wanted):
        seen.take(first, left, right)
    reason = "whole numbers and truth values are equal" if is_exact else tolerance.reason
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

    What masks are filled with does not count as the largest.
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
    """Whether the largest magnitude is what masks are filled with, far from all other values.

    Scores of attention are masked by -1e9 or the least float32. An error as large as a share of that would
    hide whatever is wrong with the scores.
    """
    others = _largest(wanted, largest)
    blocks = _blocks(wanted, wanted)
    places = sum(int(np.count_nonzero(np.abs(right) == largest)) for _first, right, _same in blocks)
    return places > 1 and 0.0 < others * _FAR <= largest


def _blocks(left: np.ndarray, right: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Pieces of both in double precision, each with the position of its first value."""
    flat_left, flat_right = left.reshape(-1), right.reshape(-1)
    for first in range(0, flat_left.size, _BLOCK):
        piece = slice(first, first + _BLOCK)
        yield first, flat_left[piece].astype("float64"), flat_right[piece].astype("float64")


@dataclass(slots=True)
class _Distance:
    """What has been seen of two arrays, block by block."""

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
        """Look at one block."""
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
        """Of the angle between what was seen of both."""
        if self.left_square == 0.0 or self.right_square == 0.0:
            return 1.0 if self.left_square == self.right_square else 0.0
        # Each root by itself: the product of squares may be too large for a number.
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
