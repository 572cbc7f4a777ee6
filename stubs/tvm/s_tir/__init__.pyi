"""Blocks, schedules and tuning of primitive functions."""

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

class SBlockRealize(Stmt):
    iter_values: Array[Expr]
    predicate: Expr
    block: SBlock

class Schedule(Object):
    mod: IRModule
    def __init__(self, mod: PrimFunc | IRModule) -> None: ...
    # The primitives of schedules.
    def __getattr__(self, name: str) -> Any: ...
