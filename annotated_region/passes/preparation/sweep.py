"""Applies local rewrites to a function, forward, each binding until nothing changes there.

A rewrite looks at one operation and answers with an expression of the same type, or with None. It may
look back through the definitions of the arguments, and emit bindings before the one it rewrites::

    lv1 = conv2d(x, w)                      lv1 = conv2d(x, w)               (dead now)
    lv2 = multiply(lv1, s)      becomes     conv = conv2d(x, w * s)
                                            lv2 = conv

Every variable keeps its name, its type and its place, so nothing that reads it has to change. What is
dead or a mere alias afterwards is left to TVM's ``DeadCodeElimination`` and ``CanonicalizeBindings``.
The branches of an ``If`` are edited like any other code; local functions stay as they are.
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

__all__ = ["checking", "sweep"]

_checking: ContextVar[bool] = ContextVar("annotated_region_checking", default=False)


@contextmanager
def checking() -> Iterator[None]:
    """Within this context each rewrite has to lower the weight of what it rewrites; tests run in it."""
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


def sweep(
    function: relax.Function,
    table: RewriteTable,
    claimants: Claimants | None = None,
    *,
    lowers_weight: bool = True,
) -> relax.Function:
    """Go over a function once; answers with `function` itself if no rewrite found anything to do.

    Parameters
    ----------
    function
        A function in normal form; it is not changed.
    table
        The rewrites of each op, in the order in which they are tried.
    claimants
        The targets that the function is prepared for, if they are known.
    lowers_weight
        Whether the rewrites lower the weight of preparation; others end for a reason of their own.

    Notes
    -----
    Linear in the number of bindings, apart from what the rewrites do. Later rewrites see what earlier
    ones made, so that most functions settle in one sweep; a second one may find more once dead code,
    which counts as a reader, is gone.
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
            settled = _settle(binding, table, editor)
            changed |= not settled.same_as(binding)
            editor.bind(settled)
    return type(block)(bindings, block.span) if changed else block


def _settle(binding: relax.Binding, table: RewriteTable, editor: Editor) -> relax.Binding:
    """The binding after all rewrites that apply to it, one after the other."""
    if not isinstance(binding, relax.VarBinding):
        return binding
    if isinstance(binding.value, relax.If):
        value: relax.Expr = _conditional(binding.value, table, editor)
    else:
        value = _settled(binding, table, editor)
    return binding if value.same_as(binding.value) else relax.VarBinding(binding.var, value, binding.span)


def _settled(binding: relax.VarBinding, table: RewriteTable, editor: Editor) -> relax.Expr:
    value = binding.value
    if editor.borders_annotation(binding):
        return value
    # Each rewrite lowers the weight of the value, which `checking` checks; see `weight`.
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
