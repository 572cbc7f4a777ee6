"""Computes a Relax function on the host in float64, with numpy: what is right, and how far rounding goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.op_info.attributes import attributes_of
from annotated_region.tvm_adapter.nodes import Constant
from kits.dense_graphs.elementwise import ELEMENTWISE
from kits.dense_graphs.movement import MOVEMENT
from kits.dense_graphs.products import PRODUCTS
from kits.dense_graphs.rare_reference import RARE
from kits.dense_graphs.recurrences import RECURRENT
from kits.dense_graphs.reductions import REDUCTIONS
from kits.dense_graphs.updates import UPDATED
from kits.dense_graphs.values import AS_FLOAT32, HALVES, Noise, Roundings, Value, folded, halved, source

__all__ = ["OPS", "Evaluation", "UnknownOpError", "bind_extents", "evaluate", "extent_value"]

Compute = Callable[[Noise, Mapping[str, Any], Sequence[Any]], Any]

OPS: Mapping[str, Compute] = {
    **ELEMENTWISE,
    **MOVEMENT,
    **PRODUCTS,
    **REDUCTIONS,
    **UPDATED,
    **RARE,
    **RECURRENT,
}
"""The ops that the reference knows, without ``relax.``."""


class UnknownOpError(Exception):
    """The reference does not know an op."""


def evaluate(
    mod: tvm.IRModule,
    name: str,
    inputs: Sequence[np.ndarray],
    seed: int | Sequence[int] = 0,
    roundings: Roundings = AS_FLOAT32,
) -> list[Value]:
    """What a function of a module computes, with errors drawn from `seed`; and what the engine rounds.

    Raises
    ------
    UnfitValuesError
        The inputs are not fit to tell an error from rounding.
    UnknownOpError
        The function holds an op that the reference does not know.
    """
    evaluation = Evaluation(mod, Noise(np.random.default_rng(seed), roundings))
    with np.errstate(all="ignore"):
        result = evaluation.function(mod[name], [source(array) for array in inputs])
    return list(result) if isinstance(result, tuple) else [result]


class Evaluation:
    """Walks functions; functions of the module that are called are walked, too, unless told otherwise."""

    def __init__(self, mod: tvm.IRModule, noise: Noise) -> None:
        """Compute functions of `mod`."""
        self.mod = mod
        self.noise = noise

    def function(self, func: relax.Function, arguments: Sequence[Any], outer: Any = None) -> Any:
        """What a function computes of its arguments."""
        scope: dict[Any, Any] = dict(outer or {})
        for param, argument in zip(func.params, arguments, strict=True):
            scope[param] = argument
            bind_extents(param.ty, argument, scope)
        for block in func.body.blocks:
            for binding in block.bindings:
                if isinstance(binding, relax.MatchCast):
                    value = self.value(binding.value, scope)
                    bind_extents(binding.ty, value, scope)
                else:
                    value = self.value(binding.value, scope)
                scope[binding.var] = value
        return self.value(func.body.body, scope)

    def value(self, expr: relax.Expr, scope: Mapping[Any, Any]) -> Any:
        """What an expression stands for: a value, a tuple of values, numbers."""
        match expr:
            case relax.Call():
                return self.call(expr, scope)
            case relax.Tuple():
                return tuple(self.value(each, scope) for each in expr.fields)
            case relax.TupleGetItem():
                return self.value(expr.tuple_value, scope)[expr.index]
            case Constant():
                return folded(self.noise, source(expr.value.numpy()), str(expr.value.dtype))
            case _:
                return _leaf(expr, scope)

    def call(self, call: relax.Call, scope: Mapping[Any, Any]) -> Any:
        """What a call computes."""
        name = call.op.name.removeprefix("relax.") if isinstance(call.op, tvm.ir.Op) else ""
        if name and name not in OPS:
            raise UnknownOpError(name)
        arguments = [self.value(argument, scope) for argument in call.args]
        if name:
            attrs = _attributes(call)
            return _stored(self.noise, OPS[name](self.noise, attrs, arguments), call.ty)
        if isinstance(call.op, tvm.ir.GlobalVar):
            callee = self.mod[call.op]
            assert isinstance(callee, relax.Function)
            return self.called(call.op, callee, arguments)
        return self.function(self.value(call.op, scope), arguments)

    def called(self, _name: tvm.ir.GlobalVar, func: relax.Function, arguments: Sequence[Any]) -> Any:
        """What a function of the module computes."""
        return self.function(func, arguments)


def _stored(noise: Noise, made: Any, ty: tvm.ir.Type) -> Any:
    """What an op makes, as its type holds it."""
    if isinstance(made, tuple):
        assert isinstance(ty, tvm.ir.TupleType)
        return tuple(_stored(noise, each, field) for each, field in zip(made, ty.fields, strict=True))
    dtype = str(getattr(ty, "dtype", None))
    return halved(noise, made, dtype) if dtype in HALVES and isinstance(made, Value) else made


def _leaf(expr: relax.Expr, scope: Mapping[Any, Any]) -> Any:
    if isinstance(expr, relax.Var):
        return scope[expr]
    if isinstance(expr, relax.Function):
        return expr
    if isinstance(expr, relax.ShapeExpr):
        return tuple(extent_value(each, scope) for each in expr.values)
    if isinstance(expr, tirx.IntImm | tirx.FloatImm):
        return expr.value
    if isinstance(expr, Arithmetic):
        return extent_value(expr, scope)
    raise UnknownOpError(str(type(expr)))


def _attributes(call: relax.Call) -> dict[str, Any]:
    attrs = attributes_of(call.attrs)
    ty = call.ty
    if isinstance(ty, relax.TensorType) and ty.dtype is not None:
        attrs["result_dtype"] = str(ty.dtype)
    return attrs


def bind_extents(ty: tvm.ir.Type, argument: Any, scope: dict[Any, Any]) -> None:
    """Give symbolic extents in the type of a parameter their values."""
    if isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
        shape = argument.clean.shape
        pairs = zip(ty.shape.values, shape, strict=True)
    elif isinstance(ty, relax.ShapeType) and ty.values is not None:
        pairs = zip(ty.values, argument, strict=True)
    else:
        return
    for extent, number in pairs:
        if isinstance(extent, tirx.Var):
            scope.setdefault(extent, int(number))


Arithmetic = tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod | tirx.Max | tirx.Min


def extent_value(expr: relax.Expr, scope: Mapping[Any, Any]) -> int:
    """An extent, where the symbols have the values in `scope`."""
    if isinstance(expr, tirx.IntImm):
        return int(expr)
    if expr in scope:
        return int(scope[expr])
    assert isinstance(expr, Arithmetic)
    left, right = extent_value(expr.a, scope), extent_value(expr.b, scope)
    return _ARITHMETIC[type(expr)](left, right)


_ARITHMETIC: dict[type[Arithmetic], Callable[[int, int], int]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.FloorDiv: lambda a, b: a // b,
    tirx.FloorMod: lambda a, b: a % b,
    tirx.Max: max,
    tirx.Min: min,
}
