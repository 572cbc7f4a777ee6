"""Ranges that fall, such as ``arange(8, 0, -2)``, and those of symbolic length with floats.

TVM 0.27's importer counts two numbers too many for the former. For the latter, such as the centres of patches
``arange(0.5, n)``, the length becomes a rounded quotient of floats, which equals no other extent.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TypeGuard

import tvm
from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode

_FINEST = 1024  # the largest denominator of starts and steps; float32 holds their multiples


@converts("arange.start_step")
def range_of_steps(node: TorchNode) -> relax.Expr | None:
    """A range as multiples of its step from its start, where its length needs only whole numbers."""
    start, end, step = (_number(node.argument(place, "step", 1)) for place in range(3))
    if start is None or end is None or not isinstance(step, Fraction) or not step:
        return None
    known = [each for each in (start, end, step) if isinstance(each, Fraction)]
    whole = lcm(*(each.denominator for each in known))
    if whole == 1 and step > 0 and isinstance(node.argument(2, "step", 1), int):
        return None
    if whole > _FINEST or (whole > 1 and (len(known) == 3 or "float" not in node.dtype)):
        return None
    dtype = "int64" if whole == 1 else "float64" if node.dtype == "float64" else "float32"
    first = node.number_as_tensor(float(start) if isinstance(start, Fraction) else start, dtype)
    if first is None:
        return None
    distance = _times(end, whole) - _times(start, whole)
    stride = int(step * whole)
    count = (distance + stride - 1) // stride if step > 0 else (-distance - stride - 1) // -stride
    places = node.cast(node.emit(relax.op.arange(0, count, 1, "int64")), dtype)
    steps = node.emit(relax.op.multiply(places, relax.const(float(step), dtype)))
    return node.cast(node.emit(relax.op.add(steps, first)), node.dtype)


def _number(value: object) -> Fraction | relax.Expr | None:
    """A number as a fraction, or an extent; None if it is neither."""
    if isinstance(value, int | float):
        return Fraction(value)
    return value if _is_extent(value) else None


def _times(value: Fraction | relax.Expr, factor: int) -> int | relax.Expr:
    return int(value * factor) if isinstance(value, Fraction) else value * factor


def _is_extent(value: object) -> TypeGuard[relax.Expr]:
    """Whether a value is a symbolic whole number."""
    return isinstance(value, relax.Expr) and isinstance(value.ty, tvm.ir.PrimType)
