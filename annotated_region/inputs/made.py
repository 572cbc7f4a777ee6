"""Generates inputs that suit the use of each parameter, reproducibly across processes."""

from __future__ import annotations

import math
import os

import ml_dtypes
import numpy as np
from tvm import relax

from annotated_region.errors import InputError
from annotated_region.inputs.uses import ParameterUse, UseKind
from annotated_region.tvm_adapter.types import fixed_extents, tensor_type

__all__ = ["array_type", "made_array", "words_for_use"]

_TRUE_SHARE = 0.8


def array_type(dtype: str) -> np.dtype:
    """NumPy's dtype for a dtype of TVM, including bfloat16 and float8.

    Raises
    ------
    InputError
        There is no such dtype.
    """
    known = getattr(ml_dtypes, dtype, dtype)
    try:
        return np.dtype(known)
    except TypeError as error:
        raise InputError(
            f"numpy has no arrays of type {dtype}, so the function cannot be run from Python"
        ) from error


def made_array(param: relax.Var, use: ParameterUse, seed: int) -> np.ndarray:
    """Values for a parameter of static shape.

    Parameters
    ----------
    param
        The parameter.
    use
        The use of its values.
    seed
        The seed of the values.

    Raises
    ------
    InputError
        The values do not fit into this machine's memory.
    """
    shape, dtype = fixed_extents(param), array_type(str(tensor_type(param).dtype))
    needed = 8 * math.prod(shape)  # bytes: values are first generated in double precision
    if needed > _memory():
        raise InputError(
            f"parameter {param.name!r} of shape {tuple(shape)} takes {needed:.1e} bytes to fill, more than "
            "this machine has"
        )
    return _values(use, shape, dtype, np.random.default_rng(seed))


def _values(
    use: ParameterUse, shape: tuple[int, ...], dtype: np.dtype, random: np.random.Generator
) -> np.ndarray:
    match use.kind:
        case UseKind.INDICES:
            return np.asarray(random.integers(0, use.bound, shape)).astype(dtype)
        case UseKind.LENGTHS:
            return np.asarray(random.integers(1, use.bound + 1, shape)).astype(dtype)
        case UseKind.TRUTH:
            truth = np.asarray(random.random(shape) < _TRUE_SHARE)
            if truth.ndim:
                truth[..., :1] = True  # softmax of a fully masked row is undefined
            return truth.astype(dtype)
        case UseKind.POSITIVE:
            return np.asarray(random.uniform(0.5, 1.5, shape)).astype(dtype)
        case UseKind.NUMBERS if dtype.kind in "iu":
            low, high = max(np.iinfo(dtype).min, -128), min(np.iinfo(dtype).max, 255)
            return np.asarray(random.integers(low, min(high, low + 255) + 1, shape)).astype(dtype)
        case UseKind.NUMBERS:
            return np.asarray(random.standard_normal(shape)).astype(dtype)


def words_for_use(param: relax.Var, use: ParameterUse, shape: tuple[int, ...]) -> str:
    """A description of the values generated for a parameter, for users."""
    words = {
        UseKind.INDICES: f"indices from 0 to {use.bound - 1}",
        UseKind.LENGTHS: f"lengths from 1 to {use.bound}",
        UseKind.TRUTH: "booleans, four of five true",
        UseKind.POSITIVE: "numbers from 0.5 to 1.5",
        UseKind.NUMBERS: "normal numbers" if "float" in str(tensor_type(param).dtype) else "whole numbers",
    }[use.kind]
    return f"{param.name} {tensor_type(param).dtype}[{', '.join(map(str, shape))}]: {words}"


def _memory() -> int:
    """The size of this machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
