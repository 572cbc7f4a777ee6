"""Locates the installed oneDNN, and gives the compiler options to build against it.

The C++ runtime is the same for every module and takes most of the compile time. It is compiled once, as
units in parallel, and linked into every module: its objects are cached in the user's cache folder
(`compilation/objects.py`); a key is the text, the compiler, the options and the installed headers. If that is
not possible, the runtime is compiled as an additional unit of each module.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import tvm_ffi

from annotated_region.backends.dnnl.runtime_units import PREBUILT, runtime_parts
from annotated_region.errors import BackendUnavailableError
from annotated_region.targets.backend import BuildOptions, LinkedSource, NeededLibrary
from annotated_region.targets.installed_files import installed_files

__all__ = ["LANGUAGE", "REMEDY", "build_options", "onednn", "unavailable"]

RUNTIME_WHEEL = "onednn-cpu-gomp"
HEADER_WHEEL = "onednn-devel-cpu-gomp"
VERSION = "2023.2.0"
SONAME = "libdnnl.so.3"
LANGUAGE = ("-std=c++17", "-O2", "-fno-math-errno", "-fno-trapping-math", "-fopenmp")
"""Language options; g++ vectorizes loops with selects for AVX2 only under -fno-trapping-math."""

REMEDY = f"pip install {RUNTIME_WHEEL}=={VERSION} {HEADER_WHEEL}=={VERSION}"


def _find(wheel: str, name: str) -> Path | None:
    """The file of an installed wheel whose path ends with `name`, or None.

    The wheels install libraries and headers outside ``site-packages``, under the prefix of the environment;
    the file list of the wheel gives their location, with or without a virtual environment.
    """
    for file in installed_files(wheel):
        if str(file).endswith(name):
            path = Path(str(file.locate())).resolve()
            return path if path.exists() else None
    return None


def onednn() -> Path | None:
    """The library of oneDNN, or None."""
    return _find(RUNTIME_WHEEL, "libdnnl.so")


def _header() -> Path | None:
    return _find(HEADER_WHEEL, "oneapi/dnnl/dnnl.hpp")


def unavailable() -> str | None:
    """Why regions for oneDNN cannot run on this machine, with a remedy; None if they can."""
    if onednn() is None:
        return f"oneDNN's library is not installed; {REMEDY}"
    if _header() is None:
        return f"oneDNN's headers are not installed; {REMEDY}"
    return None


def build_options() -> BuildOptions:
    """Include folders, library and run path of the installed oneDNN.

    Raises
    ------
    BackendUnavailableError
        oneDNN is not installed.
    """
    found, header = onednn(), _header()
    if found is None or header is None:
        raise BackendUnavailableError(f"target 'dnnl': {unavailable()}")
    folders = dict.fromkeys(
        (
            tvm_ffi.libinfo.find_include_path(),
            tvm_ffi.libinfo.find_dlpack_include_path(),
            str(header.parents[2]),
        )
    )
    compile_options = (*LANGUAGE, *(f"-I{folder}" for folder in folders))
    # TVM's command line lists the library before the objects; linkers with --as-needed would drop it.
    link_options = ("-fopenmp", "-Wl,--no-as-needed", f"-L{found.parent}", "-ldnnl")
    headers = tuple(f"{name} {version(name)}" for name in ("apache-tvm-ffi", HEADER_WHEEL))
    region, *builders = runtime_parts()
    runtime = LinkedSource(region, compile_options, headers, PREBUILT, tuple(builders))
    library = NeededLibrary(SONAME, found, RUNTIME_WHEEL, "SSE4.1 on x86-64")
    return BuildOptions(compile_options, link_options, (runtime,), (library,))
