"""Graphs of whole numbers and truth values of symbolic extents, and what numpy makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.sym import Analyzer

__all__ = ["evaluate"]


def evaluate(mod: tvm.IRModule, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """What ``main`` computes, by numpy alone; every shape that a type states is held against the array."""
    function = mod["main"]
    frame = _Frame()
    for param in function.params:
        frame.give(param, arrays[param.name])
    for block in function.body.blocks:
        for binding in block.bindings:
            frame.give(binding.var, frame.value(binding.value))
    result = frame.value(function.body.body)
    assert isinstance(result, np.ndarray)
    return result


class _Frame:
    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._analyzer = Analyzer()
        self._sizes: set[Any] = set()

    def give(self, variable: relax.Var, value: Any) -> None:
        self._values[variable] = value
        shape = variable.ty.shape if isinstance(variable.ty, relax.TensorType) else None
        if isinstance(shape, relax.ShapeExpr):
            assert str(variable.ty.dtype) == value.dtype.name, variable
            assert len(shape.values) == value.ndim, variable
            for extent, size in zip(shape.values, value.shape, strict=True):
                self._check(extent, size)

    def _check(self, extent: Any, size: int) -> None:
        if isinstance(extent, tvm.ir.Var) and extent not in self._sizes:
            self._sizes.add(extent)
            self._analyzer.bind(extent, tvm.tirx.IntImm("int64", size))
        assert self.number(extent) == size

    def number(self, expr: Any) -> int:
        return int(self._analyzer.simplify(expr))

    def value(self, expr: Any) -> Any:
        match expr:
            case tvm.ir.GenericConst():
                return expr.value.numpy()
            case relax.Tuple():
                return tuple(self.value(field) for field in expr.fields)
            case relax.ShapeExpr():
                return tuple(self.number(extent) for extent in expr.values)
            case relax.Call():
                arguments = [self.value(arg) for arg in expr.args]
                return np.asarray(OPS[expr.op.name](expr.attrs, *arguments))
            case _:
                return self._values[expr] if expr in self._values else self.number(expr)


def _slice(_attrs: Any, x: np.ndarray, axes: Sequence[int], *ranges: Sequence[int]) -> np.ndarray:
    begins, ends, *steps = ranges
    strides = steps[0] if steps else [1] * len(axes)
    selection = [slice(None)] * x.ndim
    for axis, begin, end, stride in zip(axes, begins, ends, strides, strict=True):
        selection[axis] = slice(begin, end, stride)
    return x[tuple(selection)]


def _cumsum(attrs: Any, x: np.ndarray) -> np.ndarray:
    dtype = x.dtype if attrs.dtype is None or str(attrs.dtype) in ("", "void") else str(attrs.dtype)
    return np.cumsum(x, int(attrs.axis), dtype=dtype)


def _divided(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda _attrs, x, y: function(x, y)


OPS: dict[str, Callable[..., Any]] = {
    "relax.arange": lambda a, start, stop, step: np.arange(start, stop, step, dtype=str(a.dtype)),
    "relax.full": lambda _a, shape, value: np.full(shape, value),
    "relax.expand_dims": lambda a, x: np.expand_dims(x, tuple(int(axis) for axis in a.axis)),
    "relax.squeeze": lambda a, x: np.squeeze(x, tuple(int(axis) for axis in a.axis)),
    "relax.reshape": lambda _a, x, shape: np.reshape(x, shape),
    "relax.broadcast_to": lambda _a, x, shape: np.broadcast_to(x, shape),
    "relax.permute_dims": lambda a, x: np.transpose(
        x, None if a.axes is None else tuple(int(axis) for axis in a.axes)
    ),
    "relax.concat": lambda a, parts: np.concatenate(parts, int(a.axis)),
    "relax.strided_slice": _slice,
    "relax.index_tensor": lambda _a, x, indices: x[indices],
    "relax.gather_elements": lambda a, x, indices: np.take_along_axis(x, indices, int(a.axis)),
    "relax.take": lambda a, x, indices: np.take(x, indices, None if a.axis is None else int(a.axis)),
    "relax.flip": lambda a, x: np.flip(x, int(a.axis)),
    "relax.tril": lambda _a, x, k: np.tril(x, k),
    "relax.triu": lambda _a, x, k: np.triu(x, k),
    "relax.astype": lambda a, x: x.astype(str(a.dtype)),
    "relax.cumsum": _cumsum,
    "relax.where": lambda _a, c, x, y: np.where(c, x, y),
    "relax.negative": lambda _a, x: np.negative(x),
    **{
        f"relax.{name}": _divided(getattr(np, name))
        for name in (
            "add",
            "subtract",
            "multiply",
            "maximum",
            "minimum",
            "floor_divide",
            "equal",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
        )
    },
    "relax.floor_mod": lambda _a, x, y: np.mod(x, y),
    "relax.logical_not": lambda _a, x: np.logical_not(x),
    "relax.bitwise_not": lambda _a, x: np.invert(x),
}
