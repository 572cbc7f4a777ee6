"""Passes over modules."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, overload

import tvm_ffi
from tvm_ffi import Array, Map

from .module import IRModule

class PassInfo(tvm_ffi.Object):
    opt_level: int
    name: str
    required: Array[str]
    traceable: bool
    def __init__(
        self, opt_level: int, name: str, required: Sequence[str] | None = None, traceable: bool = False
    ) -> None: ...

class PassContext(tvm_ffi.Object):
    opt_level: int
    required_pass: Array[str]
    disabled_pass: Array[str]
    instruments: Array[tvm_ffi.Object] | None
    config: Map[str, object]
    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[object] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, ptype: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @staticmethod
    def current() -> PassContext: ...

class Pass(tvm_ffi.Object):
    @property
    def info(self) -> PassInfo: ...
    def __call__(self, mod: IRModule) -> IRModule: ...

class Sequential(Pass):
    passes: Array[Pass]
    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None: ...

_Class = TypeVar("_Class", bound=type)
_Function = Callable[[IRModule, PassContext], IRModule]

class _Decorator:
    @overload
    def __call__(self, pass_arg: _Class) -> _Class: ...
    @overload
    def __call__(self, pass_arg: _Function) -> Pass: ...

# What a decorated class makes is a pass that hands on to an instance of it. The class is given back here, so
# that its own attributes are known.
@overload
def module_pass(
    pass_func: _Class,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> _Class: ...
@overload
def module_pass(
    pass_func: _Function,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Pass: ...
@overload
def module_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> _Decorator: ...
