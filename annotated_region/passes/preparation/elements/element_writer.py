"""Emits Relax calls that compute an expression in indices: the inverse of `element_reader`.

::

    j <= i     over (n, m)    =>    less_equal(reshape(arange(0, m), (1, m)), reshape(arange(0, n), (n, 1)))
    seen[i, j] over (n, 1, m) =>    reshape(seen, (n, 1, m))
    true       over (n, m)    =>    full((n, m), true)

An operand has extent 1 on each axis that it does not depend on, and is broadcast implicitly by its user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.sym import detect_linear_equation

from annotated_region.passes.preparation.affine import ARITHMETIC
from annotated_region.passes.preparation.elements.element_reader import (
    ElementReader,
    Load,
    is_number,
    is_one,
    occurrences,
    sides,
    whole,
)
from annotated_region.passes.preparation.fold_constants import FREE_ELEMENTS
from annotated_region.passes.preparation.tensors import constant_of, dtype_of, integers_of
from annotated_region.tvm_adapter.nodes import PrimExpr
from annotated_region.tvm_adapter.types import expect

__all__ = ["ElementWriter", "least_weight", "weight_of"]

_BINARY: dict[type[PrimExpr], Callable[..., relax.Expr]] = {
    tirx.Add: relax.op.add,
    tirx.Sub: relax.op.subtract,
    tirx.Mul: relax.op.multiply,
    tirx.Min: relax.op.minimum,
    tirx.Max: relax.op.maximum,
    tirx.FloorDiv: relax.op.floor_divide,
    tirx.FloorMod: relax.op.floor_mod,
}
_COMPARISONS: dict[type[PrimExpr], Callable[..., relax.Expr]] = {
    tirx.EQ: relax.op.equal,
    tirx.NE: relax.op.not_equal,
    tirx.LT: relax.op.less,
    tirx.LE: relax.op.less_equal,
    tirx.GT: relax.op.greater,
    tirx.GE: relax.op.greater_equal,
}
HEAVY = (*ARITHMETIC, "relax.subtract", "relax.where", "relax.maximum", "relax.minimum")
_CONNECTIVES: dict[type[PrimExpr], Callable[..., relax.Expr]] = {
    tirx.And: relax.op.logical_and,
    tirx.Or: relax.op.logical_or,
}


class ElementWriter:
    """Translates expressions in the index variables of one reader to nested Relax calls."""

    def __init__(self, reader: ElementReader) -> None:
        self._reader = reader
        self._loads = {load.unknown.name: load for load in reader.loads}

    def whole_tensor(self, expr: PrimExpr, dtype: str) -> relax.Expr | None:
        """The tensor with these elements, in the full shape of the reader's tensor."""
        shape = relax.ShapeExpr(self._reader.extents)
        number = _number(expr)
        if number is not None:
            return _filled(shape, number, dtype)
        written = self.tensor(expr, dtype)
        if written is None:
            return None
        depends = self._places_in(expr)
        is_whole_shape = all(
            is_one(extent) or axis in depends for axis, extent in enumerate(self._reader.extents)
        )
        return written if is_whole_shape else relax.op.broadcast_to(written, shape)

    def tensor(self, expr: PrimExpr, dtype: str) -> relax.Expr | None:
        """A tensor that broadcasts to these elements; None if the expression has no operation in Relax."""
        number = _number(expr)
        if number is not None:
            return relax.const(np.asarray(number, dtype), dtype)
        if isinstance(expr, tirx.Var) and expr.name in self._loads:
            return self._converted(self._loaded(self._loads[expr.name]), self._dtype_of_load(expr), dtype)
        if dtype == "bool":
            return self._truth(expr)
        counted = self._counted(expr, dtype)
        return self._computed(expr, dtype) if counted is None else counted

    def _converted(self, tensor: relax.Expr | None, own: str | None, dtype: str) -> relax.Expr | None:
        return tensor if tensor is None or own == dtype else relax.op.astype(tensor, dtype)

    def _truth(self, expr: PrimExpr) -> relax.Expr | None:
        kind = type(expr)
        if isinstance(expr, tirx.Not):
            return _call(relax.op.logical_not, [self.tensor(expr.a, "bool")])
        if kind in _CONNECTIVES:
            return self._binary(_CONNECTIVES[kind], expr, "bool")
        if kind not in _COMPARISONS:
            return None
        return self._binary(_COMPARISONS[kind], expr, self._common_dtype(sides(expr)))

    def _computed(self, expr: PrimExpr, dtype: str) -> relax.Expr | None:
        if dtype != "int64":  # intermediate values may need more bits than the result
            return self._converted(self.tensor(expr, "int64"), "int64", dtype)
        if isinstance(expr, tirx.Cast) and str(expr.value.ty) == "bool":
            truth = self.tensor(expr.value, "bool")
            return None if truth is None else relax.op.astype(truth, dtype)
        if isinstance(expr, tirx.Select):
            parts = [self.tensor(expr.condition, "bool")]
            parts += [self.tensor(each, dtype) for each in (expr.true_value, expr.false_value)]
            return _call(relax.op.where, parts)
        return self._binary(_BINARY[type(expr)], expr, dtype) if type(expr) in _BINARY else None

    def _binary(self, op: Callable[..., relax.Expr], expr: PrimExpr, dtype: str) -> relax.Expr | None:
        return _call(op, [self.tensor(each, dtype) for each in sides(expr)])

    def _common_dtype(self, sides: Sequence[PrimExpr]) -> str:
        """The dtype of a comparison: int64, unless both sides are loads of one dtype or literals."""
        found = {self._dtype_of_load(side) for side in sides if _number(side) is None}
        return found.pop() or "int64" if len(found) == 1 else "int64"

    def _dtype_of_load(self, expr: PrimExpr) -> str | None:
        load = self._loads.get(expr.name) if isinstance(expr, tirx.Var) else None
        return None if load is None else dtype_of(load.tensor.ty)

    def _counted(self, expr: PrimExpr, dtype: str) -> relax.Expr | None:
        """An ``arange``, if the expression is linear in the index of a single axis."""
        axes = self._places_in(expr)
        if len(axes) != 1 or any(_reads(expr, load.unknown) for load in self._loads.values()):
            return None
        (axis,) = axes
        found = detect_linear_equation(expr, [self._reader.places[axis]])
        if len(found) != 2 or not isinstance(found[0], tirx.IntImm) or found[0].value < 1:
            return None  # TVM 0.27 infers too many elements for steps below zero to symbolic bounds
        step, start = found
        extent = self._reader.extents[axis]
        stop = self._reader.simplified(tirx.Add(start, tirx.Mul(step, extent)))
        return self._on_axes(relax.op.arange(start, stop, step, dtype), [extent], [axis])

    def _loaded(self, load: Load) -> relax.Expr | None:
        """A loaded tensor, with its axes permuted and reshaped to those of the result."""
        axes: list[int] = []
        kept: list[int] = []
        extents = self._reader.shape(load.tensor)
        if extents is None:
            return None
        for position, (place, extent) in enumerate(zip(load.index, extents, strict=True)):
            if is_number(place, 0) and is_one(extent):
                continue
            axis = next((n for n, each in enumerate(self._reader.places) if each.same_as(place)), None)
            if axis is None or axis in axes or not self._reader.are_equal(extent, self._reader.extents[axis]):
                return None
            axes.append(axis)
            kept.append(position)
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order == sorted(order):
            return self._on_axes(load.tensor, extents, axes)
        rest = [position for position in range(len(extents)) if position not in kept]
        positions = [*(kept[n] for n in order), *rest]
        permuted = relax.op.permute_dims(load.tensor, positions)
        return self._on_axes(permuted, [extents[position] for position in positions], axes)

    def _on_axes(self, tensor: relax.Expr, own: Sequence[PrimExpr], axes: Sequence[int]) -> relax.Expr:
        """`tensor` of shape `own`, reshaped so that its axes are `axes` of the result, and the others 1."""
        extents = [extent if axis in axes else whole(1) for axis, extent in enumerate(self._reader.extents)]
        same = len(own) == len(extents) and all(map(tvm_ffi.structural_equal, own, extents))
        return tensor if same else relax.op.reshape(tensor, relax.ShapeExpr(extents))

    def _places_in(self, expr: PrimExpr) -> list[int]:
        """The axes that an expression depends on, directly or through the indices of its loads."""
        direct = [axis for axis, place in enumerate(self._reader.places) if _reads(expr, place)]
        loads = [load for load in self._loads.values() if _reads(expr, load.unknown)]
        through = [
            axis
            for axis, place in enumerate(self._reader.places)
            if any(each.same_as(place) for load in loads for each in load.index)
        ]
        return sorted({*direct, *through})


def weight_of(expr: relax.Expr) -> int:
    """An upper bound on the weight of nested calls, without the tensors that they read; see `weight`."""
    if not isinstance(expr, relax.Call):
        return 0
    own = 6 if expect(tvm.ir.Op, expr.op).name in HEAVY else 3
    return own + sum(weight_of(arg) for arg in expr.args)


def least_weight(name: str) -> int:
    """A lower bound on the weight that one call of an op adds; see `weight`."""
    return 6 if name == "relax.index_tensor" else 3


def _call(op: Callable[..., relax.Expr], args: Sequence[relax.Expr | None]) -> relax.Expr | None:
    known = [arg for arg in args if arg is not None]
    return op(*known) if len(known) == len(args) else None


def _number(expr: PrimExpr) -> int | None:
    return int(expr.value) if isinstance(expr, tirx.IntImm) else None


def _filled(shape: relax.ShapeExpr, number: int, dtype: str) -> relax.Expr:
    known = integers_of(shape)
    if known is not None and prod(known) <= FREE_ELEMENTS:
        return constant_of(np.full(known, number, dtype))
    return relax.op.full(shape, relax.const(np.asarray(number, dtype), dtype), dtype)


def _reads(expr: PrimExpr, variable: tirx.Var) -> bool:
    return occurrences(expr)[variable] > 0
