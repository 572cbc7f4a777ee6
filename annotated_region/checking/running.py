"""Calls of built functions: their results and exceptions."""

from __future__ import annotations

import numpy as np
import tvm

from annotated_region.errors import RunError

__all__ = [
    "FAILURES",
    "Value",
    "arrays_of",
]

# The exceptions of TVM's runtime, and of regions implemented in Python, when a call fails.
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
    """The arrays in the result of a function: a tensor, or nested tuples of tensors.

    Raises
    ------
    RunError
        The result is something else.
    """
    if isinstance(answer, tvm.runtime.Tensor):
        return [answer.numpy()]
    if isinstance(answer, tvm.ir.Array | list | tuple):
        return [array for part in answer for array in arrays_of(part)]
    raise RunError(
        f"a function returns {type(answer).__name__}; only tensors and tuples of them can be compared"
    )
