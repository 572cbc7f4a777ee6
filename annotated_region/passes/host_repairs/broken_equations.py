"""Gives each check of extents in a function a message that names them, and the inputs.

::

    beyond_bounds = shape([n - 2 * m])         =>     checked = call_tir(main_extents, (n, m), (1,))
    match_cast(beyond_bounds, Shape([0]))             match_cast(tensor_to_shape(checked), Shape([0]))

``main_extents`` is a loop-level function that asserts each equation with a text of its own, and makes zeros.
A call that breaks one fails with that text, as a ``ValueError``, also in a process without this package. It
names the node that needs the equation, if the number has an origin. TVM 0.27.0 says ``Check failed:
input_shape[i] == reg (1 vs. 0) : ErrorContext(match_cast, ty=R.Shape([0]))``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

import tvm
from tvm import relax, te, tirx

from annotated_region.functions.modules import functions_to_partition
from annotated_region.functions.shape_variables import variables_in
from annotated_region.origins import recorded_origin
from annotated_region.tvm_adapter.nodes import PrimExpr, TextConstant
from annotated_region.tvm_adapter.types import expect

__all__ = ["name_equations"]

_SCRIPT = re.compile(r"T\.int64\((-?\d+)\)|T\.(?=m(?:in|ax)\()")


def name_equations(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with a message for each equation that its functions check; itself if they check none.

    Equations of computed extents are checked where these are known; those of branches keep TVM's message.
    """
    result = mod
    for name, function in functions_to_partition(mod):
        for cast, differences in _checks(function):
            builder = relax.BlockBuilder(result)
            check = _check(variables_in(*differences), _messages(name.name_hint, function, differences))
            called = builder.add_func(check, f"{name.name_hint}_extents")
            checked = expect(relax.Function, result[name])
            builder.update_func(name, _with_call(checked, cast, called, differences))
            result = builder.get()
    return result


def _checks(function: relax.Function) -> Iterator[tuple[relax.MatchCast, list[PrimExpr]]]:
    """The casts of numbers to zeros, each with the numbers, if they are written there."""
    for block in function.body.blocks:
        shapes = {each.var: each.value for each in block.bindings if isinstance(each, relax.VarBinding)}
        for cast in filter(_is_check, block.bindings):
            value = shapes.get(cast.value) if isinstance(cast.value, relax.Var) else cast.value
            if isinstance(value, relax.ShapeExpr):
                yield cast, list(value.values)


def _is_check(binding: relax.Binding) -> TypeGuard[relax.MatchCast]:
    """Whether a binding casts numbers to zeros."""
    if not isinstance(binding, relax.MatchCast) or not isinstance(binding.ty, relax.ShapeType):
        return False
    return all(isinstance(each, tirx.IntImm) and int(each) == 0 for each in binding.ty.values or [None])


def _messages(
    name: str, function: relax.Function, differences: Sequence[PrimExpr]
) -> Iterator[tuple[PrimExpr, str]]:
    """Each number with the text for a call in which it is not 0."""
    places = _places(function.params)
    for number in differences:
        sides = (number.a, number.b) if isinstance(number, tirx.Sub) else (number, 0)
        left, right = (_SCRIPT.sub(r"\1", str(side)) for side in sides)
        origin = recorded_origin(number)
        needed = "" if origin is None else f" for {origin!r}"
        known = [
            f"{each.name} is {places.get(each, 'computed in the call')}" for each in variables_in(number)
        ]
        yield (
            number,
            f"{name!r} is called with inputs of extents for which its model is not defined: {left} must be "
            f"{right}{needed}, where {' and '.join(known)}; pass inputs for which this holds",
        )


def _places(params: Sequence[relax.Var]) -> Mapping[tirx.Var, str]:
    """Where each variable of a parameter's shape stands first."""
    found: dict[tirx.Var, str] = {}
    for param in params:
        shape = param.ty.shape if isinstance(param.ty, relax.TensorType) else None
        for axis, extent in enumerate(shape.values if isinstance(shape, relax.ShapeExpr) else ()):
            if isinstance(extent, tirx.Var):
                found.setdefault(extent, f"extent {axis} of {param.name}")
    return found


def _check(variables: Sequence[tirx.Var], messages: Iterator[tuple[PrimExpr, str]]) -> tirx.PrimFunc:
    """The function that asserts that numbers are 0, and then makes as many zeros."""
    zero = tirx.IntImm("int64", 0)
    asserts = [_assert(tirx.EQ(number, zero), text) for number, text in messages]
    made = te.create_prim_func([*variables, te.compute((len(asserts),), lambda _place: zero, "checked")])
    places = (tirx.IntImm("int32", place) for place in range(len(asserts)))
    stores = [tirx.BufferStore(made.params[-1], zero, [place]) for place in places]
    return tirx.PrimFunc(made.params, tirx.SeqStmt([*asserts, *stores])).with_attr("tirx.noalias", True)


def _assert(condition: PrimExpr, text: str) -> tirx.Stmt:
    # In the order of the constructor; TVM 0.27's class names its parameters in another one.
    return tirx.AssertStmt(condition, TextConstant("ValueError"), [TextConstant(text)])


def _with_call(
    function: relax.Function, cast: relax.MatchCast, check: tvm.ir.GlobalVar, differences: Sequence[PrimExpr]
) -> relax.Function:
    """The function with a call whose result is cast instead, which keeps the call alive."""
    builder = relax.BlockBuilder()
    zeros = relax.TensorType((len(differences),), "int64")
    call = builder.normalize(relax.op.call_tir(check, relax.Tuple(variables_in(*differences)), zeros))
    kind = type(cast.var)
    checked = kind("checked_extents", call.ty)
    shape = builder.normalize(relax.op.tensor_to_shape(checked))
    known = kind("known_extents", shape.ty)
    made = [
        relax.VarBinding(checked, call),
        relax.VarBinding(known, shape),
        relax.MatchCast(cast.var, known, cast.ty),
    ]
    blocks = [
        type(block)(
            [new for each in block.bindings for new in (made if each.same_as(cast) else [each])], block.span
        )
        for block in function.body.blocks
    ]
    body = builder.normalize(relax.SeqExpr(blocks, function.body.body, function.body.span))
    return relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )
