"""Rebuilds a function with calls that change their types, and infers the types of all users again."""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.functions.rewriting import replace_operands
from annotated_region.origins import origin_of, span_of, with_span

__all__ = ["Emit", "retyped"]

Emit = Callable[[relax.Expr], relax.Var]
"""Binds a value to a new variable before the call that is being rewritten."""

Retype = Callable[[relax.Call, relax.VarBinding, Emit], relax.Expr | None]
"""Returns the replacement of a call with its new operands, given its original binding; None to keep it."""


def retyped(function: relax.Function, rewrite: Retype) -> relax.Function:
    """The function with each call rewritten, and types inferred again from there on.

    Parameters
    ----------
    function
        A function in normal form. A function with an ``If`` or a local function is returned unchanged,
        because new types would have to be propagated into other scopes.
    rewrite
        Called with each call, its original binding, and a function that binds values.

    Returns
    -------
    `function` itself if nothing was rewritten. A variable whose type changes is replaced by a new one of the
    same name.

    Raises
    ------
    tvm.error.InternalError
        An op does not accept an operand of its new type.

    Notes
    -----
    Linear in the number of bindings, excluding `rewrite`.
    """
    if any(isinstance(value, relax.If | relax.Function) for value in _values(function)):
        return function
    retyping = _Retyping(rewrite)
    blocks = [retyping.block(block) for block in function.body.blocks]
    if not retyping.has_rewritten:
        return function
    builder = relax.BlockBuilder()
    result = replace_operands(function.body.body, retyping.current)
    body = builder.normalize(relax.SeqExpr(blocks, builder.normalize(_untyped(result)), function.body.span))
    return relax.Function(function.params, body, body.ty, function.is_pure, function.attrs, function.span)


def _values(function: relax.Function) -> list[relax.Expr]:
    return [binding.value for block in function.body.blocks for binding in block.bindings]


class _Retyping:
    def __init__(self, rewrite: Retype) -> None:
        self.has_rewritten = False
        self._rewrite = rewrite
        self._new: ExprMap[relax.Var] = ExprMap()
        self._builder = relax.BlockBuilder()
        self._bindings: list[relax.Binding] = []

    def block(self, block: relax.BindingBlock) -> relax.BindingBlock:
        self._bindings = []
        for binding in block.bindings:
            self._bind(binding)
        kind = relax.DataflowBlock if isinstance(block, relax.DataflowBlock) else relax.BindingBlock
        return kind(self._bindings, block.span)

    def current(self, expr: relax.Expr) -> relax.Expr:
        """The current replacement of a variable."""
        return self._new.get(expr, expr) if isinstance(expr, relax.Var) else expr

    def _bind(self, binding: relax.Binding) -> None:
        value = replace_operands(binding.value, self.current)
        if isinstance(binding, relax.MatchCast):
            self._bindings.append(relax.MatchCast(binding.var, value, binding.ty, binding.span))
            return
        assert isinstance(binding, relax.VarBinding)
        rewritten = self._rewritten(value, binding)
        self.has_rewritten |= rewritten is not None
        changed = value if rewritten is None else rewritten
        if changed.same_as(binding.value):
            self._bindings.append(binding)
            return
        typed = self._builder.normalize(_untyped(changed))
        if rewritten is not None:
            typed = with_span(typed, span_of(origin_of(binding.var, binding.value)))
        same = tvm_ffi.structural_equal(typed.ty, binding.var.ty)
        variable = binding.var if same else type(binding.var)(binding.var.name, typed.ty, binding.var.span)
        if not same:
            self._new[binding.var] = variable
        self._bindings.append(relax.VarBinding(variable, typed, binding.span))

    def _rewritten(self, value: relax.Expr, binding: relax.VarBinding) -> relax.Expr | None:
        def emit(made: relax.Expr) -> relax.Var:
            origin = span_of(origin_of(binding.var, binding.value))
            typed = with_span(self._builder.normalize(_untyped(made)), origin)
            bound = type(binding.var)(f"{binding.var.name}_places", typed.ty, origin)
            self._bindings.append(relax.VarBinding(bound, typed))
            return bound

        return self._rewrite(value, binding, emit) if isinstance(value, relax.Call) else None


def _untyped(expr: relax.Expr) -> relax.Expr:
    """A copy of the expression without its type, for inference."""
    if isinstance(expr, relax.Call):
        return relax.Call(expr.op, expr.args, expr.attrs, expr.ty_args, expr.span)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple(expr.fields, expr.span)
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(expr.tuple_value, expr.index, expr.span)
    return expr
