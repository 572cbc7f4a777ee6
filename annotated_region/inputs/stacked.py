"""Splits arrays that hold several inputs per parameter, as in .npz files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tvm
from tvm import relax

from annotated_region.errors import InputError
from annotated_region.tvm_adapter.types import shape_of

__all__ = ["inputs_in_stack"]


def inputs_in_stack(func: relax.Function, arrays: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The inputs in the arrays of a file.

    ::

        parameter x: float32[1, 3, 224, 224]
        x [100, 1, 3, 224, 224]     100 inputs, along an axis in front
        x [100, 3, 224, 224]        100 inputs, along the first axis, whose extent the parameter's divides
        x [1, 3, 224, 224]          one input

    Parameters
    ----------
    func
        The function to call with them.
    arrays
        The arrays by parameter name. Only the number of inputs is checked; `arguments_for` checks the rest.

    Raises
    ------
    InputError
        The arrays hold different numbers of inputs.
    """
    parts = {name: _parts(func, name, array) for name, array in arrays.items()}
    counts = {name: len(each) for name, each in parts.items()}
    if len(set(counts.values())) > 1:
        words = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise InputError(f"the arrays hold different numbers of inputs: {words}")
    count = next(iter(counts.values()), 0)
    return [{name: each[number] for name, each in parts.items()} for number in range(count)]


def _parts(func: relax.Function, name: str, array: np.ndarray) -> list[np.ndarray]:
    param = next((param for param in func.params if param.name == name), None)
    if param is None or not isinstance(getattr(param.ty, "shape", None), relax.ShapeExpr):
        return [array]
    extents = list(shape_of(param).values)
    if array.ndim == len(extents) + 1:
        return list(array)
    first = extents[0] if extents else None
    size = int(first) if isinstance(first, tvm.tirx.IntImm) else 0
    if array.ndim != len(extents) or size == 0 or array.shape[0] % size:
        return [array]
    return [array[start : start + size] for start in range(0, len(array), size)]
