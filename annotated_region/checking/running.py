"""Calls of built functions: what they take and give, and what they raise."""

from __future__ import annotations

import numpy as np
import tvm

from annotated_region.errors import RunError

__all__ = ["FAILURES", "Value", "arrays_of", "first_line"]

# What TVM's runtime, and functions in Python that regions may be, raise where they cannot run.
FAILURES: tuple[type[Exception], ...] = (
    RuntimeError,
    ValueError,
    TypeError,
    MemoryError,
    LookupError,
    ArithmeticError,
    AssertionError,
)

Value = tvm.runtime.Tensor | tvm.runtime.ShapeTuple


def arrays_of(answer: object) -> list[np.ndarray]:
    """The arrays in what a function returns: a tensor, or tuples of them.

    Raises
    ------
    RunError
        It returns something else.
    """
    if isinstance(answer, tvm.runtime.Tensor):
        return [answer.numpy()]
    if isinstance(answer, tvm.ir.Array | list | tuple):
        return [array for part in answer for array in arrays_of(part)]
    raise RunError(
        f"a function returns {type(answer).__name__}; only tensors and tuples of them can be compared"
    )


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its class if it says nothing."""
    return next((line for line in str(error).strip().splitlines() if line.strip()), type(error).__name__)
