"""Enumerates the bindings of a function and sets their spans."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax
from tvm.ir import Span

from annotated_region.expr_map import ExprMap
from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands
from annotated_region.origins import with_span

__all__ = ["bindings_in", "marked"]


def bindings_in(body: relax.Expr) -> Iterator[relax.Binding]:
    """All bindings of a body in program order; bindings nested in a value precede that value's binding."""
    if not isinstance(body, relax.SeqExpr):
        return
    for block in body.blocks:
        for binding in block.bindings[:]:
            value = binding.value
            if isinstance(value, relax.If):
                yield from bindings_in(value.true_branch)
                yield from bindings_in(value.false_branch)
            elif isinstance(value, relax.Function):
                yield from bindings_in(value.body)
            yield binding


def marked(func: relax.Function, spans: ExprMap[Span | None]) -> relax.Function:
    """The function with new spans on some bindings: on their variables and calls.

    Parameters
    ----------
    func
        The function.
    spans
        The new span of each binding, or None to remove it. Their variables are replaced by new ones of the
        same name and type.

    Notes
    -----
    Linear in the bindings and their operands.
    """
    variables: ExprMap[relax.Var] = ExprMap()
    for binding in spans:
        old = binding.var
        variables[old] = type(old)(old.name, old.ty, spans[binding])

    def current(expr: relax.Expr) -> relax.Expr:
        return variables.get(expr, expr)

    def rewritten(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings[:]:
            value = rewriter.nested(replace_operands(binding.value, current))
            if binding in spans:
                yield _binding(binding, variables[binding.var], with_span(value, spans[binding]))
            else:
                yield rebind(binding, value)

    return FunctionRewriter(rewritten, current).function(func)


def _binding(old: relax.Binding, var: relax.Var, value: relax.Expr) -> relax.Binding:
    if isinstance(old, relax.MatchCast):
        return relax.MatchCast(var, value, old.ty, old.span)
    return relax.VarBinding(var, value, old.span)
