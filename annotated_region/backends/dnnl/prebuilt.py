"""Keeps the C++ runtime as an object file between builds, so that only the tables are compiled anew.

The runtime is the same for every module and takes most of the compiler's time. It is compiled once for each
combination of its text, the compiler, the options and the installed headers, into the user's cache folder
(``$XDG_CACHE_HOME`` or ``~/.cache``, below ``annotated-region``). Where that is not possible, generated units
hold the runtime's text and are compiled as they are.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tvm.support import cc

from annotated_region.backends.dnnl.emission import runtime_text
from annotated_region.cache import private_cache_folder

__all__ = ["runtime_object"]


def runtime_object(options: Sequence[str]) -> Path | None:
    """The compiled runtime, compiled now if need be; None where it cannot be compiled or kept.

    Parameters
    ----------
    options
        Options for the compiler, one word each.
    """
    compiler = cc.get_cc()
    folder = private_cache_folder()
    if not compiler or folder is None:
        return None
    try:
        identity = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    text = runtime_text()
    path = folder / f"dnnl-runtime-{_fingerprint(text, compiler, identity, *options)}.o"
    return path if path.exists() or _compile(text, compiler, options, path) else None


def _fingerprint(*parts: str) -> str:
    versions = [f"{name} {version(name)}" for name in ("apache-tvm-ffi", "onednn-devel-cpu-gomp")]
    return hashlib.sha256("\0".join((*parts, *versions)).encode()).hexdigest()[:24]


def _compile(text: str, compiler: str, options: Sequence[str], path: Path) -> bool:
    """Compile into a temporary file and move it into place, so that concurrent builds see all or nothing."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            source, result = Path(folder, "runtime.cc"), Path(folder, "runtime.o")
            source.write_text(text, encoding="utf-8")
            command = [compiler, *options, "-fPIC", "-c", str(source), "-o", str(result)]
            subprocess.run(command, capture_output=True, check=True)
            os.replace(result, path)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
