"""Bounds of extents, and of numbers that are computed from them."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax, tirx

from annotated_region.errors import InvalidModuleError
from annotated_region.tvm_adapter.arithmetic import visit
from annotated_region.tvm_adapter.nodes import Analyzer, ConstIntBound

__all__ = ["LOWER_BOUNDS", "UPPER_BOUNDS", "bounds_of", "stated_bounds"]

LOWER_BOUNDS, UPPER_BOUNDS = "tir_var_lower_bound", "tir_var_upper_bound"
"""The attributes in which exporters record the bounds of extents, by the names of the variables."""


def bounds_of(number: relax.Expr | int, least: int = 0) -> tuple[int, int]:
    """The least and the largest value of a number computed from extents, each of them at least `least`."""
    if isinstance(number, int):
        return number, number
    analyzer, any_extent = Analyzer(), ConstIntBound(least, ConstIntBound.POS_INF)
    visit(number, [(tirx.Var, lambda variable: analyzer.update(variable, any_extent, override=True))])
    found = analyzer.const_int_bound(analyzer.simplify(number))
    return int(found.min_value), int(found.max_value)


def stated_bounds(function: relax.Function, attribute: str) -> dict[str, int]:
    """The bounds that a function states in one of its attributes, by the names of the variables.

    Raises
    ------
    InvalidModuleError
        The attribute is not a map from names to integers.
    """
    stated = function.attrs.get(attribute) if function.attrs else None
    if stated is None:
        return {}
    items = list(stated.items()) if isinstance(stated, Mapping) else [("", stated)]
    for name, bound in items:
        if not name or not isinstance(bound, int | tirx.IntImm):
            raise InvalidModuleError(
                f"the attribute {attribute} of a function has {bound} for {str(name)!r}; it should be a map "
                "from the names of variables to integers"
            )
    return {str(name): int(bound) for name, bound in items}
