"""Runs generated Relax functions with numpy: what they mean, told without TVM's compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from annotated_region.testing.strategies import IDENTITY

__all__ = ["flat", "inputs_of", "run"]

_OPS: dict[str, Callable[..., Any]] = {
    "relax.nn.relu": lambda call, x: np.maximum(x, 0),
    "relax.tanh": lambda call, x: np.tanh(x),
    "relax.negative": lambda call, x: -x,
    "relax.exp": lambda call, x: np.exp(x),
    "relax.sigmoid": lambda call, x: 1 / (1 + np.exp(-x)),
    "relax.add": lambda call, x, y: x + y,
    "relax.subtract": lambda call, x, y: x - y,
    "relax.multiply": lambda call, x, y: x * y,
    "relax.maximum": lambda call, x, y: np.maximum(x, y),
    "relax.concat": lambda call, parts: np.concatenate(parts, axis=1),
    "relax.split": lambda call, x: tuple(np.split(x, 2, axis=1)),
    "relax.zeros": lambda call, shape: np.zeros(shape, "float32"),
    "relax.zeros_like": lambda call, x: np.zeros_like(x),
    "relax.reshape": lambda call, x, shape: x.reshape(shape),
    "relax.sum": lambda call, x: x.sum(),
    "relax.less": lambda call, x, y: np.asarray(x < y),
    "relax.logical_not": lambda call, x: np.logical_not(x),
    "relax.bitwise_not": lambda call, x: np.invert(x),
    "relax.assert_op": lambda call, condition, value, text: (),
    "relax.call_pure_packed": lambda call, callee, value: callee(value),
    "relax.annotation.compiler_begin": lambda call, x: x,
    "relax.annotation.compiler_end": lambda call, x: x,
}


def inputs_of(func: relax.Function, seed: int = 0, rows: int = 2, flag: bool = True) -> list[Any]:
    """Arguments for a generated function."""
    rng = np.random.default_rng(seed)

    def value(ty: tvm.ir.Type) -> Any:
        if isinstance(ty, tvm.ir.TupleType):
            return tuple(value(part) for part in ty.fields)
        if str(ty.dtype) == "bool":
            return np.asarray(flag)
        return rng.standard_normal((rows, int(ty.shape.values[1]))).astype("float32")

    return [value(param.ty) for param in func.params]


def flat(value: Any) -> list[np.ndarray]:
    """The arrays in a result, in order."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [np.asarray(value)]


def run(func: relax.Function, arguments: Sequence[Any]) -> Any:
    """What `func` computes: arrays, and tuples of them."""
    return _Frame({}, {}).call(func, arguments)


class _Frame:
    def __init__(self, values: dict[Any, Any], extents: dict[Any, int]) -> None:
        self.values = values
        self.extents = extents

    def call(self, func: relax.Function, arguments: Sequence[Any]) -> Any:
        inner = _Frame(dict(self.values), dict(self.extents))
        for param, argument in zip(func.params, arguments, strict=True):
            inner.bind(param, argument, param.ty)
        return inner.body(func.body)

    def bind(self, var: relax.Var, value: Any, ty: tvm.ir.Type) -> None:
        """Give `var` a value; shape variables in its type that are not known yet get theirs."""
        self.values[var] = value
        if not isinstance(ty, relax.TensorType) or ty.shape is None:
            return
        for extent, size in zip(ty.shape.values, value.shape, strict=True):
            known = self.extents.setdefault(extent, size) if isinstance(extent, tvm.ir.Var) else int(extent)
            assert known == size

    def body(self, body: relax.SeqExpr) -> Any:
        for block in body.blocks:
            for binding in block.bindings:
                cast = binding.ty if isinstance(binding, relax.MatchCast) else None
                self.bind(binding.var, self.value(binding.value), cast)
        return self.value(body.body)

    def value(self, expr: relax.Expr) -> Any:
        for kind, evaluate in _EXPRESSIONS:
            if isinstance(expr, kind):
                return evaluate(self, expr)
        raise NotImplementedError(type(expr))

    def extent(self, extent: Any) -> int:
        return self.extents[extent] if isinstance(extent, tvm.ir.Var) else int(extent)

    def conditional(self, expr: relax.If) -> Any:
        branch = expr.true_branch if self.value(expr.cond) else expr.false_branch
        return _Frame(dict(self.values), dict(self.extents)).body(branch)

    def external(self, callee: relax.ExternFunc) -> Callable[[Any], Any]:
        assert callee.global_symbol == IDENTITY
        return lambda value: value

    def apply(self, call: relax.Call) -> Any:
        arguments = [self.value(argument) for argument in call.args]
        if isinstance(call.op, tvm.ir.Op):
            return _OPS[call.op.name](call, *arguments)
        return self.value(call.op)(*arguments)


_EXPRESSIONS: tuple[tuple[Any, Callable[[_Frame, Any], Any]], ...] = (
    (tvm.ir.Var, lambda frame, expr: frame.values[expr]),
    (tvm.ir.GenericConst, lambda frame, expr: expr.value.numpy()),
    (tvm.ir.Call, _Frame.apply),
    (relax.Tuple, lambda frame, expr: tuple(frame.value(part) for part in expr.fields)),
    (tvm.ir.TupleGetItem, lambda frame, expr: frame.value(expr.tuple_value)[expr.index]),
    (relax.ShapeExpr, lambda frame, expr: tuple(frame.extent(extent) for extent in expr.values)),
    (relax.If, _Frame.conditional),
    (relax.Function, lambda frame, expr: lambda *arguments: frame.call(expr, arguments)),
    (relax.ExternFunc, _Frame.external),
    (tvm.ir.StringImm, lambda frame, expr: expr.value),
)
