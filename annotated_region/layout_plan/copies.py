"""Converts tensors between storages with the fewest reshapes and transposes, constants at compile time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from annotated_region.layout_plan.views import Root, Storage, TensorView, extents_of, same_extent
from annotated_region.layouts.layout import Extent, split
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["Conversion", "conversions", "converted", "converted_constant", "same_shape"]

Emit = Callable[[relax.Expr], relax.Var]
"""Binds an expression to a new variable."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion between two storages of a root: reshape, transpose, reshape.

    The pieces of both storages are split at each other's boundaries, so that both are orders of the same
    parts:

        (N) (C: 4..) (H) (W) (C: ..4)       from blocks of 4
        (N) (C: 16..) (H) (W) (C: ..16)     to blocks of 16        parts C: 16.., 4..16, ..4

    Attributes
    ----------
    parts
        The extents of the parts in the old order.
    axes
        The new order of the parts.
    """

    parts: tuple[Extent, ...]
    axes: tuple[int, ...]

    @property
    def is_trivial(self) -> bool:
        """Whether it is the identity."""
        return self.axes == tuple(range(len(self.axes)))


def conversions(root: Root, old: Storage, new: Storage) -> list[Conversion]:
    """The steps from one storage to another: one, or two via the plain storage if boundaries do not nest."""
    parts_of = split((*old, *new))
    if parts_of is None:
        plain = TensorView.of(root).storage()
        return conversions(root, old, plain) + conversions(root, plain, new)
    before, after = ([part for piece in storage for part in parts_of(piece)] for storage in (old, new))
    return [Conversion(tuple(map(root.extent, before)), tuple(map(before.index, after)))]


def converted(
    expr: relax.Expr, steps: Sequence[Conversion], shape: Sequence[Extent], emit: Emit
) -> relax.Expr:
    """`expr` converted to another storage and shape; operations before the last one are emitted."""
    now: Sequence[Extent] | None = None
    for step in steps:
        if not step.is_trivial:
            parts = _bound(reshaped(_bound(expr, emit), step.parts), emit)
            expr = relax.op.permute_dims(parts, list(step.axes))
            now = [step.parts[axis] for axis in step.axes]
    return expr if same_shape(now, shape) else reshaped(_bound(expr, emit), shape)


def reshaped(expr: relax.Expr, shape: Sequence[Extent]) -> relax.Expr:
    """`expr` reshaped; `expr` itself if it has that shape."""
    if same_shape(extents_of(expr.ty), shape):
        return expr
    return relax.op.reshape(expr, relax.ShapeExpr(list(shape)))


def converted_constant(constant: Constant, steps: Sequence[Conversion], shape: Sequence[Extent]) -> Constant:
    """A constant converted to another storage and shape."""
    value = constant.value.numpy()
    for step in steps:
        value = value.reshape(_numbers(step.parts)).transpose(step.axes)
    return relax.const(tvm.runtime.tensor(np.ascontiguousarray(value.reshape(_numbers(shape)))))


def _numbers(extents: Sequence[Extent]) -> tuple[int, ...]:
    """The extents of a constant, which are never symbolic."""
    return tuple(expect(int, extent) for extent in extents)


def _bound(expr: relax.Expr, emit: Emit) -> relax.Expr:
    return emit(expr) if isinstance(expr, relax.Call) else expr


def same_shape(one: Sequence[Extent] | None, other: Sequence[Extent]) -> bool:
    """Whether two shapes are known and equal."""
    return one is not None and len(one) == len(other) and all(map(same_extent, one, other))
