"""Tensors, devices, modules and executables."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tvm_ffi
import tvm_ffi.core
from tvm_ffi import Object as Object
from tvm_ffi import convert as convert

from . import vm as vm

DataType = tvm_ffi.dtype
ShapeTuple = tvm_ffi.Shape

class Scriptable:
    def script(
        self,
        *,
        name: str | None = None,
        show_meta: bool = False,
        verbose_expr: bool = False,
        syntax_sugar: bool = True,
        show_all_ty: bool = True,
        extra_config: Mapping[str, object] | None = None,
    ) -> str: ...
    def show(self) -> None: ...

class Device(tvm_ffi.core.Device):
    def sync(self, stream: object = None) -> None: ...

class Tensor(tvm_ffi.core.Tensor):
    def numpy(self) -> np.ndarray: ...
    def copyfrom(self, source_array: np.ndarray | Tensor) -> Tensor: ...
    def copyto(self, target: Tensor | Device, mem_scope: str | None = None) -> Tensor: ...

class Module(tvm_ffi.Module):
    def export_library(
        self,
        file_name: str,
        *,
        fcompile: Callable[..., object] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: object,
    ) -> object: ...
    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
    ) -> Callable[..., _BenchmarkResult]: ...

class _BenchmarkResult:
    results: Sequence[float]
    mean: float
    median: float
    min: float
    max: float

class Executable:
    mod: Module
    def __init__(self, mod: Module) -> None: ...
    def __getitem__(self, name: str) -> tvm_ffi.Function: ...
    def __call__(self, *args: object, **kwargs: object) -> object: ...
    def jit(
        self,
        *,
        fcompile: Callable[..., object] | None = None,
        addons: Sequence[str] | None = None,
        force_recompile: bool = False,
        **kwargs: object,
    ) -> Module: ...
    def export_library(
        self,
        file_name: str,
        *,
        fcompile: Callable[..., object] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: object,
    ) -> object: ...

def cpu(dev_id: int = 0) -> Device: ...
def device(dev: str, index: int | None = None) -> Device: ...
def empty(
    shape: Sequence[int], dtype: str = "float32", device: Device | None = None, mem_scope: str | None = None
) -> Tensor: ...
def tensor(
    arr: np.ndarray | Sequence[object] | float, device: Device | None = None, mem_scope: str | None = None
) -> Tensor: ...
def from_dlpack(ext_tensor: object) -> Tensor: ...
def load_module(path: str) -> Module: ...
def load_static_library(path: str, func_names: Sequence[str]) -> Module: ...
