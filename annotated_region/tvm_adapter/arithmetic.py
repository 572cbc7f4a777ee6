"""Comparing extents, and walking over the body of a primitive function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import relax, tirx
from tvm.sym import Analyzer, ConstIntBound

__all__ = ["bounds_of", "provably_equal", "visit"]


def provably_equal(left: relax.Expr | int, right: relax.Expr | int) -> bool:
    """Whether TVM's arithmetic analyzer can prove two extents equal; 10 us and more a question."""
    return bool(Analyzer().can_prove_equal(left, right))


def bounds_of(number: relax.Expr | int, least: int = 0) -> tuple[int, int]:
    """The least and the largest value of a number computed from extents, each of them at least `least`."""
    if isinstance(number, int):
        return number, number
    analyzer, any_extent = Analyzer(), ConstIntBound(least, ConstIntBound.POS_INF)
    visit(number, [(tirx.Var, lambda variable: analyzer.update(variable, any_extent, override=True))])
    found = analyzer.const_int_bound(analyzer.simplify(number))
    return int(found.min_value), int(found.max_value)


def visit(root: object, visitors: Sequence[tuple[type, Callable[[Any], None]]]) -> None:
    """Call, for each node below `root` in pre-order, the visitor of its class."""
    tvm_ffi.structural_walk(root, list(visitors))
