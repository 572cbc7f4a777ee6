"""Runs the model of this folder: python run_model.py OUTPUT.npy INPUT.npy...

The files are numpy's, one for each parameter of the model; OUTPUT is its first result. The program needs
numpy and apache-tvm-ffi, and nothing else of TVM.
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
    """Run the model once, and write what it answers."""
    if not sys.argv[1:]:
        sys.exit("usage: run_model.py OUTPUT.npy INPUT.npy...")
    output, *inputs = sys.argv[1:]
    arrays = [aligned(np.load(path, allow_pickle=False)) for path in inputs]
    answer = load(LIB / "model.so")["main"](*map(tvm_ffi.from_dlpack, arrays))
    first = answer if isinstance(answer, tvm_ffi.Tensor) else answer[0]
    np.save(output, np.from_dlpack(first))


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"run_model.py: {error}")
