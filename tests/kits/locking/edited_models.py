"""Random edits of a function, as people make them to models: what is not edited stays, by variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["EDITS", "Edited", "edited"]

Binding = tuple[relax.Var, relax.Expr]


@dataclass(frozen=True)
class Edited:
    """A module after an edit.

    Attributes
    ----------
    mod
        The module.
    what
        The edit in words.
    touched
        The names of the bindings that are new or compute something else now.
    """

    mod: tvm.IRModule
    what: str
    touched: frozenset[str]


class _Function:
    """``main`` as a list of bindings; operands are replaced where an edit gives a value another name."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        func = mod["main"]
        (self.block,) = func.body.blocks
        self.func = func
        self.bindings: list[Binding] = [(each.var, each.value) for each in self.block.bindings]
        self.names = {var.name for var, _value in self.bindings}

    def new_var(self, like: relax.Expr) -> relax.Var:
        name = next(f"edit{count}" for count in range(10**6) if f"edit{count}" not in self.names)
        self.names.add(name)
        return relax.DataflowVar(name, like.ty)

    def rebuilt(self, bindings: Sequence[Binding]) -> tvm.IRModule:
        block = relax.DataflowBlock([relax.VarBinding(var, value) for var, value in bindings])
        body = relax.BlockBuilder().normalize(relax.SeqExpr([block], self.func.body.body))
        func = relax.Function(self.func.params, body, self.func.ret_ty, attrs=self.func.attrs)
        result = self.mod.clone()
        result.update_func(self.mod.get_global_var("main"), func)
        return result


def _with_operands(value: relax.Expr, other: Callable[[relax.Expr], relax.Expr]) -> relax.Expr:
    """The value with each operand replaced by what `other` says; the value itself if that changes nothing."""
    read = relax.analysis.free_vars(value) + [
        each for each in getattr(value, "args", ()) if isinstance(each, Constant)
    ]
    if all(other(each).same_as(each) for each in read):
        return value
    match value:
        case relax.Tuple():
            return relax.Tuple([_with_operands(other(each), other) for each in value.fields])
        case relax.TupleGetItem():
            return relax.TupleGetItem(other(value.tuple_value), value.index)
        case relax.Var():
            return other(value)
        case relax.Call():
            args = [
                _with_operands(each, other) if isinstance(each, relax.Tuple) else other(each)
                for each in value.args
            ]
            return type(value)(value.op, args, value.attrs, value.ty_args, value.span, value.ty)
    return value


def _replacing(old: relax.Expr, new: relax.Expr) -> Callable[[relax.Expr], relax.Expr]:
    return lambda each: new if each.same_as(old) else each


def _is_float(expr: relax.Expr) -> bool:
    return isinstance(expr.ty, relax.TensorType) and str(expr.ty.dtype) == "float32"


def _typed(op: str, operand: relax.Expr) -> relax.Expr:
    return relax.BlockBuilder().normalize(relax.Call(tvm.ir.Op.get(op), [operand]))


def _calls(function: _Function) -> dict[int, relax.Call]:
    """The calls that make a float32 tensor inside of the block, by position."""
    return {
        number: value
        for number, (var, value) in enumerate(function.bindings)
        if isinstance(var, relax.DataflowVar) and isinstance(value, relax.Call) and _is_float(var)
    }


def _movable(function: _Function) -> list[int]:
    return list(_calls(function))


def _insert(function: _Function, random: Random, ops: Sequence[str]) -> Edited | None:
    """One more op behind a value; what read the value reads the op."""
    number = random.choice(_movable(function))
    var, _value = function.bindings[number]
    op = random.choice(ops)
    new = function.new_var(var)
    behind = [
        (each, _with_operands(value, _replacing(var, new))) for each, value in function.bindings[number + 1 :]
    ]
    mod = function.rebuilt([*function.bindings[: number + 1], (new, _typed(op, var)), *behind])
    return Edited(mod, f"{op} inserted behind {var.name}", frozenset({new.name}))


def _unary(function: _Function) -> list[int]:
    """Bindings of ops of one operand whose result is of its type."""
    return [
        number
        for number, call in _calls(function).items()
        if len(call.args) == 1
        and _is_float(call.args[0])
        and tvm_ffi.structural_equal(call.args[0].ty, function.bindings[number][0].ty)
    ]


def _remove(function: _Function, random: Random, _ops: Sequence[str]) -> Edited | None:
    """An op of one operand less; what read its result reads its operand."""
    choices = _unary(function)
    if not choices:
        return None
    number = random.choice(choices)
    var, gone = function.bindings[number][0], _calls(function)[number]
    bindings = [
        (each, _with_operands(value, _replacing(var, gone.args[0])))
        for position, (each, value) in enumerate(function.bindings)
        if position != number
    ]
    return Edited(function.rebuilt(bindings), f"{var.name} removed", frozenset())


def _replace(function: _Function, random: Random, ops: Sequence[str]) -> Edited | None:
    """Another op in the place of one."""
    choices = _unary(function)
    if not choices:
        return None
    number = random.choice(choices)
    var, old = function.bindings[number][0], _calls(function)[number]
    op = random.choice([each for each in ops if each != getattr(old.op, "name", "")])
    bindings = list(function.bindings)
    bindings[number] = (var, _typed(op, old.args[0]))
    return Edited(function.rebuilt(bindings), f"{var.name} becomes {op}", frozenset({var.name}))


def _constant(function: _Function, random: Random, _ops: Sequence[str]) -> Edited | None:
    """Other weights in one op, which is still the same op."""
    choices = [
        number
        for number, call in _calls(function).items()
        if any(isinstance(each, Constant) and _is_float(each) for each in call.args)
    ]
    if not choices:
        return None
    number = random.choice(choices)
    var, value = function.bindings[number][0], _calls(function)[number]
    old = next(each for each in value.args if isinstance(each, Constant) and _is_float(each))
    new = relax.const(np.asarray(old.value.numpy() * np.float32(1.5)), "float32")
    bindings = list(function.bindings)
    bindings[number] = (var, _with_operands(value, _replacing(old, new)))
    return Edited(function.rebuilt(bindings), f"a constant of {var.name} changed", frozenset())


def _duplicate(function: _Function, random: Random, _ops: Sequence[str]) -> Edited | None:
    """A block again behind itself: bindings in a row that read one outer value, of their result's type."""
    choices = [block for last in _movable(function) for block in _blocks(function, last)]
    if not choices:
        return None
    first, last, entry = random.choice(choices)
    result = function.bindings[last][0]
    known: dict[relax.Var, relax.Var] = {entry: result}

    def copied(expr: relax.Expr) -> relax.Expr:
        return known.get(expr, expr) if isinstance(expr, relax.Var) else expr

    copies: list[Binding] = []
    for var, value in function.bindings[first : last + 1]:
        again = _with_operands(value, copied)
        known[var] = function.new_var(var)
        copies.append((known[var], again))
    behind = [
        (each, _with_operands(value, _replacing(result, known[result])))
        for each, value in function.bindings[last + 1 :]
    ]
    mod = function.rebuilt([*function.bindings[: last + 1], *copies, *behind])
    what = f"{last - first + 1} bindings up to {result.name} duplicated"
    return Edited(mod, what, frozenset(var.name for var, _value in copies))


def _blocks(function: _Function, last: int) -> list[tuple[int, int, relax.Var]]:
    """The blocks that end with a binding: first, last, and the one value that enters."""
    found = []
    inside: set[relax.Var] = set()
    entering: set[relax.Var] = set()
    for first in range(last, max(-1, last - 12), -1):
        var, value = function.bindings[first]
        inside.add(var)
        entering = (entering | set(relax.analysis.free_vars(value))) - inside
        if len(entering) == 1:
            (entry,) = entering
            if tvm_ffi.structural_equal(entry.ty, function.bindings[last][0].ty):
                found.append((first, last, entry))
    return found


EDITS = {
    "insert": _insert,
    "remove": _remove,
    "replace": _replace,
    "constant": _constant,
    "duplicate": _duplicate,
}


def edited(mod: tvm.IRModule, kind: str, random: Random, ops: Sequence[str]) -> Edited | None:
    """The module after one edit; None if there is nothing to edit so.

    Parameters
    ----------
    mod
        A module whose ``main`` is one dataflow block.
    kind
        A key of `EDITS`.
    random
        Chooses where.
    ops
        The ops of one operand that may be inserted or take the place of others.
    """
    return EDITS[kind](_Function(mod), random, ops)
