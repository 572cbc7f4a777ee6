"""Removes dead tuple bindings around calls that were inlined."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.functions.rewriting import FunctionRewriter, rebind

__all__ = ["without_dead"]


def without_dead(func: relax.Function, candidates: ExprSet) -> relax.Function:
    """The function without those candidates that are unused tuples or tuple fields.

    Parameters
    ----------
    func
        The function.
    candidates
        Variables; only their bindings are removed.

    Notes
    -----
    Linear in the size of the function.
    """
    if not candidates:
        return func
    values: ExprMap[relax.Expr] = ExprMap()
    uses: ExprMap[int] = ExprMap()
    for used in _uses(func.body, values):
        uses[used] = uses.get(used, 0) + 1
    dead = ExprSet()
    waiting = [var for var in candidates if var not in uses]
    while waiting:
        var = waiting.pop()
        value = values.get(var)
        if not isinstance(value, relax.Tuple | relax.TupleGetItem):
            continue
        dead.add(var)
        for used in _uses(value, ExprMap()):
            uses[used] -= 1
            if not uses[used] and used in candidates:
                waiting.append(used)
    return _without(func, dead) if dead else func


def _without(func: relax.Function, dead: ExprSet) -> relax.Function:
    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings[:]:
            if binding.var not in dead:
                yield rebind(binding, rewriter.nested(binding.value))

    return FunctionRewriter(bindings, lambda var: var).function(func)


def _uses(expr: relax.Expr, values: ExprMap[relax.Expr]) -> Iterator[relax.Var]:
    """Each use of a variable in leaf position; records the values of bound variables in `values`."""
    if isinstance(expr, relax.Var):
        yield expr
    elif isinstance(expr, relax.SeqExpr):
        for block in expr.blocks:
            for binding in block.bindings[:]:
                values[binding.var] = binding.value
                yield from _uses(binding.value, values)
        yield from _uses(expr.body, values)
    else:
        for part in _parts(expr):
            yield from _uses(part, values)


def _parts(expr: relax.Expr) -> list[relax.Expr]:
    if isinstance(expr, relax.Call):
        return [*expr.args[:], expr.op] if isinstance(expr.op, relax.Var) else [*expr.args[:]]
    if isinstance(expr, relax.Tuple):
        return [*expr.fields[:]]
    if isinstance(expr, relax.TupleGetItem):
        return [expr.tuple_value]
    if isinstance(expr, relax.If):
        return [expr.cond, expr.true_branch, expr.false_branch]
    if isinstance(expr, relax.Function):
        return [expr.body]
    return []
