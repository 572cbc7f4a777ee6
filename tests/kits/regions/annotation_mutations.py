"""Every way to change one annotation of a function: deleted, doubled, turned, moved, given away."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import relax

from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands

__all__ = ["Mutant", "mutants"]

Substitute = Callable[[relax.Expr, relax.Var | None], relax.Expr]
"""What a consumer (None: a result) uses in the place of a leaf."""

BEGIN, END = "relax.annotation.compiler_begin", "relax.annotation.compiler_end"


@dataclass(frozen=True)
class Mutant:
    """A function with one change, and the change in words."""

    what: str
    func: relax.Function


def mutants(func: relax.Function, rng: random.Random) -> Iterator[Mutant]:
    """All changes of one annotation; where a change needs a partner, `rng` chooses one."""
    annotations = list(_annotations(func))
    others = [binding.value.attrs for binding in annotations] + _FOREIGN
    for binding in annotations:
        name = binding.var.name
        partner = rng.choice(annotations)
        attrs = rng.choice(others)
        yield Mutant(f"delete {name}", _delete(func, binding))
        yield Mutant(f"duplicate {name}", _duplicate(func, binding))
        yield Mutant(f"turn {name}", _rewrite(func, {binding.var: _turned(binding.value)}))
        yield Mutant(f"swap {name} with {partner.var.name}", _swap(func, binding, partner))
        yield Mutant(
            f"retarget {name} to {attrs}", _rewrite(func, {binding.var: _with(binding.value, attrs)})
        )
        for consumer in _consumers(func, binding.var):
            what = f"bypass {name} on the way to {consumer.name if consumer is not None else 'a result'}"
            yield Mutant(what, _bypass(func, binding, consumer))


_FOREIGN = [
    tvm.ir.make_node("ir.DictAttrs", compiler="stranger"),
    tvm.ir.make_node("ir.DictAttrs", compiler="alpha", region="stranger"),
    tvm.ir.make_node("ir.DictAttrs", compiler="beta", region="pattern#7"),
    tvm.ir.make_node("ir.DictAttrs", compiler="alpha"),
]


def _annotations(func: relax.Function) -> Iterator[relax.Binding]:
    def visit(body: relax.SeqExpr) -> Iterator[relax.Binding]:
        for binding in (binding for block in body.blocks for binding in block.bindings):
            value = binding.value
            if isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") in (BEGIN, END):
                yield binding
            for part in ("true_branch", "false_branch", "body"):
                if hasattr(value, part):
                    yield from visit(getattr(value, part))

    return visit(func.body)


def _rebuilt(
    func: relax.Function,
    change: Callable[[relax.Binding, relax.BindingBlock], list[relax.Binding] | None],
    substitute: Substitute | None = None,
) -> relax.Function:
    """The function with some bindings replaced by others, and operands by others."""

    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings:
            changed = change(binding, block)
            if changed is not None:
                yield from changed
                continue
            value = rewriter.nested(binding.value)
            yield rebind(binding, replace_operands(value, partial(used, binding.var)))

    def used(consumer: relax.Var | None, leaf: relax.Expr) -> relax.Expr:
        return leaf if substitute is None else substitute(leaf, consumer)

    return FunctionRewriter(bindings, partial(used, None)).function(func)


def _rewrite(func: relax.Function, values: dict[relax.Var, relax.Call]) -> relax.Function:
    return _rebuilt(
        func,
        lambda binding, block: (
            [relax.VarBinding(binding.var, values[binding.var])] if binding.var in values else None
        ),
    )


def _turned(call: relax.Call) -> relax.Call:
    op = BEGIN if call.op.name == END else END
    return relax.Call(tvm.ir.Op.get(op), call.args, call.attrs, ret_ty=call.ty)


def _with(call: relax.Call, attrs: tvm.ir.Attrs) -> relax.Call:
    return relax.Call(call.op, call.args, attrs, ret_ty=call.ty)


def _swap(func: relax.Function, left: relax.Binding, right: relax.Binding) -> relax.Function:
    """Each stands where the other stood, on the other's value."""
    a, b = left.value, right.value
    return _rewrite(
        func,
        {
            left.var: relax.Call(b.op, a.args, b.attrs, ret_ty=a.ty),
            right.var: relax.Call(a.op, b.args, a.attrs, ret_ty=b.ty),
        },
    )


def _delete(func: relax.Function, target: relax.Binding) -> relax.Function:
    """The annotation is gone; where it carried its value out of a dataflow block, a plain name stays."""
    argument = target.value.args[0]
    carries = isinstance(argument, relax.DataflowVar) and not isinstance(target.var, relax.DataflowVar)
    left = [relax.VarBinding(target.var, argument)] if carries else []
    return _rebuilt(
        func,
        lambda binding, block: left if binding.var == target.var else None,
        lambda leaf, consumer: argument if leaf == target.var and not carries else leaf,
    )


def _duplicate(func: relax.Function, target: relax.Binding) -> relax.Function:
    def change(binding: relax.Binding, block: relax.BindingBlock) -> list[relax.Binding] | None:
        if binding.var != target.var:
            return None
        call = target.value
        kind = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else relax.Var
        first = kind(f"{target.var.name}_first", call.ty)
        again = relax.Call(call.op, [first], call.attrs, ret_ty=call.ty)
        return [relax.VarBinding(first, call), relax.VarBinding(target.var, again)]

    return _rebuilt(func, change)


def _consumers(func: relax.Function, var: relax.Var) -> list[relax.Var | None]:
    """The variables of the bindings that use `var` directly; None for results of bodies."""
    found: dict[relax.Var | None, None] = {}

    def note(leaf: relax.Expr, consumer: relax.Var | None) -> relax.Expr:
        if leaf == var:
            found[consumer] = None
        return leaf

    _rebuilt(func, lambda binding, block: None, note)
    return list(found)


def _bypass(func: relax.Function, target: relax.Binding, consumer: relax.Var | None) -> relax.Function:
    """One consumer takes the value from before the annotation."""
    argument = target.value.args[0]
    if isinstance(argument, relax.DataflowVar) and not isinstance(target.var, relax.DataflowVar):
        return func  # the value from before is not visible out there

    def substitute(leaf: relax.Expr, user: relax.Var | None) -> relax.Expr:
        same = user is None if consumer is None else user is not None and user == consumer
        return argument if same and leaf == target.var else leaf

    return _rebuilt(func, lambda binding, block: None, substitute)
