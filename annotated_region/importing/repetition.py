"""Loops whose number of steps only a call knows, as functions of Relax that call each other.

Relax has no loop, but functions may call themselves. One call a step would keep the values of all steps until
the last one ends, so steps are counted in powers of two, and calls are nested as deep as the number of steps
has digits::

    body(i, v)        the results of a step
    steps(k, i, v)    if k == 0: body(i, v)
                      else: v = steps(k - 1, i, v), and once more if it goes on        up to 2**k steps
    loop(k, i, v)     if it goes on: v = steps(k, i, v), and then loop(k + 1, i, v)    all steps

What a step gives for itself is joined in the same way, so that n rows are copied log(n) times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.relax.utils import copy_with_new_vars

from annotated_region.functions.shape_variables import types_with
from annotated_region.importing.nested_builder import NestedBuilder, choice
from annotated_region.tvm_adapter.types import expect, shape_vars_of, tensor_type

__all__ = ["Beginning", "LoopBody", "Rows", "repeated"]


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
        A function of the extents of its surroundings (one shape), the `given` values that all steps read,
        the number of the step (int64, a scalar) and the carried values. Its result is a tuple of a condition
        (bool, a scalar), the carried values of the next step, and the rows.
    given
        The number of values that all steps read.
    carried
        The number of carried values. An extent of one that is a variable of its own may differ from step to
        step; the others stay.
    rows
        How the rows of all steps are joined.
    has_condition
        Whether the condition can be false; the number of steps alone ends the loop otherwise.
    """

    func: relax.Function
    given: int
    carried: int
    rows: Sequence[Rows]
    has_condition: bool

    def signature(self) -> Signature:
        """The parameters and results of the function, with new variables."""
        func = copy_with_new_vars(self.func)
        params = list(func.params)
        split = 1 + self.given
        fields = expect(relax.TupleType, func.ret_ty).fields
        surroundings, number, carried = params[:split], params[split], params[split + 1 :]
        return Signature(surroundings, number, carried, list(fields[1 + self.carried :]))


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
        """What both control functions have, beside the number of digits and the condition."""
        return [*self.surroundings, self.number, *self.carried]

    def result(self, *first: tvm.ir.Type) -> relax.TupleType:
        """The types of the results: `first`, the carried values, and rows of any number of steps."""
        carried = [_unless_it_varies(expect(relax.TensorType, each.ty), self.known) for each in self.carried]
        rows = [relax.TensorType(dtype=each.dtype, ndim=each.ndim) for each in self.rows]
        return relax.TupleType([*first, *carried, *rows])


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a loop begins and ends.

    Attributes
    ----------
    number
        The number of the first step.
    goes_on
        Whether there is a first step (bool, a scalar).
    count
        The number (int64, a scalar) of the step before which it ends; None if only the condition ends it.
    """

    number: relax.Expr
    goes_on: relax.Expr
    count: relax.Expr | None


def repeated(
    builder: relax.BlockBuilder,
    body: LoopBody,
    surroundings: Sequence[relax.Expr],
    begin: Beginning,
    values: Sequence[relax.Expr],
    length: tirx.Expr | None = None,
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
    begin
        How it begins and ends.
    values
        The carried values before the first step.
    length
        The number of steps, if it is an extent; calls in which there are fewer or more steps fail.

    Returns
    -------
    The carried values behind the last step, and the rows of all steps.
    """
    count = [] if begin.count is None else [begin.count]
    step = builder.add_func(body.func, "loop_body")
    steps = _steps(builder, body, step, has_count=bool(count))
    loop = _loop(builder, body, steps, has_count=bool(count))
    started = relax.const(0, "int64"), begin.goes_on
    call = relax.Call(loop, [*started, *count, *surroundings, begin.number, *values])
    result = builder.emit(call)
    fields = _fields(builder, result, len(values) + len(body.rows))
    signature = body.signature()
    given = dict(zip(signature.known, expect(relax.ShapeExpr, surroundings[0]).values, strict=True))
    types = types_with(signature.rows, given)
    steps_in_all = tirx.Var("steps", "int64") if length is None else length
    joined = [
        _with_extents(builder, row, expect(relax.TensorType, ty), rows.axis, steps_in_all)
        for row, ty, rows in zip(fields[len(values) :], types, body.rows, strict=True)
    ]
    return [*(_named(builder, each) for each in fields[: len(values)]), *joined]


def _steps(
    builder: relax.BlockBuilder, body: LoopBody, step: tvm.ir.GlobalVar, *, has_count: bool
) -> tvm.ir.GlobalVar:
    """The function of up to ``2**k`` steps, of which there is one at least."""
    signature = body.signature()
    digits, count = _scalar("digits", "int64"), [_scalar("count", "int64")] if has_count else []
    params = [digits, *count, *signature.params]
    result = signature.result(_scalar_type("int64"), _scalar_type("bool"))
    steps = builder.add_func(relax.Function.create_empty(params, result), "loop_steps")

    def one(inner: relax.BlockBuilder) -> relax.Expr:
        made = inner.emit(relax.Call(step, signature.params))
        goes_on, *others = _fields(inner, made, 1 + body.carried + len(body.rows))
        number = inner.emit(relax.op.add(signature.number, relax.const(1, "int64")))
        if count:
            is_within = inner.emit(relax.op.less(number, count[0]))
            goes_on = (
                inner.emit(relax.op.logical_and(goes_on, is_within)) if body.has_condition else is_within
            )
        return relax.Tuple([number, goes_on, *others])

    def several(inner: relax.BlockBuilder) -> relax.Expr:
        half = inner.emit(relax.op.subtract(digits, relax.const(1, "int64")))

        def up_to_half(inside: relax.BlockBuilder, *state: relax.Expr) -> relax.Var:
            return inside.emit(relax.Call(steps, [half, *count, *signature.surroundings, *state]))

        first = up_to_half(inner, signature.number, *signature.carried)
        number, goes_on, *others = _fields(inner, first, 2 + body.carried + len(body.rows))

        def second(inside: relax.BlockBuilder) -> relax.Expr:
            rest = up_to_half(inside, number, *others[: body.carried])
            last, still, *behind = _fields(inside, rest, 2 + body.carried + len(body.rows))
            rows = _joined(inside, body, signature, others[body.carried :], behind[body.carried :])
            return relax.Tuple([last, still, *behind[: body.carried], *rows])

        return choice(inner, signature.variables, goes_on, second, lambda _inside: first)

    is_one = relax.op.equal(digits, relax.const(0, "int64"))
    func = _control(builder, params, signature, is_one, one, several, result)
    builder.update_func(steps, func)
    return steps


def _loop(
    builder: relax.BlockBuilder, body: LoopBody, steps: tvm.ir.GlobalVar, *, has_count: bool
) -> tvm.ir.GlobalVar:
    """The function of all steps, if any."""
    signature = body.signature()
    digits, goes_on = _scalar("digits", "int64"), _scalar("goes_on", "bool")
    count = [_scalar("count", "int64")] if has_count else []
    params = [digits, goes_on, *count, *signature.params]
    result = signature.result()
    loop = builder.add_func(relax.Function.create_empty(params, result), "loop")

    def some(inner: relax.BlockBuilder) -> relax.Expr:
        first = inner.emit(relax.Call(steps, [digits, *count, *signature.params]))
        number, still, *others = _fields(inner, first, 2 + body.carried + len(body.rows))
        more = inner.emit(relax.op.add(digits, relax.const(1, "int64")))
        given = [more, still, *count, *signature.surroundings, number, *others[: body.carried]]
        rest = inner.emit(relax.Call(loop, given))
        behind = _fields(inner, rest, body.carried + len(body.rows))
        rows = _joined(inner, body, signature, others[body.carried :], behind[body.carried :])
        return relax.Tuple([*behind[: body.carried], *rows])

    def none(inner: relax.BlockBuilder) -> relax.Expr:
        rows = [_no_rows(inner, ty, rows.axis) for ty, rows in zip(signature.rows, body.rows, strict=True)]
        return relax.Tuple([*signature.carried, *rows])

    builder.update_func(loop, _control(builder, params, signature, goes_on, some, none, result))
    return loop


def _control(
    builder: relax.BlockBuilder,
    params: Sequence[relax.Var],
    signature: Signature,
    condition: relax.Expr,
    yes: Callable[[relax.BlockBuilder], relax.Expr],
    no: Callable[[relax.BlockBuilder], relax.Expr],
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
    builder: relax.BlockBuilder,
    body: LoopBody,
    signature: Signature,
    first: Sequence[relax.Var],
    rest: Sequence[relax.Var],
) -> list[relax.Expr]:
    """The rows of some steps and of those behind them."""
    joined: list[relax.Expr] = []
    for pair, ty, rows in zip(zip(first, rest, strict=True), signature.rows, body.rows, strict=True):
        parts = [_with_extents(builder, each, ty, rows.axis, tirx.Var("steps", "int64")) for each in pair]
        joined.append(builder.emit(relax.op.concat(parts[::-1] if rows.is_reversed else parts, rows.axis)))
    return joined


def _with_extents(
    builder: relax.BlockBuilder, rows: relax.Expr, ty: relax.TensorType, axis: int, count: tirx.Expr
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
