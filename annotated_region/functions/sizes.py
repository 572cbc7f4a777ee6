"""Sizes of values in bytes."""

from __future__ import annotations

from collections.abc import Iterable

import tvm
from tvm import relax

__all__ = ["bytes_of", "total_bytes"]


def bytes_of(ty: tvm.ir.Type) -> int | None:
    """The size of a value of this type in bytes; None if its shape or dtype is not static."""
    if isinstance(ty, tvm.ir.TupleType):
        return total_bytes(bytes_of(part) for part in ty.fields)
    if not isinstance(ty, relax.TensorType) or ty.shape is None or not hasattr(ty.shape, "values"):
        return None
    if ty.dtype is None:
        return None
    count = 1
    for extent in ty.shape.values:
        if not isinstance(extent, tvm.tirx.IntImm):
            return None
        count *= int(extent)
    return int(count * tvm.DataType(str(ty.dtype)).bits + 7) // 8


def total_bytes(sizes: Iterable[int | None]) -> int | None:
    """The sum of sizes; None if one of them is unknown."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
