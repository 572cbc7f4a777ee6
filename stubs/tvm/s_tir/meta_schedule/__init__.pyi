"""The tuner."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm_ffi import Array, Object

from ...ir import IRModule
from ...target import Target
from . import search_strategy as search_strategy

class ExtractedTask(Object):
    task_name: str
    mod: IRModule
    target: Target
    dispatched: Array[IRModule]
    weight: int
    def __init__(
        self, task_name: str, mod: IRModule, target: Target, dispatched: Sequence[IRModule], weight: int
    ) -> None: ...

tune_tir: Callable[..., Any]
