"""A check at the beginning of a function that extents are equal where its body relies on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm import relax, tirx

from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["with_extent_checks"]


def with_extent_checks(
    function: relax.Function, equations: Sequence[tuple[PrimExpr, PrimExpr]]
) -> relax.Function:
    """The function with a check of the equations at its beginning; a call that breaks one fails.

    The check casts differences to 0, because TVM 0.27 replaces ``n`` by ``min(n, 128)`` endlessly if one is
    cast to the other. The shape is bound to a variable first, because TVM lowers shapes only in bindings.
    """
    builder = relax.BlockBuilder()
    differences = relax.ShapeExpr([tirx.Sub(one, other) for one, other in equations])
    over = relax.Var("beyond_bounds", builder.normalize(differences).ty)
    none = relax.ShapeType([tirx.IntImm("int64", 0)] * len(equations))
    check: Iterable[relax.Binding] = [
        relax.VarBinding(over, differences),
        relax.MatchCast(relax.Var("within_bounds", none), over, none),
    ]
    blocks = [relax.BindingBlock(list(check)), *function.body.blocks]
    body = builder.normalize(relax.SeqExpr(blocks, function.body.body, function.body.span))
    return relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )
