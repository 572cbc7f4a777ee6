"""Keeps the C++ runtime as an object file between builds, so that only the tables are compiled anew.

The runtime is the same for every module and takes most of the compiler's time. It is compiled once for each
combination of its text, the compiler, the options and the installed headers, into the user's cache folder
(``$XDG_CACHE_HOME`` or ``~/.cache``, below ``annotated-region``). Where that is not possible, generated units
hold the runtime's text and are compiled as they are.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tvm.support import cc

from annotated_region.backends.dnnl.emission import runtime_text
from annotated_region.compilation.objects import kept_object

__all__ = ["runtime_object"]

HEADERS = ("apache-tvm-ffi", "onednn-devel-cpu-gomp")


def runtime_object(options: Sequence[str]) -> Path | None:
    """The compiled runtime, compiled now if need be; None where it cannot be compiled or kept.

    Parameters
    ----------
    options
        Options for the compiler, one word each.
    """
    compiler = cc.get_cc()
    if not compiler:
        return None
    text = runtime_text()
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "runtime.cc")
            source.write_text(text, encoding="utf-8")
            versions = (f"{name} {version(name)}" for name in HEADERS)
            return kept_object(source, compiler, options, [text, *versions])
    except (OSError, subprocess.CalledProcessError):
        return None
