"""What TVM compiles for."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import tvm_ffi
from tvm_ffi import Array, Map

_Words = str | Mapping[str, object]

class TargetKind(tvm_ffi.Object):
    name: str

class Target(tvm_ffi.Object):
    kind: TargetKind
    keys: Array[str]
    attrs: Map[str, object]
    host: Target | None
    def __init__(
        self,
        target: str | Mapping[str, object] | Target,
        host: str | Mapping[str, object] | Target | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, ptype: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @staticmethod
    def current(allow_none: bool = True) -> Target | None: ...
    def with_host(self, host: Target | None = None) -> Target: ...
