"""Applies local rewrites to a function in forward order, to a fixed point at each binding.

A rewrite takes one operation and returns an expression of the same type, or None. It may inspect the
definitions of the operands, and emit bindings before the one it rewrites::

    lv1 = conv2d(x, w)                      lv1 = conv2d(x, w)               (dead now)
    lv2 = multiply(lv1, s)      becomes     conv = conv2d(x, w * s)
                                            lv2 = conv

Every variable keeps its name, type and position, so its users need no change. Dead bindings and aliases are
left to TVM's ``DeadCodeElimination`` and ``CanonicalizeBindings``. The branches of an ``If`` are rewritten
like other code; local functions are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import tvm
from tvm import relax

from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.rewrites import RewriteTable
from annotated_region.passes.preparation.weight import checked
from annotated_region.targets.claimants import Claimants
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__ = ["checking", "is_checking", "sweep"]

_checking: ContextVar[bool] = ContextVar("annotated_region_checking", default=False)


@contextmanager
def checking() -> Iterator[None]:
    """In this context, assert that each rewrite lowers the weight of its operation, and that what preparation
    leaves is well formed; used by tests.
    """
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


def is_checking() -> bool:
    """Whether the caller is in the context of `checking`."""
    return _checking.get()


def sweep(
    function: relax.Function,
    table: RewriteTable,
    claimants: Claimants | None = None,
    *,
    lowers_weight: bool = True,
) -> relax.Function:
    """Rewrite a function in one forward pass; returns `function` itself if nothing changed.

    Parameters
    ----------
    function
        A function in normal form; it is not changed.
    table
        The rewrites of each op, in the order in which they are tried.
    claimants
        The targets that the function is prepared for, if known.
    lowers_weight
        Whether the rewrites lower the weight of `weight`; if not, the caller must ensure termination.

    Notes
    -----
    Linear in the number of bindings, not counting the rewrites. Rewrites see the results of earlier ones, so
    most functions reach a fixed point in one sweep; another sweep may find more after dead code, whose reads
    count, has been removed.
    """
    editor = Editor(function.body, claimants)
    if lowers_weight and _checking.get():
        table = checked(table, editor)
    body = _sequence(function.body, table, editor)
    if body.same_as(function.body):
        return function
    return relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )


def _sequence(sequence: relax.SeqExpr, table: RewriteTable, editor: Editor) -> relax.SeqExpr:
    old = list(sequence.blocks)
    new = [_block(block, table, editor) for block in old]
    if all(after.same_as(before) for after, before in zip(new, old, strict=True)):
        return sequence
    return expect(relax.SeqExpr, editor.normalize(relax.SeqExpr(new, sequence.body, sequence.span)))


def _block(block: relax.BindingBlock, table: RewriteTable, editor: Editor) -> relax.BindingBlock:
    changed = False
    with editor.block(block) as bindings:
        for binding in block.bindings:
            rewritten = _at_fixed_point(binding, table, editor)
            changed |= not rewritten.same_as(binding)
            editor.bind(rewritten)
    return type(block)(bindings, block.span) if changed else block


def _at_fixed_point(binding: relax.Binding, table: RewriteTable, editor: Editor) -> relax.Binding:
    """The binding, rewritten to a fixed point."""
    if not isinstance(binding, relax.VarBinding):
        return binding
    if isinstance(binding.value, relax.If):
        value: relax.Expr = _conditional(binding.value, table, editor)
    else:
        value = _value_at_fixed_point(binding, table, editor)
    return binding if value.same_as(binding.value) else relax.VarBinding(binding.var, value, binding.span)


def _value_at_fixed_point(binding: relax.VarBinding, table: RewriteTable, editor: Editor) -> relax.Expr:
    value = binding.value
    if editor.borders_annotation(binding) or editor.is_held(binding):
        return value
    # Terminates: each rewrite lowers the weight of the value (asserted under `checking`); see `weight`.
    while (rewritten := _rewritten(value, binding.var, table, editor)) is not None:
        value = rewritten
    return value


def _rewritten(
    value: relax.Expr, variable: relax.Var, table: RewriteTable, editor: Editor
) -> relax.Expr | None:
    if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
        return None
    rewrites = table.get(value.op.name, ())
    view = OpView.of(value) if rewrites else None
    if view is None:
        return None
    results = (editor.attempt(rewrite, view, variable) for rewrite in rewrites)
    return next((result for result in results if result is not None), None)


def _conditional(branching: relax.If, table: RewriteTable, editor: Editor) -> relax.If:
    true_branch = _sequence(branching.true_branch, table, editor)
    false_branch = _sequence(branching.false_branch, table, editor)
    if true_branch.same_as(branching.true_branch) and false_branch.same_as(branching.false_branch):
        return branching
    new = relax.If(branching.cond, true_branch, false_branch, branching.span)
    return expect(relax.If, editor.normalize(new))
