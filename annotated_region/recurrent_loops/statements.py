"""The statements of which loops over sequences are written: loads, stores, loops, columns by vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tvm
from tvm import tirx

from annotated_region.recurrent_loops.loop import LANES
from annotated_region.tvm_adapter.nodes import BufferType, PrimExpr, SBlock, SBlockRealize
from annotated_region.tvm_adapter.types import expect

__all__ = [
    "INDEX",
    "Column",
    "columns_of",
    "dtype_of_scalar",
    "element",
    "loop_of",
    "number_of",
    "store",
    "together",
    "whole_function",
    "wide",
]

Column: TypeAlias = Callable[[PrimExpr], PrimExpr]
"""The element of a row at a column."""

INDEX = "int64"
"""The type of indices."""


def whole_function(parameters: Sequence[tirx.Buffer], body: tirx.Stmt) -> tirx.PrimFunc:
    """A function of tensors that share no memory."""
    whole = SBlockRealize([], True, SBlock([], [], [], "root", body))
    return tirx.PrimFunc(list(parameters), whole).with_attr("tirx.noalias", True)


def element(buffer: tirx.Buffer, *places: PrimExpr | int) -> PrimExpr:
    return tirx.BufferLoad(buffer, [number_of(place) for place in places])


def dtype_of_scalar(value: PrimExpr) -> str:
    return str(expect(tvm.ir.PrimType, value.ty).dtype)


def wide(value: PrimExpr, dtype: str) -> PrimExpr:
    """A value in another data type."""
    return value if dtype_of_scalar(value) == dtype else tirx.Cast(dtype, value)


def store(buffer: tirx.Buffer, value: PrimExpr, *places: PrimExpr | int) -> tirx.Stmt:
    stored = wide(value, str(expect(BufferType, buffer.ty).dtype))
    return tirx.BufferStore(buffer, stored, [number_of(place) for place in places])


def together(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def loop_of(
    name: str,
    extent: PrimExpr | int,
    body: Callable[[PrimExpr], tirx.Stmt],
    kind: tirx.ForKind = tirx.ForKind.SERIAL,
) -> tirx.Stmt:
    index = tirx.Var(name, INDEX)
    return tirx.For(index, number_of(0), number_of(extent), kind, body(index))


def number_of(extent: PrimExpr | int) -> PrimExpr:
    return tirx.IntImm(INDEX, extent) if isinstance(extent, int) else extent


def columns_of(count: int, body: Callable[[PrimExpr], tirx.Stmt]) -> tirx.Stmt:
    """A loop over columns, by vectors if their number allows it."""
    if count % LANES:
        return loop_of("column", count, body)

    def vector(first: PrimExpr) -> tirx.Stmt:
        return loop_of("lane", LANES, lambda lane: body(first * LANES + lane), tirx.ForKind.VECTORIZED)

    return loop_of("vector", count // LANES, vector)
