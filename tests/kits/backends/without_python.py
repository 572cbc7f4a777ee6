"""Regions run as in a process without Python: by the runtime in C++ that their library holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tvm
import tvm_ffi
from tvm.relax import op

import annotated_region as ar
from annotated_region.compilation.executable import LinkedExecutable
from kits.backends.relax_kit import module, var

__all__ = ["executable", "exponential", "region_of", "run_alone", "without_python"]


@contextmanager
def without_python(target: str) -> Iterator[None]:
    """Hide the runtime of a target in Python from regions that are called for the first time."""
    name = f"annotated_region.{target}.open"
    runtime = tvm.get_global_func(name)
    tvm_ffi.registry.remove_global_func(name)
    try:
        yield
    finally:
        tvm_ffi.register_global_func(name, runtime, override=True)


def executable(target: str, mod: tvm.IRModule, **options: object) -> LinkedExecutable:
    partitioned = ar.partition(mod, [target], prepare=False)
    return ar.build(partitioned, options={target: options})


def region_of(target: str, mod: tvm.IRModule) -> tvm_ffi.Function:
    """The function of the only region."""
    built = executable(target, mod)
    (symbol,) = built.regions
    return built.jit().get_function(symbol, query_imports=True)


def exponential(*shape: int) -> tvm.IRModule:
    x = var("x", shape)
    return module([x], lambda _: op.exp(x))


_PROGRAM = """
import sys
import numpy as np
import tvm_ffi
import ctypes
runtime, library = sys.argv[1:]
ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)
machine = tvm_ffi.load_module(library)["vm_load_executable"]()
machine["vm_initialization"](1, 0, 2)
room = np.zeros(64 + 12, "float32")
start = -room.ctypes.data % 64 // 4
print(np.from_dlpack(machine["main"](tvm_ffi.from_dlpack(room[start : start + 12].reshape(4, 3)))).sum())
"""


def run_alone(model: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a library of ``exponential(4, 3)`` in a process without TVM's compiler and this package."""
    runtime = Path(tvm.__file__).parent / "lib" / "libtvm_runtime.so"
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(runtime), str(model)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
