"""Rebuilds functions with new bindings and operands, preserving the bound variables.

TVM's mutators create fresh variables for changed bindings; these functions keep the variables, so that a
region set refers to the same nodes before and after annotations are written or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import tvm
from tvm import relax

from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import set_type

__all__ = ["FunctionRewriter", "make_block", "rebind", "replace_operands", "typed"]

AnyExpr = TypeVar("AnyExpr", bound=relax.Expr)

Substitute = Callable[[relax.Expr], relax.Expr]
"""Returns the replacement of a variable, or of a tensor constant where those are replaced too."""


@dataclass(frozen=True, slots=True)
class FunctionRewriter:
    """Rebuilds a function block by block; unchanged parts stay the same objects.

    Attributes
    ----------
    bindings
        Called for each binding block, in program order, with the block and this rewriter; returns the new
        bindings. It passes values with nested bodies to `nested`.
    result
        Called for each variable in the result of a body.
    """

    bindings: Callable[[relax.BindingBlock, FunctionRewriter], Iterable[relax.Binding]]
    result: Substitute

    def function(self, func: relax.Function) -> relax.Function:
        """The rebuilt function, with the same parameters, attributes and types."""
        body = self.body(func.body)
        if body.same_as(func.body):
            return func
        return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)

    def body(self, body: relax.Expr) -> relax.Expr:
        """A rebuilt body."""
        if not isinstance(body, relax.SeqExpr):
            return replace_operands(body, self.result)
        old = body.blocks[:]
        new = [make_block(block, list(self.bindings(block, self))) for block in old]
        result = replace_operands(body.body, self.result)
        if result.same_as(body.body) and all(a.same_as(b) for a, b in zip(old, new, strict=True)):
            return body
        # TVMScript prints an empty dataflow block in a form that does not parse.
        filled = [block for block in new if len(block.bindings)]
        return typed(relax.SeqExpr(filled, result, body.span), body.ty)

    def nested(self, value: relax.Expr) -> relax.Expr:
        """`value` with its nested bodies rebuilt: branches of an `If`, a local function."""
        if isinstance(value, relax.Call):  # first, because it is the usual case
            return value
        if isinstance(value, relax.Function):
            return self.function(value)
        if not isinstance(value, relax.If):
            return value
        true_branch, false_branch = self.body(value.true_branch), self.body(value.false_branch)
        if true_branch.same_as(value.true_branch) and false_branch.same_as(value.false_branch):
            return value
        return typed(relax.If(value.cond, true_branch, false_branch, value.span), value.ty)


def make_block(old: relax.BindingBlock, bindings: list[relax.Binding]) -> relax.BindingBlock:
    """A block of the kind of `old`; `old` itself if it already has these bindings."""
    before = old.bindings[:]
    if len(before) == len(bindings) and all(a.same_as(b) for a, b in zip(before, bindings, strict=True)):
        return old
    kind = relax.DataflowBlock if isinstance(old, relax.DataflowBlock) else relax.BindingBlock
    return kind(bindings, old.span)


def rebind(binding: relax.Binding, value: relax.Expr) -> relax.Binding:
    """The binding with another value; the binding itself if the value is the same."""
    if value.same_as(binding.value):
        return binding
    if isinstance(binding, relax.MatchCast):
        return relax.MatchCast(binding.var, value, binding.ty, binding.span)
    return relax.VarBinding(binding.var, value, binding.span)


def replace_operands(expr: relax.Expr, substitute: Substitute) -> relax.Expr:
    """`expr` with each variable and tensor constant in leaf position replaced.

    Returns `expr` itself if nothing changes. Bodies of an `If` and of local functions are not entered.
    """
    kind = type(expr)
    replace = _REPLACERS.get(kind)
    if replace is None:
        # A failing isinstance check against a TVM class is slow, so the answer is kept for each class.
        known = (each for base, each in _REPLACERS.items() if issubclass(kind, base))
        replace = _REPLACERS[kind] = next(known, _kept)
    return replace(expr, substitute)


def _substituted(expr: relax.Expr, substitute: Substitute) -> relax.Expr:
    return substitute(expr)


def _kept(expr: relax.Expr, _substitute: Substitute) -> relax.Expr:
    return expr


def _replace_in_tuple(expr: relax.Tuple, substitute: Substitute) -> relax.Expr:
    fields = _replace_all(expr.fields, substitute)
    return expr if fields is None else typed(relax.Tuple(fields, expr.span), expr.ty)


def _replace_in_field(expr: relax.TupleGetItem, substitute: Substitute) -> relax.Expr:
    value = replace_operands(expr.tuple_value, substitute)
    if value.same_as(expr.tuple_value):
        return expr
    return typed(relax.TupleGetItem(value, expr.index, expr.span), expr.ty)


def _replace_in_condition(expr: relax.If, substitute: Substitute) -> relax.Expr:
    condition = replace_operands(expr.cond, substitute)
    if condition.same_as(expr.cond):
        return expr
    return typed(relax.If(condition, expr.true_branch, expr.false_branch, expr.span), expr.ty)


def _replace_in_call(call: relax.Call, substitute: Substitute) -> relax.Call:
    args = _replace_all(call.args, substitute)
    before = call.op
    op = before if isinstance(before, tvm.ir.Op) else replace_operands(before, substitute)
    if args is None and (op is before or op.same_as(before)):
        return call
    return relax.Call(op, call.args if args is None else args, call.attrs, call.ty_args, call.span, call.ty)


def _replace_all(exprs: Sequence[relax.Expr], substitute: Substitute) -> list[relax.Expr] | None:
    """The replaced expressions; None if nothing changes."""
    old = exprs[:]
    new = [replace_operands(expr, substitute) for expr in old]
    return None if all(a is b or a.same_as(b) for a, b in zip(old, new, strict=True)) else new


_REPLACERS: dict[type, Callable[..., relax.Expr]] = {
    relax.Var: _substituted,
    Constant: _substituted,
    relax.Call: _replace_in_call,
    relax.Tuple: _replace_in_tuple,
    relax.TupleGetItem: _replace_in_field,
    relax.If: _replace_in_condition,
}


def typed(expr: AnyExpr, ty: tvm.ir.Type) -> AnyExpr:
    """`expr`, with the type `ty` unless it already has one."""
    # TVM infers the types of tuples and fields on construction, but not those of other expressions.
    if expr.ty.is_missing():
        set_type(expr, ty)
    return expr
