"""Numbers that float16 and bfloat16 do not hold, beside tensors of these types.

PyTorch computes ``x * -1e9`` of float16 in float32 and rounds the result: it is -0 where x is 0. TVM's
importer rounds the number first, to infinity, and the product is NaN there. Likewise it divides by infinity
in ``x / 1e6``, and multiplies by 0 in ``x * 1e-8``. A quotient that is rounded down or towards zero reads the
exact number, too: ``2.4 // 0.3`` is 8, and 7 if 0.3 is rounded to float16 first.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from annotated_region.importing.torch_programs.converters.places import known_tensor
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode

__all__ = ["computing_type"]

_STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number; rounding changes what is held by at most half of this part."""


def computing_type(node: TorchNode, *places: int, exactly: bool = False) -> str:
    """The type in which a node reads its operands: its own, or float32 if that does not hold its numbers.

    Parameters
    ----------
    node
        The node.
    places
        Those of its operands. Numbers are also constants without axes, as ``torch.tensor(-1e9)`` is.
    exactly
        Whether numbers that the type rounds count as not held.
    """
    dtype = node.dtype
    if dtype not in _STEPS:
        return dtype
    numbers = [each for each in (_number(node, place) for place in places) if each is not None]
    return dtype if all(_is_held(each, dtype, exactly=exactly) for each in numbers) else "float32"


def _number(node: TorchNode, place: int) -> float | None:
    given = node.given(place)
    if isinstance(given, int | float):
        return float(given)
    tensor = known_tensor(node, given)
    return float(tensor) if tensor is not None and tensor.ndim == 0 else None


def _is_held(number: float, dtype: str, *, exactly: bool) -> bool:
    if not math.isfinite(number):
        return True
    with np.errstate(over="ignore"):
        held = float(np.float64(number).astype(getattr(ml_dtypes, dtype, dtype)))
    return math.isclose(held, number, rel_tol=0.0 if exactly else _STEPS[dtype])
