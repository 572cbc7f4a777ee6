"""Programs over the headers of the dnnl runtime, compiled as libraries that tests call."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from tvm.support import cc

from annotated_region.backends.dnnl.installation import LANGUAGE
from annotated_region.backends.dnnl.runtime_units import RUNTIME

__all__ = ["compiled_with_runtime"]


def compiled_with_runtime(program: str, folder: Path) -> ctypes.CDLL:
    """The library of a program in C++, compiled in a folder with the flags of units."""
    source, library = folder / "program.cc", folder / "program.so"
    source.write_text(program, encoding="utf-8")
    options = [*LANGUAGE, "-fPIC", "-shared", f"-I{RUNTIME}"]
    subprocess.run([cc.get_cc(), *options, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))
