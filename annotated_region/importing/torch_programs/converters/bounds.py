"""Bounds of slices, which PyTorch counts from the end where they are negative and moves into the axis."""

from __future__ import annotations

from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["END", "bound_in", "is_below_zero"]

END = 1 << 62  # the end of a slice in PyTorch; more than any extent


def bound_in(extent: Extent, value: object, given: object) -> Extent:
    """A bound of a slice as a number from 0 to the extent.

    Parameters
    ----------
    extent
        The extent of the axis.
    value
        The bound: a number, or an expression of extents.
    given
        The argument of the node: the same number, or the node that computes the expression.

    Raises
    ------
    ModelError
        The bound may be negative in one run and not in another.
    """
    if isinstance(value, int) and value >= END:
        return extent
    if isinstance(value, int) and isinstance(extent, int):
        return max(value + extent, 0) if value < 0 else min(value, extent)
    begins_at_end = is_below_zero(given)
    if begins_at_end is None:
        raise ModelError(f"whether its bound {given} counts from the end is known in a run only")
    number = _number(value)
    if begins_at_end:
        return tirx.Max(tirx.Add(_number(extent), number), _number(0))
    if value == 0 and isinstance(value, int):
        return 0
    return number if _is_at_most(given, extent) else tirx.Min(number, _number(extent))


def is_below_zero(given: object) -> bool | None:
    """Whether a number, or what a node computes of extents, is negative in all runs, or in none.

    None if that differs.
    """
    if isinstance(given, int):
        return given < 0
    symbol = getattr(getattr(given, "meta", {}).get("val"), "node", None)
    if symbol is None:
        return None
    range_ = symbol.shape_env.bound_sympy(symbol.expr)
    if range_.lower >= 0:
        return False
    return True if range_.upper < 0 else None


def _is_at_most(given: object, extent: Extent) -> bool:
    """Whether what a node computes of extents is at most a number in all runs."""
    symbol = getattr(getattr(given, "meta", {}).get("val"), "node", None)
    if symbol is None or not isinstance(extent, int):
        return False
    return bool(symbol.shape_env.bound_sympy(symbol.expr).upper <= extent)


def _number(value: object) -> relax.Expr:
    if isinstance(value, int):
        return tirx.IntImm("int64", value)
    assert isinstance(value, relax.Expr), value
    return value
