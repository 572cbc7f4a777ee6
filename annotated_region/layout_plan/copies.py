"""Gives a tensor another storage: as few reshapes and transposes as it takes, or none for constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import tvm
from tvm import relax

from annotated_region.layout_plan.views import Root, Storage, extents_of, same_extent
from annotated_region.layouts.layout import Piece, cuts

__all__ = ["Conversion", "converted", "converted_constant", "reshaped", "same_shape"]

Emit = Callable[[relax.Expr], relax.Var]
"""Binds an expression to a new variable."""


class Conversion:
    """The way from one storage of a root to another: reshape, transpose, reshape.

    Pieces are cut where those of the other storage are cut, so that both are orders of the same parts:

        (N) (C: 4..) (H) (W) (C: ..4)   from blocks of 4
        (N) (C: 16..) (H) (W) (C: ..16)     to blocks of 16    parts C: 16.., 4..16, ..4

    Attributes
    ----------
    parts
        The shape of the parts in the old order.
    axes
        The new order of the parts.
    """

    def __init__(self, root: Root, old: Storage, new: Storage) -> None:
        weights = {
            axis: sorted({*cuts(old).get(axis, ()), *cuts(new).get(axis, ())}) for axis in cuts((*old, *new))
        }
        before, after = (
            [part for piece in storage for part in _parts(piece, weights[piece.axis])]
            for storage in (old, new)
        )
        self.parts = tuple(_extent(part, root.extents[part.axis]) for part in before)
        self.axes = tuple(before.index(part) for part in after)

    @property
    def is_trivial(self) -> bool:
        """Whether nothing moves."""
        return self.axes == tuple(range(len(self.axes)))


def converted(expr: relax.Expr, conversion: Conversion, shape: Sequence[Any], emit: Emit) -> relax.Expr:
    """`expr` in another storage and shape; what it takes before the last step is emitted."""
    if conversion.is_trivial:
        return reshaped(expr, shape)
    parts = reshaped(expr, conversion.parts)
    moved = relax.op.permute_dims(parts if parts.same_as(expr) else emit(parts), list(conversion.axes))
    ordered = [conversion.parts[axis] for axis in conversion.axes]
    return moved if same_shape(ordered, shape) else reshaped(emit(moved), shape)


def reshaped(expr: relax.Expr, shape: Sequence[Any]) -> relax.Expr:
    """`expr` in another shape; `expr` itself if it has that shape."""
    if same_shape(extents_of(expr.ty), shape):
        return expr
    return relax.op.reshape(expr, relax.ShapeExpr(list(shape)))


def converted_constant(
    constant: tvm.ir.GenericConst, conversion: Conversion, shape: Sequence[Any]
) -> tvm.ir.GenericConst:
    """A constant in another storage and shape."""
    value = constant.value.numpy()
    moved = value.reshape(conversion.parts).transpose(conversion.axes).reshape(shape)
    return relax.const(np.ascontiguousarray(moved), constant.ty.dtype)


def same_shape(one: Sequence[Any] | None, other: Sequence[Any]) -> bool:
    """Whether two shapes are known and the same."""
    return one is not None and len(one) == len(other) and all(map(same_extent, one, other))


def _parts(piece: Piece, weights: Sequence[int]) -> list[Piece]:
    """The piece cut at all weights inside it, the highest digits first."""
    inside = [w for w in weights if w >= piece.low and (piece.high is None or w < piece.high)]
    return [Piece(piece.axis, low, high) for low, high in pairwise([*inside, piece.high]) if low][::-1]


def _extent(piece: Piece, extent: Any) -> Any:
    if piece.is_whole:
        return extent
    return extent // piece.low if piece.high is None else piece.high // piece.low
