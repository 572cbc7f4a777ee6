"""Programs over the headers of the dnnl runtime, compiled as libraries that tests call."""

from __future__ import annotations

import ctypes
from pathlib import Path

from annotated_region.backends.dnnl.installation import LANGUAGE
from annotated_region.backends.dnnl.runtime_units import RUNTIME
from annotated_region.compilation.objects import SharedLibraryLinker

__all__ = ["compiled_with_runtime"]


def compiled_with_runtime(program: str, folder: Path) -> ctypes.CDLL:
    """The library of a program in C++, compiled in a folder with the flags of units.

    Several files of tests, and several processes, use one program: its object is taken from the cache.
    """
    source, library = folder / "program.cc", folder / "program.so"
    source.write_text(program, encoding="utf-8")
    SharedLibraryLinker(progress=False)(str(library), [str(source)], [*LANGUAGE, f"-I{RUNTIME}"])
    return ctypes.CDLL(str(library))
