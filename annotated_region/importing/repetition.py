"""Loops whose number of steps only a call knows, as functions of Relax that call each other.

Relax has no loop, but functions may call themselves. One call a step would keep the values of all steps until
the last one ends, so steps are counted in powers of two, and calls are nested as deep as the number of steps
has digits::

    body(i, v)        the results of a step: i + 1, whether the loop goes on, v
    steps(k, i, v)    if k == 0: up to four times body(i, v)
                      else: steps(k - 1, i, v), and once more if it goes on        up to 4 * 2**k steps
    loop(k, i, v)     if it goes on: steps(k, i, v), and then loop(k + 1, i, v)    all steps

What a step gives for itself is joined in the same way, so that n rows are copied log(n) times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.utils import copy_with_new_vars

from annotated_region.functions.shape_variables import types_with
from annotated_region.importing.nested_builder import Emit, NestedBuilder, choice
from annotated_region.tvm_adapter.nodes import PrimExpr
from annotated_region.tvm_adapter.types import expect, shape_vars_of, tensor_type

__all__ = ["LoopBody", "Made", "Rows", "repeated"]

_FEW = 4
"""The most steps that are no calls of other steps."""

_STATE = 2
"""The number of the next step, and whether there is one."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How what each step gives for itself is joined.

    Attributes
    ----------
    axis
        The axis of the steps, which has the extent 1 in the row of a step.
    is_reversed
        Whether the row of the last step is the first.
    """

    axis: int
    is_reversed: bool = False


@dataclass(frozen=True, slots=True)
class LoopBody:
    """What one step computes.

    Attributes
    ----------
    func
        A function of the extents of its surroundings (one shape), the values that all steps read, the number
        of the step (int64, a scalar) and the carried values. Its result is a tuple of the number of the next
        step, whether there is one (bool, a scalar), the carried values of the next step, and the rows.
    given
        The number of values that all steps read.
    carried
        The number of carried values. An extent of one that is a variable of its own may differ from step to
        step; the others stay.
    rows
        How the rows of all steps are joined.
    """

    func: relax.Function
    given: int
    carried: int
    rows: Sequence[Rows]

    def signature(self) -> Signature:
        """The parameters and results of the function, with new variables."""
        func = copy_with_new_vars(self.func)
        params = list(func.params)
        split = 1 + self.given
        fields = expect(relax.TupleType, func.ret_ty).fields
        rows = [expect(relax.TensorType, ty) for ty in fields[_STATE + self.carried :]]
        return Signature(params[:split], params[split], params[split + 1 :], rows)

    def made(self, builder: relax.BlockBuilder, result: relax.Var) -> Made:
        """The fields of what the function, or several steps, give."""
        count = _STATE + self.carried + len(self.rows)
        number, goes_on, *others = _fields(builder, result, count)
        return Made(number, goes_on, others[: self.carried], others[self.carried :])


@dataclass(frozen=True, slots=True)
class Made:
    """What a step gives, or several steps: values, by the names in `LoopBody`."""

    number: relax.Expr
    goes_on: relax.Expr
    carried: Sequence[relax.Expr]
    rows: Sequence[relax.Expr]

    def result(self, rows: Sequence[relax.Expr]) -> relax.Tuple:
        """It as a tuple, with the rows of several steps."""
        return relax.Tuple([self.number, self.goes_on, *self.carried, *rows])


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a loop body, and the types of its rows.

    Attributes
    ----------
    surroundings
        The extents of the surroundings, and what all steps read.
    number
        The number of the step.
    carried
        The carried values.
    rows
        The types of the rows of one step.
    """

    surroundings: list[relax.Var]
    number: relax.Var
    carried: list[relax.Var]
    rows: list[relax.TensorType]

    @property
    def known(self) -> list[tirx.Var]:
        """The variables that are the same in all steps."""
        return shape_vars_of(self.surroundings[0].ty)

    @property
    def variables(self) -> list[tirx.Var]:
        """All variables."""
        return list(dict.fromkeys(each for param in self.params for each in shape_vars_of(param.ty)))

    @property
    def params(self) -> list[relax.Var]:
        """The parameters in their order."""
        return [*self.surroundings, self.number, *self.carried]

    def result(self, *first: tvm.ir.Type) -> relax.TupleType:
        """The types of the results: `first`, the carried values, and rows of any number of steps."""
        carried = [_unless_it_varies(expect(relax.TensorType, each.ty), self.known) for each in self.carried]
        rows = [relax.TensorType(dtype=each.dtype, ndim=each.ndim) for each in self.rows]
        return relax.TupleType([*first, *carried, *rows])


def repeated(
    builder: relax.BlockBuilder,
    body: LoopBody,
    surroundings: Sequence[relax.Expr],
    first: Made,
    length: PrimExpr | None = None,
) -> list[relax.Expr]:
    """Emit a loop.

    Parameters
    ----------
    builder
        The builder of the function that has the loop; the functions are added to its module.
    body
        What a step computes.
    surroundings
        The extents of the surroundings as a shape, and the values that all steps read.
    first
        The number of the first step, whether there is one, and the carried values before it.
    length
        The number of steps, if it is an extent; calls in which there are fewer or more steps fail.

    Returns
    -------
    The carried values behind the last step, and the rows of all steps.
    """
    step = builder.add_func(body.func, "loop_body")
    loop = _loop(builder, body, _steps(builder, body, step))
    begin = [relax.const(0, "int64"), first.goes_on, *surroundings, first.number, *first.carried]
    result = builder.emit(relax.Call(loop, begin))
    fields = _fields(builder, result, body.carried + len(body.rows))
    signature = body.signature()
    given = dict(zip(signature.known, expect(relax.ShapeExpr, surroundings[0]).values, strict=True))
    steps_in_all = tirx.Var("steps", "int64") if length is None else length
    joined = [
        _with_extents(builder, row, expect(relax.TensorType, ty), rows.axis, steps_in_all)
        for row, ty, rows in zip(
            fields[body.carried :], types_with(signature.rows, given), body.rows, strict=True
        )
    ]
    return [*(_named(builder, each) for each in fields[: body.carried]), *joined]


def _steps(builder: relax.BlockBuilder, body: LoopBody, step: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
    """The function of up to ``4 * 2**k`` steps, of which there is one at least."""
    signature = body.signature()
    digits = _scalar("digits", "int64")
    params = [digits, *signature.params]
    result = signature.result(digits.ty, _scalar_type("bool"))
    steps = builder.add_func(relax.Function.create_empty(params, result), "loop_steps")

    def called(
        inner: relax.BlockBuilder, function: tvm.ir.GlobalVar, first: Sequence[relax.Expr], last: Made
    ) -> Made:
        args = [*first, *signature.surroundings, last.number, *last.carried]
        return body.made(inner, inner.emit(relax.Call(function, args)))

    def some(inner: relax.BlockBuilder, before: Sequence[Made], left: int) -> relax.Expr:
        """What some steps gave, and up to so many behind them."""
        last = before[-1]

        def stop(inside: relax.BlockBuilder) -> relax.Expr:
            return last.result(_joined(inside, body, [each.rows for each in before]))

        def go_on(inside: relax.BlockBuilder) -> relax.Expr:
            return some(inside, [*before, called(inside, step, [], last)], left - 1)

        return choice(inner, signature.variables, last.goes_on, go_on, stop) if left else stop(inner)

    begin = Made(signature.number, relax.const(np.array(True)), signature.carried, [])

    def few(inner: relax.BlockBuilder) -> relax.Expr:
        return some(inner, [called(inner, step, [], begin)], _FEW - 1)

    def many(inner: relax.BlockBuilder) -> relax.Expr:
        less = inner.emit(relax.op.subtract(digits, relax.const(1, "int64")))
        half = called(inner, steps, [less], begin)

        def other_half(inside: relax.BlockBuilder) -> relax.Expr:
            rest = called(inside, steps, [less], half)
            parts = [_with_all_extents(inside, body, signature, each.rows) for each in (half, rest)]
            return rest.result(_joined(inside, body, parts))

        return choice(
            inner, signature.variables, half.goes_on, other_half, lambda _inside: half.result(half.rows)
        )

    are_few = relax.op.equal(digits, relax.const(0, "int64"))
    builder.update_func(steps, _control(builder, params, signature, are_few, few, many, result))
    return steps


def _loop(builder: relax.BlockBuilder, body: LoopBody, steps: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
    """The function of all steps, if any."""
    signature = body.signature()
    digits, goes_on = _scalar("digits", "int64"), _scalar("goes_on", "bool")
    params = [digits, goes_on, *signature.params]
    result = signature.result()
    loop = builder.add_func(relax.Function.create_empty(params, result), "loop")

    def some(inner: relax.BlockBuilder) -> relax.Expr:
        first = body.made(inner, inner.emit(relax.Call(steps, [digits, *signature.params])))
        more = inner.emit(relax.op.add(digits, relax.const(1, "int64")))
        args = [more, first.goes_on, *signature.surroundings, first.number, *first.carried]
        rest = _fields(inner, inner.emit(relax.Call(loop, args)), body.carried + len(body.rows))
        pair = first.rows, rest[body.carried :]
        parts = [_with_all_extents(inner, body, signature, each) for each in pair]
        return relax.Tuple([*rest[: body.carried], *_joined(inner, body, parts)])

    def none(inner: relax.BlockBuilder) -> relax.Expr:
        pairs = zip(signature.rows, body.rows, strict=True)
        return relax.Tuple([*signature.carried, *(_no_rows(inner, ty, rows.axis) for ty, rows in pairs)])

    builder.update_func(loop, _control(builder, params, signature, goes_on, some, none, result))
    return loop


def _control(
    builder: relax.BlockBuilder,
    params: Sequence[relax.Var],
    signature: Signature,
    condition: relax.Expr,
    yes: Emit,
    no: Emit,
    result: relax.TupleType,
) -> relax.Function:
    """A function that returns a choice."""
    inner = NestedBuilder(builder)
    with inner.nested(params):
        is_so = condition if isinstance(condition, relax.Var) else inner.emit(condition)
        func = inner.finished(choice(inner, signature.variables, is_so, yes, no))
    return relax.Function(func.params, func.body, result, func.is_pure, func.attrs)


def _scalar_type(dtype: str) -> relax.TensorType:
    return relax.TensorType((), dtype)


def _scalar(name: str, dtype: str) -> relax.Var:
    return relax.Var(name, _scalar_type(dtype))


def _fields(builder: relax.BlockBuilder, result: relax.Var, count: int) -> list[relax.Var]:
    return [builder.emit(relax.TupleGetItem(result, place)) for place in range(count)]


def _unless_it_varies(ty: relax.TensorType, known: Sequence[tirx.Var]) -> relax.TensorType:
    """The type of a carried value behind some steps; without a shape if a step may change it."""
    is_known = set(known).issuperset(shape_vars_of(ty))
    return ty if is_known else relax.TensorType(dtype=ty.dtype, ndim=ty.ndim)


def _joined(
    builder: relax.BlockBuilder, body: LoopBody, parts: Sequence[Sequence[relax.Expr]]
) -> list[relax.Expr]:
    """The rows of consecutive steps."""
    if len(parts) == 1:
        return list(parts[0])
    return [
        builder.emit(relax.op.concat(each[::-1] if rows.is_reversed else each, rows.axis))
        for each, rows in zip(zip(*parts, strict=True), body.rows, strict=True)
    ]


def _with_all_extents(
    builder: relax.BlockBuilder, body: LoopBody, signature: Signature, values: Sequence[relax.Expr]
) -> list[relax.Expr]:
    """The rows of some steps, whose number is not known."""
    return [
        _with_extents(builder, value, ty, rows.axis, tirx.Var("steps", "int64"))
        for value, ty, rows in zip(values, signature.rows, body.rows, strict=True)
    ]


def _with_extents(
    builder: relax.BlockBuilder, rows: relax.Expr, ty: relax.TensorType, axis: int, count: PrimExpr
) -> relax.Var:
    """The rows of some steps with the extents of one but along the axis of the steps."""
    extents = list(expect(relax.ShapeExpr, ty.shape).values)
    extents[axis] = count
    return builder.match_cast(rows, relax.TensorType(extents, ty.dtype))


def _no_rows(builder: relax.BlockBuilder, ty: relax.TensorType, axis: int) -> relax.Expr:
    extents = list(expect(relax.ShapeExpr, ty.shape).values)
    extents[axis] = tirx.IntImm("int64", 0)
    return builder.emit(relax.op.zeros(extents, ty.dtype))


def _named(builder: relax.BlockBuilder, value: relax.Var) -> relax.Expr:
    """A carried value behind a loop, with variables for extents that differ from step to step."""
    ty = tensor_type(value)
    if ty.shape is not None or ty.ndim < 1:
        return value
    extents = [tirx.Var(f"loop_{axis}", "int64") for axis in range(ty.ndim)]
    return builder.match_cast(value, relax.TensorType(extents, ty.dtype))
