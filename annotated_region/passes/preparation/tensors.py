"""Constants and shapes as Python values, and back."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from annotated_region.arrays import NUMPY_DTYPES
from annotated_region.layouts.layout import Extent
from annotated_region.tvm_adapter.nodes import Constant

__all__ = [
    "FLOATS",
    "constant_of",
    "dtype_of",
    "extents_of",
    "integers_of",
    "product_of",
    "rounded_once",
    "static_shape",
]

FLOATS = frozenset(["float16", "bfloat16", "float32", "float64"])


def constant_of(array: np.ndarray) -> Constant:
    """A Relax constant with the content of `array`, which may be a view of any strides."""
    if array.dtype.name not in NUMPY_DTYPES:
        return relax.const(np.ascontiguousarray(array).reshape(array.shape))
    tensor = tvm.runtime.empty(array.shape, array.dtype.name)
    np.from_dlpack(tensor)[...] = array  # written in place: the weights of VGG-19 are half a gigabyte
    return relax.const(tensor)


def product_of(array: np.ndarray, factors: np.ndarray) -> Constant | None:
    """A Relax constant with the products of `array` and factors that are broadcast to its shape.

    Each is computed in float32, or in the wider type of `array`, and rounded to the dtype of `array`. None if
    one is not finite.
    """
    precision = np.promote_types(array.dtype, np.float32)
    wide = factors.astype(precision)
    with np.errstate(all="ignore"):
        if array.dtype != precision or array.dtype.name not in NUMPY_DTYPES:
            rounded = (array.astype(precision) * wide).astype(array.dtype)
            return constant_of(rounded) if np.isfinite(rounded).all() else None
        tensor = tvm.runtime.empty(array.shape, array.dtype.name)
        products = np.multiply(array, wide, out=np.from_dlpack(tensor))  # in place, as in `constant_of`
    return relax.const(tensor) if np.isfinite(products).all() else None


def rounded_once(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`array` in another dtype, each element rounded to nearest exactly once.

    float64 is converted to bfloat16 through float32. Rounding to nearest in both steps could create or break
    a tie between two bfloat16 numbers (double rounding). The first step therefore rounds to odd: an inexact
    result gets its last bit set, so it can never be a tie and stays on its side of one (Boldo and Melquiond
    2008, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd").
    """
    with np.errstate(all="ignore"):
        if array.dtype != np.float64 or dtype.name != "bfloat16":
            return array.astype(dtype, copy=False)
        near = array.astype(np.float32)
        inward = np.where(np.abs(near) > np.abs(array), np.nextafter(near, np.float32(0)), near)
        is_inexact = np.isfinite(inward) & (inward != array)
    bits = inward.astype(np.float32).view(np.uint32) | is_inexact.astype(np.uint32)
    rounded: np.ndarray = bits.view(np.float32).astype(dtype)
    return rounded


def dtype_of(type_: tvm.ir.Type) -> str | None:
    """The name of a tensor's dtype; None if the type is not a tensor or has no dtype."""
    dtype = type_.dtype if isinstance(type_, relax.TensorType) else None
    return None if dtype is None else str(dtype)


def static_shape(type_: tvm.ir.Type) -> tuple[int, ...] | None:
    """The shape of a tensor type if it is static, else None."""
    shape = type_.shape if isinstance(type_, relax.TensorType) else None
    return integers_of(shape) if isinstance(shape, relax.ShapeExpr) else None


def integers_of(shape: relax.ShapeExpr) -> tuple[int, ...] | None:
    """The extents of a shape if all are static, else None."""
    extents = shape.values[:]
    values = tuple(int(value) for value in extents if isinstance(value, tvm.tirx.IntImm))
    return values if len(values) == len(extents) else None


def extents_of(expr: relax.Expr) -> tuple[Extent, ...]:
    """The extents of a tensor, static ones as int, symbolic ones as expressions; empty if unknown."""
    shape = expr.ty.shape if isinstance(expr.ty, relax.TensorType) else None
    if not isinstance(shape, relax.ShapeExpr):
        return ()
    return tuple(int(extent) if isinstance(extent, tvm.tirx.IntImm) else extent for extent in shape.values)
