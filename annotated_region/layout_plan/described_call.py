"""The form of a call that layout rules use: op info, and an expression for each of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.errors import OpInfoError
from annotated_region.layout_plan.views import extents_of
from annotated_region.layouts import LayoutChange
from annotated_region.layouts.layout import Extent
from annotated_region.op_info.calls import info_of_call, make_call
from annotated_region.op_info.infer import composition_of
from annotated_region.op_info.info import OpInfo, Parameter, Result, Source
from annotated_region.tvm_adapter.types import expect

__all__ = ["DescribedCall", "changed_call", "described"]

CALL_TIR = "relax.call_tir"


@dataclass(frozen=True, slots=True)
class DescribedCall:
    """A call of one op, lowered or not.

    Attributes
    ----------
    info
        The op.
    operands
        The expression for each parameter in `info`.
    """

    info: OpInfo
    operands: tuple[relax.Expr, ...]


def described(
    call: relax.Call, mod: tvm.IRModule, tuples: Callable[[relax.Expr], relax.Expr]
) -> DescribedCall | None:
    """The op info and operands of a call, if it is one op on tensors; else None.

    Parameters
    ----------
    call
        Any call.
    mod
        The module with its PrimFunc.
    tuples
        Replaces a variable bound to a tuple by that tuple.
    """
    if not isinstance(call.op, tvm.ir.Op):
        return None
    name = str(call.op.name)
    found = _lowered(call, mod) if name == CALL_TIR else _op(call, tuples)
    known = found is not None and all(isinstance(operand.ty, relax.TensorType) for operand in found.operands)
    return found if known else None


def _op(call: relax.Call, tuples: Callable[[relax.Expr], relax.Expr]) -> DescribedCall | None:
    operands: list[relax.Expr] = []

    def place(expr: relax.Expr) -> Source:
        operands.append(expr)
        return Parameter(len(operands) - 1)

    info = info_of_call(relax.Call(call.op, [tuples(arg) for arg in call.args], call.attrs), place)
    return None if info is None else DescribedCall(info, tuple(operands))


def _lowered(call: relax.Call, mod: tvm.IRModule) -> DescribedCall | None:
    """Several results must all be results of the op, in its order."""
    func = mod[call.args[0]] if isinstance(call.args[0], tvm.ir.GlobalVar) else None
    if not isinstance(func, tvm.tirx.PrimFunc) or len(call.args) != 2:
        return None
    composition = composition_of(func)
    arguments = call.args[1]
    if composition is None or len(composition.ops) != 1 or not isinstance(arguments, relax.Tuple):
        return None
    fields = len(call.ty.fields) if isinstance(call.ty, tvm.ir.TupleType) else None
    wanted = (Result(0),) if fields is None else tuple(Result(0, field) for field in range(fields))
    if composition.outputs != wanted or composition.ops[0].reads_extents:
        return None  # the axes of an operand in another layout are others
    return DescribedCall(composition.ops[0], tuple(arguments.fields))


def changed_call(
    change: LayoutChange, operands: Mapping[int, relax.Expr], builder: relax.BlockBuilder
) -> relax.Call | None:
    """The normalized call of an op in another layout; None if TVM's type inference rejects it."""
    try:
        return expect(relax.Call, builder.normalize(make_call(change.info, operands, {})))
    except (OpInfoError, tvm.error.InternalError, TypeError, ValueError):
        return None


def result_extents(ty: tvm.ir.Type) -> list[tuple[Extent, ...] | None]:
    """The shape of each result of a call."""
    return [extents_of(part) for part in (ty.fields if isinstance(ty, tvm.ir.TupleType) else [ty])]
