"""Blocks, schedules and tuning of primitive functions."""

from collections.abc import Sequence
from typing import Any

from tvm_ffi import Array, Map, Object

from ..ir import Expr, IRModule, TensorRegion
from ..tirx import Buffer, IterVar, PrimFunc, Stmt
from . import meta_schedule as meta_schedule
from . import schedule as schedule
from . import transform as transform

class MatchBufferRegion(Object):
    buffer: Buffer
    source: TensorRegion

class SBlock(Stmt):
    iter_vars: Array[IterVar]
    reads: Array[TensorRegion]
    writes: Array[TensorRegion]
    name_hint: str
    body: Stmt
    init: Stmt | None
    alloc_buffers: Array[Buffer]
    match_buffers: Array[MatchBufferRegion]
    annotations: Map[str, object]
    def __init__(
        self,
        iter_vars: Sequence[IterVar],
        reads: Sequence[TensorRegion],
        writes: Sequence[TensorRegion],
        name_hint: str,
        body: Stmt,
    ) -> None: ...

class SBlockRealize(Stmt):
    iter_values: Array[Expr]
    predicate: Expr
    block: SBlock
    def __init__(self, iter_values: Sequence[Expr], predicate: Expr | bool, block: SBlock) -> None: ...

class Schedule(Object):
    mod: IRModule
    def __init__(self, mod: PrimFunc | IRModule) -> None: ...
    # The primitives of schedules.
    def __getattr__(self, name: str) -> Any: ...
