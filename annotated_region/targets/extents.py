"""Estimated extents and bytes of Relax types; an extent known only at run time counts as a fixed number."""

from __future__ import annotations

import math

import tvm
from tvm import relax

__all__ = ["UNKNOWN_EXTENT", "extents", "size_of"]

UNKNOWN_EXTENT = 16
"""The assumed value of an extent that is known only at run time."""


def extents(ty: tvm.ir.Type) -> list[int]:
    """The shape of a tensor type; extents known only at run time count as `UNKNOWN_EXTENT`."""
    if not isinstance(ty, relax.TensorType) or ty.shape is None or not hasattr(ty.shape, "values"):
        return []
    return [
        int(extent) if isinstance(extent, tvm.tirx.IntImm) else UNKNOWN_EXTENT for extent in ty.shape.values
    ]


def size_of(ty: tvm.ir.Type) -> int:
    """The bytes of a value of a tensor or tuple type; 0 for any other type."""
    if isinstance(ty, tvm.ir.TupleType):
        return sum(size_of(part) for part in ty.fields)
    if not isinstance(ty, relax.TensorType) or ty.dtype is None:
        return 0
    return (math.prod(extents(ty)) * int(tvm.DataType(str(ty.dtype)).bits) + 7) // 8
