"""Upper bounds of extents from checks at the beginning of a function, as `resolve_lengths` emits them."""

from __future__ import annotations

from tvm import relax, tirx

from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["limits_checked"]


def limits_checked(check: relax.MatchCast, value: relax.Expr) -> dict[tirx.Var, int]:
    """Upper bounds by extent, if `check` casts ``R.shape([n - min(n, 128)])`` to ``R.Shape([0])``."""
    if (
        not isinstance(value, relax.ShapeExpr)
        or not isinstance(check.ty, relax.ShapeType)
        or not check.ty.values
    ):
        return {}
    pairs = zip(value.values, check.ty.values, strict=True)
    limits = [_limit(difference) for difference, wanted in pairs if _is_zero(wanted)]
    return dict(limit for limit in limits if limit is not None)


def _limit(difference: PrimExpr) -> tuple[tirx.Var, int] | None:
    if not isinstance(difference, tirx.Sub) or not isinstance(difference.b, tirx.Min):
        return None
    extent, limit = difference.b.a, difference.b.b
    if isinstance(extent, tirx.Var) and extent.same_as(difference.a) and isinstance(limit, tirx.IntImm):
        return extent, int(limit.value)
    return None


def _is_zero(expr: PrimExpr) -> bool:
    return isinstance(expr, tirx.IntImm) and expr.value == 0
