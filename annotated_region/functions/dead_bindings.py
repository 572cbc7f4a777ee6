"""Drops bindings that moved data to or from a call and that nobody uses any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tvm import relax

from annotated_region.functions.rewriting import FunctionRewriter, rebind

__all__ = ["without_dead"]


def without_dead(func: relax.Function, candidates: Mapping[int, relax.Var]) -> relax.Function:
    """The function without the bindings of candidates that are tuples or fields and are never used.

    Parameters
    ----------
    func
        The function.
    candidates
        Variables, by hash; no others are dropped.

    Notes
    -----
    Linear in the size of the function.
    """
    if not candidates:
        return func
    values: dict[int, relax.Expr] = {}
    uses = Counter(_uses(func.body, values))
    dead: set[int] = set()
    waiting = [key for key in candidates if not uses[key]]
    while waiting:
        key = waiting.pop()
        value = values.get(key)
        if not isinstance(value, relax.Tuple | relax.TupleGetItem):
            continue
        dead.add(key)
        for used in _uses(value, {}):
            uses[used] -= 1
            if not uses[used] and used in candidates:
                waiting.append(used)
    return _without(func, dead) if dead else func


def _without(func: relax.Function, dead: set[int]) -> relax.Function:
    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings:
            if hash(binding.var) not in dead:
                yield rebind(binding, rewriter.nested(binding.value))

    return FunctionRewriter(bindings, lambda var: var).function(func)


def _uses(expr: relax.Expr, values: dict[int, relax.Expr]) -> Iterator[int]:
    """The hash of each variable in leaf position, once a use; notes what bound variables are bound to."""
    if isinstance(expr, relax.Var):
        yield hash(expr)
    elif isinstance(expr, relax.SeqExpr):
        for block in expr.blocks:
            for binding in block.bindings:
                values[hash(binding.var)] = binding.value
                yield from _uses(binding.value, values)
        yield from _uses(expr.body, values)
    else:
        for part in _parts(expr):
            yield from _uses(part, values)


def _parts(expr: relax.Expr) -> list[relax.Expr]:
    if isinstance(expr, relax.Call):
        return [*expr.args, expr.op] if isinstance(expr.op, relax.Var) else list(expr.args)
    if isinstance(expr, relax.Tuple):
        return list(expr.fields)
    if isinstance(expr, relax.TupleGetItem):
        return [expr.tuple_value]
    if isinstance(expr, relax.If):
        return [expr.cond, expr.true_branch, expr.false_branch]
    if isinstance(expr, relax.Function):
        return [expr.body]
    return []
