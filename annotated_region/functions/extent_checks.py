"""A check at the beginning of a function that extents are equal where its body relies on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm import relax, tirx

from annotated_region.origins import span_of
from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["extent_difference", "with_extent_checks", "without_traps"]

_QUOTIENTS = (tirx.FloorDiv, tirx.FloorMod)
_OTHERS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)


def with_extent_checks(function: relax.Function, differences: Sequence[PrimExpr]) -> relax.Function:
    """The function with a check at its beginning that differences are 0; a call in which one is not fails.

    The check casts differences to 0, because TVM 0.27 replaces ``n`` by ``min(n, 128)`` endlessly if one is
    cast to the other. The shape is bound to a variable first, because TVM lowers shapes only in bindings.
    TVM computes all extents before it checks any, so divisors that may be 0 are replaced by 1 where they are.
    """
    builder = relax.BlockBuilder()
    shape = relax.ShapeExpr(differences)
    over = relax.Var("beyond_bounds", builder.normalize(shape).ty)
    none = relax.ShapeType([tirx.IntImm("int64", 0)] * len(differences))
    check: Iterable[relax.Binding] = [
        relax.VarBinding(over, shape),
        relax.MatchCast(relax.Var("within_bounds", none), over, none),
    ]
    blocks = [relax.BindingBlock(list(check)), *function.body.blocks]
    body = builder.normalize(relax.SeqExpr(blocks, function.body.body, function.body.span))
    return relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )


def extent_difference(one: Extent, other: Extent, origin: str = "") -> PrimExpr:
    """What a check of an equation casts to 0, and the origin that needs it, which a message names."""
    left, right = (tirx.IntImm("int64", each) if isinstance(each, int) else each for each in (one, other))
    return tirx.Sub(without_traps(left), without_traps(right), span_of(origin) if origin else None)


def without_traps(extent: PrimExpr) -> PrimExpr:
    """The extent, divided by 1 where it would be divided by less."""
    if not isinstance(extent, (*_QUOTIENTS, *_OTHERS)):
        return extent
    left, right = without_traps(extent.a), without_traps(extent.b)
    if isinstance(extent, _QUOTIENTS) and not isinstance(right, tirx.IntImm):
        right = tirx.Max(right, tirx.IntImm("int64", 1))
    return type(extent)(left, right)
