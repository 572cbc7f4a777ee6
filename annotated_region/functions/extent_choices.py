"""Extents of which a condition chooses one, as TVM infers them for slices whose bounds may be negative."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

__all__ = ["parts_of_choice"]

_CHOICE = "if_then_else"


def parts_of_choice(extent: relax.Expr) -> tuple[relax.Expr, relax.Expr, relax.Expr] | None:
    """The condition of a choice, what is chosen where it holds, and what is elsewhere; None of others."""
    if isinstance(extent, tirx.Select):
        return extent.condition, extent.true_value, extent.false_value
    if not isinstance(extent, relax.Call) or not isinstance(extent.op, tvm.ir.Op):
        return None
    if extent.op.name.rpartition(".")[2] != _CHOICE:  # of the dialect tirx or prim, by the way it was made
        return None
    condition, one, other = extent.args
    return condition, one, other
