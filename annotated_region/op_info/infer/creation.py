"""Proposes ops that make values of positions: fills, ranges, shapes, triangles, one-hot vectors."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from annotated_region.op_info.infer.indices import factors, only_value
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops.trees import Extent, Tree, is_size, linear, subtrees
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["read_fills", "read_one_hot", "read_ranges", "read_shape", "read_triangles"]


def read_fills(segment: Segment) -> Iterator[relax.Call]:
    """The same number everywhere: ``full``, or ``full_like`` if a tensor is never read."""
    value = only_value(segment)
    if value is None or value[0] not in ("float", "int") or len(segment.outputs) != 1 or segment.variables:
        return
    number, dtype = float(value[2]), segment.outputs[0].dtype
    shape = relax.ShapeExpr(segment.shape(segment.outputs[0].shape))
    if number in (0, 1):
        yield (relax.op.ones if number else relax.op.zeros)(shape, dtype)
    yield relax.op.full(shape, relax.const(number, dtype), dtype)
    for like in segment.spare:
        yield relax.op.full_like(like, relax.const(number, dtype), dtype)


def read_shape(segment: Segment) -> Iterator[relax.Call]:
    """Numbers that depend on the position alone: a shape as a tensor, which is a cascade of guards."""
    value = only_value(segment)
    if value is None or value[0] != "index" or segment.variables:
        return
    chosen = [_integer(part[2]) for part in subtrees(value) if part[0] == "if"]
    known = [form for form in chosen if form is not None]
    if chosen and len(known) == len(chosen):
        yield relax.op.shape_to_tensor(relax.ShapeExpr(segment.shape(known)))


def _integer(value: Tree) -> Extent | None:
    """A value as a number, or as a form of sizes."""
    if value[0] == "int":
        return int(value[2])
    return value[2] if value[0] == "index" and is_size(value[2]) else None


def read_ranges(segment: Segment) -> Iterator[relax.Call]:
    """Integers at equal distances: ``arange``."""
    value = only_value(segment)
    if value is None or value[0] != "index" or segment.variables or len(segment.outputs[0].shape) != 1:
        return
    step = factors(value[2]).get(0, 0)
    sizes = linear(value[2][1], {atom: factor for atom, factor in value[2][2] if atom[0] != "iter"})
    if not step or not is_size(sizes):
        return
    (count,) = segment.shape(segment.outputs[0].shape)
    start = segment.extent(sizes)
    last = start + (count if step == 1 else count * step)
    yield relax.op.arange(start, last, tvm.tirx.IntImm("int64", step), value[1])


def read_triangles(segment: Segment) -> Iterator[relax.Call]:
    """An element on one side of a diagonal, otherwise 0: ``triu`` and ``tril``."""
    value = only_value(segment)
    if value is None or value[0] != "if" or value[1][0] != "nonnegative" or len(segment.variables) != 1:
        return
    if value[2][0] == "load" and len(segment.inputs[0].shape) >= 2:
        offset = int(value[1][1][1])
        yield relax.op.triu(segment.variables[0], -offset)
        yield relax.op.tril(segment.variables[0], offset)


def read_one_hot(segment: Segment) -> Iterator[relax.Call]:
    """One number where an index is the position on a new axis, otherwise another: ``one_hot``."""
    value = only_value(segment)
    if value is None or value[0] != "if" or value[1][0] != "EQ" or len(segment.variables) != 1:
        return
    (on, off), shape = value[2:4], segment.outputs[0].shape
    if any(number[0] not in ("float", "int") for number in (on, off)):
        return
    if len(shape) != len(segment.inputs[0].shape) + 1:
        return
    for axis, depth in enumerate(shape):
        if isinstance(depth, int):
            yield relax.op.one_hot(segment.variables[0], _immediate(on), _immediate(off), depth, axis)


def _immediate(number: Tree) -> PrimExpr:
    kind, dtype, value = number
    return (tvm.tirx.FloatImm if kind == "float" else tvm.tirx.IntImm)(dtype, value)
