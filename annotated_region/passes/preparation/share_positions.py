"""Common subexpression elimination for values that depend on lengths only, such as positions.

::

    lv1 = arange(0, n)                        lv1 = arange(0, n)
    lv2 = arange(0, n)          becomes       lv2 = lv1
    lv3 = expand_dims(lv2, [0])               lv3 = expand_dims(lv1, [0])

Exporters compute the positions again in every layer. Two calls of a pure op with equal attributes and the
same operands have the same result. It works within one dataflow block. It runs after the sweeps of
preparation instead of as one of their rewrites, because it does not lower the weight; a single pass over the
function suffices.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands
from annotated_region.passes.preparation.reads import annotated_variables

__all__ = ["share_positions"]

_SOURCES = ("relax.arange", "relax.full", "relax.zeros", "relax.ones")


def share_positions(function: relax.Function) -> relax.Function:
    """The function with each value of lengths computed once; `function` itself if nothing is shared.

    Notes
    -----
    Linear in the number of bindings times the number of distinct calls of one op on lengths.
    """
    if any(True for _ in annotated_variables(function.body)):
        return function
    kept: ExprMap[relax.Var] = ExprMap()

    def current(expr: relax.Expr) -> relax.Expr:
        return kept.get(expr, expr) if isinstance(expr, relax.Var) else expr

    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        seen = _PositionsSeen()
        for binding in block.bindings[:]:
            value = rewriter.nested(replace_operands(binding.value, current))
            first = seen.first(binding.var, value) if _may_share(block, binding) else None
            if first is None:
                yield rebind(binding, value)
            else:
                kept[binding.var] = first

    return FunctionRewriter(bindings, current).function(function)


def _may_share(block: relax.BindingBlock, binding: relax.Binding) -> bool:
    """Whether a binding is local to a dataflow block; other variables may be visible as outputs."""
    is_inner = isinstance(block, relax.DataflowBlock) and isinstance(binding.var, relax.DataflowVar)
    return is_inner and isinstance(binding, relax.VarBinding)


class _PositionsSeen:
    """The values of one block that depend on lengths only."""

    def __init__(self) -> None:
        self._calls: dict[str, list[tuple[relax.Var, relax.Call]]] = {}
        self._variables = ExprSet()

    def first(self, variable: relax.Var, value: relax.Expr) -> relax.Var | None:
        """An earlier variable with the same value; if there is none, records this one and returns None."""
        name = self._op_on_lengths(value)
        if name is None or not isinstance(value, relax.Call):
            return None
        known = self._calls.setdefault(name, [])
        for earlier, call in known:
            if tvm_ffi.structural_equal(call, value):
                return earlier
        known.append((variable, value))
        self._variables.add(variable)
        return None

    def _op_on_lengths(self, value: relax.Expr) -> str | None:
        """The op of a call that depends on lengths only, else None."""
        if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
            return None
        read = [arg for arg in value.args if isinstance(arg, relax.Var)]
        is_made = bool(read) and all(arg in self._variables for arg in read)
        is_plain = not any(isinstance(arg, relax.Tuple) for arg in value.args)
        return value.op.name if is_plain and (is_made or value.op.name in _SOURCES) else None
