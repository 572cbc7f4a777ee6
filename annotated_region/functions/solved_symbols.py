"""Writes the values of symbols out where a cast of known extents defines them.

TVM 0.27's ``CanonicalizeBindings`` does so in types and shapes, but not in the arguments of calls::

    _ = match_cast(shape([rows // 4]), Shape([n]))      =>    _ = match_cast(shape([rows // 4]), ...)
    x: Tensor((4 * n,)) = arange(0, 4 * n)                    x: Tensor((rows // 4 * 4,)) = arange(0, 4 * n)

Types that are inferred from such a call are written with the symbol again. TVM cannot prove that they are
equal to those without it, and gives their sums and concatenations no shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax, tirx

from annotated_region.tvm_adapter.types import expect, shape_vars_of

__all__ = ["with_solved_symbols"]


def with_solved_symbols(function: relax.Function) -> relax.Function:
    """The function with the values of such symbols in their place; itself if it has none.

    Casts in branches are left as they are.

    Notes
    -----
    Linear in the number of bindings for each cast that defines symbols.
    """
    # A value may have symbols of an earlier cast, so one cast is solved at a time.
    while solved := _solved(function):
        function = expect(relax.Function, function.bind_symbolic_vars(solved))
    return function


def _solved(function: relax.Function) -> dict[relax.Var, relax.Expr]:
    """The symbols that the first such cast defines, and their values."""
    known: dict[relax.Var, None] = {}
    casts = [
        binding
        for block in function.body.blocks
        for binding in block.bindings
        if isinstance(binding, relax.MatchCast)
    ]
    for ty in [param.ty for param in function.params] if casts else []:
        known |= dict.fromkeys(shape_vars_of(ty))
    for cast in casts:
        pairs = zip(_extents(cast.ty), _extents(cast.value.ty), strict=False)
        unknown = ((one, other) for one, other in pairs if isinstance(one, tirx.Var) and one not in known)
        solved = {one: other for one, other in unknown if not one.same_as(other)}
        if solved:
            return solved
        known |= dict.fromkeys(shape_vars_of(cast.ty))
    return {}


def _extents(ty: tvm.ir.Type) -> Sequence[relax.Expr]:
    """The extents of a shape; none of other types, or if they are unknown."""
    return list(ty.values or ()) if isinstance(ty, relax.ShapeType) else []
