"""Attaches op info to PrimFuncs as the function attribute ``op_info``, a line of JSON, and reads it."""

from __future__ import annotations

from collections import Counter

import tvm
from tvm import relax

from annotated_region.op_info.calls import flat_operands, info_of_call
from annotated_region.op_info.extents import extent_places
from annotated_region.op_info.info import Composition, Number, Parameter, Result, Source
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["OP_INFO", "attach", "attached", "composition_of_lowering"]

OP_INFO = "op_info"
"""The name of the attribute."""


def attach(func: tvm.tirx.PrimFunc, composition: Composition) -> tvm.tirx.PrimFunc:
    """The same PrimFunc with the attribute."""
    return func.with_attr(OP_INFO, composition.to_json())


def attached(func: tvm.tirx.PrimFunc) -> Composition | None:
    """The composition in the attribute; None without one.

    Raises
    ------
    OpInfoError
        The attribute is malformed.
    """
    text = func.attrs.get(OP_INFO) if func.attrs else None
    return None if text is None else Composition.from_json(str(text))


def composition_of_lowering(call: relax.Call, lowered: relax.Call) -> Composition | None:
    """The composition of the PrimFunc in ``lowered = call_tir(func, args)``, which was lowered from `call`.

    Arguments are matched by identity. A constant of rank 0 that is not an argument of the PrimFunc was
    compiled into it; if any other operand is missing, the result is None.
    """
    arguments = list(lowered.args[1].fields) if isinstance(lowered.args[1], relax.Tuple) else []
    positions: dict[relax.Expr, list[int]] = {}
    for index, argument in enumerate(arguments):
        positions.setdefault(argument, []).append(index)
    seen: Counter[relax.Expr] = Counter()
    operands = set(flat_operands(call))
    tensors = [argument for argument in arguments if isinstance(argument.ty, relax.TensorType)]
    if any(argument not in operands for argument in tensors):
        return None

    def place(expr: relax.Expr) -> Source | None:
        if expr not in positions:
            return _number(expr)
        places = positions[expr]
        # The first use of x in add(x, x) is the first parameter, the second use the second.
        index = places[min(seen[expr], len(places) - 1)]
        seen[expr] += 1
        return Parameter(index)

    info = info_of_call(call, place, extent_places(arguments, lowered.ty_args[0]).place)
    if info is None:
        return None
    if isinstance(call.ty, tvm.ir.TupleType):
        return Composition((info,), tuple(Result(0, field) for field in range(len(call.ty.fields))))
    return Composition((info,), (Result(0),))


def _number(expr: relax.Expr) -> Number | None:
    if not isinstance(expr, Constant) or not isinstance(expr.value, tvm.runtime.Tensor):
        return None
    if len(expr.value.shape):
        return None
    return Number(expr.value.numpy()[()].item(), str(tensor_type(expr).dtype))
