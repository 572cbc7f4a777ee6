"""A constant tensor as integers, what is subtracted from them, and what they are multiplied by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from annotated_region.targets.translation import require

__all__ = ["Scaled", "is_float"]

LARGEST = 255
"""Integers up to this are exact in each float dtype, and are weights of at most 8 bits."""


def is_float(dtype: np.dtype) -> bool:
    """Whether a dtype is one of those of float weights."""
    return dtype.name in ("float16", "float32")


@dataclass(frozen=True, slots=True)
class Scaled:
    """A tensor ``(words - zeros) * scales``; all parts have its shape.

    Attributes
    ----------
    words
        Integers of at most 8 bits and a sign.
    zeros
        What is subtracted, integers or floats; None is zero.
    scales
        Floats; None is one.
    dtype
        The dtype of the tensor.
    """

    words: np.ndarray
    zeros: np.ndarray | None
    scales: np.ndarray | None
    dtype: np.dtype

    @staticmethod
    def of(words: np.ndarray, dtype: np.dtype) -> Scaled:
        """Integers, cast to a dtype."""
        require(bool((np.abs(words.astype(np.int64)) <= LARGEST).all()), "an integer has more than 8 bits")
        return Scaled(words, None, None, dtype)

    @property
    def is_changed(self) -> bool:
        """Whether something is subtracted from the integers, or multiplies them."""
        return self.zeros is not None or self.scales is not None

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> Scaled:
        """The tensor after an op that moves, selects or repeats elements."""
        zeros, scales = (None if part is None else move(part) for part in (self.zeros, self.scales))
        return Scaled(move(self.words), zeros, scales, self.dtype)

    def shifted(self, zeros: np.ndarray, shape: tuple[int, ...]) -> Scaled:
        """The tensor less `zeros`, in the shape of both."""
        require(not self.is_changed, "the integers are shifted twice")
        whole = self.moved(lambda part: np.broadcast_to(part, shape))
        return replace(whole, zeros=np.broadcast_to(zeros, shape))

    def multiplied(self, scales: np.ndarray, shape: tuple[int, ...]) -> Scaled:
        """The tensor times `scales`, in the shape of both."""
        require(self.scales is None, "the integers are scaled twice")
        whole = self.moved(lambda part: np.broadcast_to(part, shape))
        return replace(whole, scales=np.broadcast_to(scales, shape))

    def value(self) -> np.ndarray:
        """The tensor itself."""
        numbers = self.words.astype(self.dtype)
        if self.zeros is not None:
            numbers = numbers - self.zeros.astype(self.dtype)
        return numbers if self.scales is None else numbers * self.scales.astype(self.dtype)
