"""Recognizes norms that an exporter or importer decomposed, and replaces their parts by the op.

With ``m = mean(x, keepdims=True)``, ``v = mean((x - m)^2)`` or ``variance(x)``, a positive number ``e``, and
a scale of ones and a shift of zeros, which ``join_norms`` replaces later::

    x / sqrt(mean(x^2) + e)                =>   rms_norm(x)
    (x - m) / sqrt(v + e)                  =>   layer_norm(x)              over the last axis
    (x - m) / sqrt(v + e)                  =>   instance_norm(x)           over all axes from 2 on
    (y - m) / sqrt(v + e)                  =>   reshape(group_norm(x))     y = reshape(x, (N, groups, -1))

1.  The quotient may be a product with ``rsqrt(.)``, ``1 / sqrt(.)`` or ``power(., -0.5)``, the square may be
    ``x * x``, ``square(x)`` or ``power(x, 2)``.
2.  A group norm is a norm over the last axis of a reshaped tensor whose second axis is shorter than that of
    the original tensor; its reshape cancels with the following one, which restores the shape.
3.  Values between ``x`` and the quotient have no other readers, and the quotient has the type of ``x``, so
    nothing is computed twice, and nothing is broadcast beyond the definition.

4.  A mean of up to 8192 float32 numbers that is computed in float64 and rounded back, as ``jax2onnx`` writes
    that of squares, counts as one in float32: sums of so many squares, one after the other, erred by 4e-6
    at most in 300 rows, of which the root takes half.

Float32 only: TVM computes these ops in single precision. For float16 that would change results, because the
squares of the decomposed form overflow; for float64 it would lose half of the digits. The extents that
determine the shapes of scale and shift must be static.
"""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np
import tvm_ffi
from tvm import relax

from annotated_region.layouts.layout import Extent
from annotated_region.passes.preparation.compositions import Parts, dtype_among
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import constant_of, extents_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["REWRITES"]

LONGEST_DOUBLE_ROW = 1 << 13  # of case 4
LONGEST_ROW = 1 << 16  # elements of a scale of ones that is created; more than layer norms of models have


def recognize_norm(view: OpView, editor: Editor) -> relax.Expr | None:
    """The norm that a quotient computes."""
    orders = [view.args] if view.name == "relax.divide" else [view.args, view.args[::-1]]
    for data, root in orders:
        if dtype_among(data, ("float32",)) and tvm_ffi.structural_equal(data.ty, view.out_type):
            found = _norm(view, data, root, editor)
            if found is not None:
                return found
    return None


def _norm(view: OpView, data: relax.Expr, root: relax.Expr, editor: Editor) -> relax.Expr | None:
    parts = Parts(view, editor)
    total = _under_the_root(root, parts, divides=view.name == "relax.divide")
    if total is None:
        return None
    moment, scale, epsilon = parts.scaled(total)
    mean, values = _mean(moment, parts, "relax.mean", "relax.variance")
    if (
        mean is None
        or scale != 1.0
        or epsilon <= 0.0
        or not mean.attrs["keepdims"]
        or mean.attrs["axis"] is None
    ):
        return None
    rank = tensor_type(data).ndim
    axes = tuple(sorted({axis % rank for axis in mean.attrs["axis"]}))
    # A layer norm is the RMS norm of the centred tensor, so the more specific layer norm is tried first.
    centred = parts.copy()
    source = _centred(data, mean, values, axes, centred)
    if source is not None:
        return _normalized(source, axes, epsilon, centred)
    if mean.name == "relax.mean" and _is_square(values, data, parts):
        return _rms_norm(data, axes, epsilon, parts)
    return None


def _mean(expr: relax.Expr, parts: Parts, *names: str) -> tuple[OpView | None, relax.Expr]:
    """The mean or variance that `expr` is, and of what: of float32, also where it is computed in float64."""
    narrowed = parts.own(expr, "relax.astype")
    view = parts.own(expr if narrowed is None else narrowed.args[0], *names)
    if view is None or narrowed is None:
        return view, expr if view is None else view.args[0]
    widened = parts.own(view.args[0], "relax.astype")
    is_double = dtype_among(narrowed.args[0], ("float64",)) and dtype_among(expr, ("float32",))
    if widened is None or not is_double or not dtype_among(widened.args[0], ("float32",)):
        return None, expr
    extents = extents_of(widened.args[0])
    averaged = [
        extents[axis] for axis in (range(len(extents)) if view.attrs["axis"] is None else view.attrs["axis"])
    ]
    known = [extent for extent in averaged if isinstance(extent, int)]
    is_short = len(known) == len(averaged) and math.prod(known) <= LONGEST_DOUBLE_ROW
    return (view, widened.args[0]) if is_short else (None, expr)


def _under_the_root(root: relax.Expr, parts: Parts, *, divides: bool) -> relax.Expr | None:
    """The argument of the square root that a tensor is divided by."""
    if not divides:
        inverse = parts.own(root, "relax.divide", "relax.rsqrt", "relax.power")
        if inverse is None or inverse.name != "relax.divide":
            return None if inverse is None else _argument(inverse, -0.5, parts)
        if parts.number(inverse.args[0]) != 1.0:
            return None
        root = inverse.args[1]
    power = parts.own(root, "relax.sqrt", "relax.power")
    return None if power is None else _argument(power, 0.5, parts)


def _argument(power: OpView, exponent: float, parts: Parts) -> relax.Expr | None:
    given = parts.number(power.args[1]) if power.name == "relax.power" else exponent
    return power.args[0] if given == exponent else None


def _is_square(expr: relax.Expr, data: relax.Expr, parts: Parts) -> bool:
    """Whether `expr` is the square of `data` and has a single reader."""
    square = parts.own(expr, "relax.multiply", "relax.square", "relax.power")
    if square is None or not parts.is_same(square.args[0], data):
        return False
    if square.name == "relax.multiply":
        return parts.is_same(square.args[1], data)
    return square.name == "relax.square" or parts.number(square.args[1]) == 2.0


def _rms_norm(data: relax.Expr, axes: tuple[int, ...], epsilon: float, parts: Parts) -> relax.Expr | None:
    extents = extents_of(data)
    if axes != (len(extents) - 1,) or not _is_row(extents[-1]):
        return None
    ones = constant_of(np.ones(extents[-1], "float32"))
    return parts.raised(relax.op.nn.rms_norm(data, ones, [-1], epsilon))


def _centred(
    data: relax.Expr, moment: OpView, values: relax.Expr, axes: tuple[int, ...], parts: Parts
) -> relax.Expr | None:
    """The tensor with centred values `data` and variance `moment`, which is one of `values`, or None."""
    by_parts = moment.name == "relax.mean"
    square = parts.editor.view_of(values) if by_parts else None
    reads = 1 if not by_parts else 3 if square is not None and square.name == "relax.multiply" else 2
    centre = parts.own(data, "relax.subtract", reads=reads)
    if centre is None or not tvm_ffi.structural_equal(centre.args[0].ty, data.ty):
        return None
    source = centre.args[0]
    mean, averaged = _mean(centre.args[1], parts, "relax.mean")
    if mean is None or not mean.attrs["keepdims"] or not parts.is_same(averaged, source):
        return None
    if tuple(sorted({axis % tensor_type(data).ndim for axis in mean.attrs["axis"] or ()})) != axes:
        return None
    fits = _is_square(values, data, parts) if by_parts else parts.is_same(values, source)
    return source if fits else None


def _normalized(data: relax.Expr, axes: tuple[int, ...], epsilon: float, parts: Parts) -> relax.Expr | None:
    """The norm over these axes that subtracts the mean, with a scale of ones and a shift of zeros."""
    extents, last = extents_of(data), tensor_type(data).ndim - 1
    if axes == (last,):
        grouped = _group_norm(data, extents, epsilon, parts) if last == 2 else None
        width = extents[last]
        if grouped is not None or not _is_row(width):
            return grouped
        return parts.raised(relax.op.nn.layer_norm(data, *_affine(width), [-1], epsilon))
    if len(axes) < 2 or axes != tuple(range(2, last + 1)) or not _is_row(extents[1]):
        return None
    return parts.raised(relax.op.nn.instance_norm(data, *_affine(extents[1]), 1, list(axes), epsilon))


def _group_norm(
    rows: relax.Expr, extents: tuple[Extent, ...], epsilon: float, parts: Parts
) -> relax.Expr | None:
    """Case 2."""
    reshape = parts.editor.view_of(rows)
    if reshape is None or reshape.name != "relax.reshape":
        return None
    data = reshape.args[0]
    whole = extents_of(data)
    if len(whole) < 3 or not tvm_ffi.structural_equal(whole[0], extents[0]):
        return None
    channels, groups = whole[1], extents[1]
    if not _is_row(channels) or not isinstance(groups, int) or groups >= channels or channels % groups:
        return None
    axes = list(range(2, len(whole)))
    norm = parts.raised(relax.op.nn.group_norm(data, *_affine(channels), groups, 1, axes, epsilon))
    if norm is None:
        return None
    return relax.op.reshape(parts.editor.emit(norm, "normalized"), tensor_type(rows).shape)


def _is_row(extent: Extent) -> TypeGuard[int]:
    return isinstance(extent, int) and 0 < extent <= LONGEST_ROW


def _affine(size: int) -> tuple[relax.Expr, relax.Expr]:
    return constant_of(np.ones(size, "float32")), constant_of(np.zeros(size, "float32"))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.multiply", "relax.divide"), recognize_norm),
]
