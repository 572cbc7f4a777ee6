"""Locates TVM's runtime in the installed packages, and the headers for programs that load it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import tvm_ffi

__all__ = ["header_folders", "runtime_libraries"]


def header_folders() -> tuple[Path, ...]:
    """The include folders for programs."""
    libinfo = tvm_ffi.libinfo
    return tuple(dict.fromkeys(map(Path, (libinfo.find_include_path(), libinfo.find_dlpack_include_path()))))


def runtime_libraries() -> tuple[tuple[Path, str], ...]:
    """TVM's runtime and its library of functions, each with the distribution that installs it."""
    runtime = Path(str(files("tvm"))) / "lib" / "libtvm_runtime.so"
    return (runtime, "apache-tvm"), (Path(tvm_ffi.libinfo.find_libtvm_ffi()), "apache-tvm-ffi")
