"""Bounds of symbolic extents, by which TVM plans memory before a run.

Where all extents of a tensor have bounds (the function attribute ``tir_var_upper_bound``, which exporters
write), TVM reserves memory for the largest tensor that they allow, in every run. A sequence of at most
100 000 words takes 40 GB for the scores of one attention, however short it is, and the run fails. Tensors of
extents without bounds get the memory they need.

Where only some extents of a tensor have bounds, TVM multiplies these by the others in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from annotated_region.functions.extent_bounds import UPPER_BOUNDS, stated_bounds
from annotated_region.functions.modules import functions_to_partition, updated
from annotated_region.tvm_adapter.nodes import Analyzer, ConstIntBound
from annotated_region.tvm_adapter.types import expect, shape_vars_of

__all__ = ["without_large_bounds"]

_LARGEST = 1 << 28
"""The bytes that one tensor may reserve: 256 MiB."""


def without_large_bounds(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without the bounds of functions in which they make a tensor too large.

    The module itself if there is none. Linear in the number of bindings.
    """
    bounded = [
        (name, func)
        for name, func in functions_to_partition(mod)
        if func.attrs and UPPER_BOUNDS in func.attrs
    ]
    large = {name: func.without_attr(UPPER_BOUNDS) for name, func in bounded if _largest(func) > _LARGEST}
    return updated(mod, large) if large else mod


def _largest(func: relax.Function) -> int:
    """The bytes of the largest tensor that a function computes, with all extents at their bounds."""
    upper = stated_bounds(func, UPPER_BOUNDS)
    analyzer = Analyzer()
    for param in func.params:
        for extent in shape_vars_of(param.ty):
            if extent.name in upper:
                analyzer.update(extent, ConstIntBound(0, max(upper[extent.name], 0)), override=True)
    return max(
        (
            _bytes_at_most(type_, analyzer)
            for block in func.body.blocks
            for binding in block.bindings
            for type_ in _tensors(binding.var.ty)
        ),
        default=0,
    )


def _tensors(type_: tvm.ir.Type) -> Iterator[relax.TensorType]:
    if isinstance(type_, tvm.ir.TupleType):
        for field in type_.fields:
            yield from _tensors(field)
    elif isinstance(type_, relax.TensorType) and isinstance(type_.shape, relax.ShapeExpr):
        yield type_


def _bytes_at_most(type_: relax.TensorType, analyzer: Analyzer) -> int:
    """The bytes of a tensor with its extents at their bounds, and those without bounds 1."""
    size = tvm.DataType(str(type_.dtype)).bits
    for extent in expect(relax.ShapeExpr, type_.shape).values:
        most = analyzer.const_int_bound(extent).max_value
        size *= 1 if most == ConstIntBound.POS_INF else most
    return int(size + 7) // 8
