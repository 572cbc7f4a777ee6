"""Removes floats from extents: exporters' ``Cast(int64, 2.0 * Cast(float32, rows))`` is ``rows * 2``."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

__all__ = ["plain_extent"]

PAIRS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min)


def plain_extent(extent: relax.Expr) -> relax.Expr:
    """The same extent without floats, where they only multiply by an integer.

    float32 represents all integers up to 2^24 exactly, so both are equal for realistic extents; for a larger
    extent, the shape check of the region would reject the result tensor.
    """
    found = _rewritten(extent)
    return extent if found is None else found


def _rewritten(extent: relax.Expr) -> relax.Expr | None:
    """The extent without floats; None if it has none that can be removed."""
    if isinstance(extent, relax.Var | tirx.IntImm):
        return None
    if not isinstance(extent, PAIRS):
        return _multiple(extent)
    left, right = _rewritten(extent.a), _rewritten(extent.b)
    if left is None and right is None:
        return None
    return type(extent)(extent.a if left is None else left, extent.b if right is None else right)


def _multiple(extent: relax.Expr) -> relax.Expr | None:
    """The integer multiple that a cast from float back to integer computes, or None."""
    if not isinstance(extent, tirx.Cast) or not isinstance(extent.value, tirx.Mul):
        return None
    factor, number = extent.value.a, extent.value.b
    if isinstance(factor, tirx.Cast):
        factor, number = number, factor
    if not isinstance(factor, tirx.FloatImm) or not isinstance(number, tirx.Cast):
        return None
    is_whole = factor.value >= 1 and factor.value == int(factor.value)
    inner = number.value
    if not (is_whole and isinstance(inner.ty, tvm.ir.PrimType) and str(inner.ty) == str(extent.ty)):
        return None
    return tirx.Mul(plain_extent(inner), tirx.IntImm(str(extent.ty), int(factor.value)))
