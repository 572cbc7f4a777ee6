"""Runs the model of this folder on random float32 numbers: python run_model.py 1 3 224 224.

It needs numpy and apache-tvm-ffi, and nothing else of TVM.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import tvm_ffi

LIB = Path(__file__).resolve().parents[1] / "lib"
CPU, POOLED_ALLOCATOR = 1, 2


def load(library: Path) -> tvm_ffi.Module:
    """The functions of a library, through TVM's virtual machine."""
    ctypes.CDLL(str(LIB / "libtvm_runtime.so"), ctypes.RTLD_GLOBAL)
    machine: tvm_ffi.Module = tvm_ffi.load_module(str(library))["vm_load_executable"]()
    machine["vm_initialization"](CPU, 0, POOLED_ALLOCATOR)
    return machine


def aligned(array: np.ndarray) -> np.ndarray:
    """The same numbers at an address that 64 divides, which code compiled by TVM relies on."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def main() -> None:
    """Run the model once, and print what it answers."""
    shape = tuple(map(int, sys.argv[1:]))
    image = np.random.default_rng(0).standard_normal(shape).astype("float32")
    answer = load(LIB / "model.so")["main"](tvm_ffi.from_dlpack(aligned(image)))
    for value in [answer] if isinstance(answer, tvm_ffi.Tensor) else answer:
        found = np.from_dlpack(value)
        print(found.shape, found.dtype, found.reshape(-1)[:4])


if __name__ == "__main__":
    main()
