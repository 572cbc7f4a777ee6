"""Estimated extents and bytes of Relax types: what is known only at run time counts as some number."""

from __future__ import annotations

import math

import tvm
from tvm import relax

__all__ = ["UNKNOWN_EXTENT", "extents", "size_of"]

UNKNOWN_EXTENT = 16
"""What an extent counts as when it is known only at run time."""


def extents(ty: tvm.ir.Type) -> list[int]:
    """The shape of a tensor type; extents known only at run time count as `UNKNOWN_EXTENT`."""
    if not isinstance(ty, relax.TensorType) or ty.shape is None or not hasattr(ty.shape, "values"):
        return []
    return [
        int(extent) if isinstance(extent, tvm.tirx.IntImm) else UNKNOWN_EXTENT for extent in ty.shape.values
    ]


def size_of(ty: tvm.ir.Type) -> int:
    """Bytes of a value of a tensor or tuple type; 0 for what is no data."""
    if isinstance(ty, tvm.ir.TupleType):
        return sum(size_of(part) for part in ty.fields)
    if not isinstance(ty, relax.TensorType) or ty.dtype is None:
        return 0
    return (math.prod(extents(ty)) * int(tvm.DataType(str(ty.dtype)).bits) + 7) // 8
