"""Computes what depends on lengths alone once: positions, and what is made of them, in one dataflow block.

::

    lv1 = arange(0, n)                        lv1 = arange(0, n)
    lv2 = arange(0, n)          becomes       lv2 = lv1
    lv3 = expand_dims(lv2, [0])               lv3 = expand_dims(lv1, [0])

Each layer of an export asks for the positions again. Two calls of one pure op with equal attributes and the
same operands have the same result. This stands behind the sweeps of preparation and not among their rewrites,
because it lowers no weight; it ends, as it goes over a function once.
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
    """The function with each value of lengths alone computed once; `function` itself if all are.

    Notes
    -----
    Linear in the number of bindings, times the number of different calls of one op on lengths.
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
    """Only what is seen nowhere else: a function may return, or print, any other variable by its name."""
    is_inner = isinstance(block, relax.DataflowBlock) and isinstance(binding.var, relax.DataflowVar)
    return is_inner and isinstance(binding, relax.VarBinding)


class _PositionsSeen:
    """The values of one block that depend on lengths alone."""

    def __init__(self) -> None:
        self._calls: dict[str, list[tuple[relax.Var, relax.Call]]] = {}
        self._variables = ExprSet()

    def first(self, variable: relax.Var, value: relax.Expr) -> relax.Var | None:
        """The variable that holds the value already; None, and `value` is remembered, if there is none."""
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
        """The op of a call that is made of lengths alone."""
        if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
            return None
        read = [arg for arg in value.args if isinstance(arg, relax.Var)]
        is_made = bool(read) and all(arg in self._variables for arg in read)
        is_plain = not any(isinstance(arg, relax.Tuple) for arg in value.args)
        return value.op.name if is_plain and (is_made or value.op.name in _SOURCES) else None
