"""A call with constant arguments, and the dtype kinds of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from annotated_region.arrays import NUMPY_DTYPES
from annotated_region.passes.preparation.tensors import FLOATS

__all__ = ["ConstantCall", "Evaluator", "are_in", "kind_of", "of_kinds", "without_nan"]


@dataclass(frozen=True, slots=True)
class ConstantCall:
    """A call with constant arguments.

    Attributes
    ----------
    args
        Arrays, tuples of arrays, shapes as tuples of int, numbers.
    attrs
        The attributes of the call.
    shape, dtype
        The required shape and dtype of the result.
    """

    args: tuple[Any, ...]
    attrs: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype


Evaluator = Callable[[ConstantCall], np.ndarray | None]
"""The result of a call, in its dtype or in double precision; None where compiled code may differ."""


def kind_of(array: np.ndarray) -> str:
    """Numpy's kind letter, with "f" for bfloat16, which numpy lacks, and "?" for other foreign dtypes."""
    if array.dtype.name in FLOATS:
        return "f"
    return array.dtype.kind if array.dtype.name in NUMPY_DTYPES else "?"


def of_kinds(kinds: str, function: Callable[..., np.ndarray]) -> Evaluator:
    """An elementwise evaluator for dtypes of these kinds: b(ool), i(nteger), u(nsigned), f(loat)."""

    def evaluate(call: ConstantCall) -> np.ndarray | None:
        return function(*call.args) if all(kind_of(array) in kinds for array in call.args) else None

    return evaluate


def without_nan(evaluate: Evaluator) -> Evaluator:
    """`evaluate`, declining NaN; for ops that order numbers, on which numpy and compiled code differ."""

    def evaluate_numbers(call: ConstantCall) -> np.ndarray | None:
        arrays = (arg for arg in call.args if isinstance(arg, np.ndarray))
        has_nan = any((array != array).any() for array in arrays)  # noqa: PLR0124
        return None if has_nan else evaluate(call)

    return evaluate_numbers


def are_in(indices: np.ndarray, limit: int) -> bool:
    """Whether there are indices, and all are nonnegative and within bounds."""
    if indices.dtype.kind not in "iu" or indices.size == 0:
        return False
    return bool(indices.min() >= 0 and indices.max() < limit)
