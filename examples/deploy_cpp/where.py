"""Prints where the installed packages keep what a C++ program needs to run TVM's libraries."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import tvm_ffi


def folders() -> dict[str, Path]:
    """The folders by the names that the Makefile uses."""
    return {
        "ffi_include": Path(tvm_ffi.libinfo.find_include_path()),
        "dlpack_include": Path(tvm_ffi.libinfo.find_dlpack_include_path()),
        "ffi_lib": Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent,
        "runtime_lib": Path(str(files("tvm"))) / "lib",
    }


if __name__ == "__main__":
    print(folders()[sys.argv[1]])
