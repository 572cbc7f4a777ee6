"""Bounds of numbers that are computed from extents."""

from __future__ import annotations

from tvm import relax, tirx

from annotated_region.tvm_adapter.arithmetic import visit
from annotated_region.tvm_adapter.nodes import Analyzer, ConstIntBound

__all__ = ["bounds_of"]


def bounds_of(number: relax.Expr | int, least: int = 0) -> tuple[int, int]:
    """The least and the largest value of a number computed from extents, each of them at least `least`."""
    if isinstance(number, int):
        return number, number
    analyzer, any_extent = Analyzer(), ConstIntBound(least, ConstIntBound.POS_INF)
    visit(number, [(tirx.Var, lambda variable: analyzer.update(variable, any_extent, override=True))])
    found = analyzer.const_int_bound(analyzer.simplify(number))
    return int(found.min_value), int(found.max_value)
