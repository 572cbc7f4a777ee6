"""Virtual machines for what the host computes a few times: compiled and linked without optimizations.

TVM's just-in-time compiler ignores the optimization level where it makes machine code, which takes ten times
as long as the rest of a small graph. So the object is written, where the level counts, and linked.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tvm
from tvm import relax
from tvm.support import cc

from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.host_targets import UNOPTIMIZED

__all__ = ["host_machine", "linked_machine"]


def host_machine(module: tvm.IRModule) -> relax.VirtualMachine:
    """A module as TVM alone computes it."""
    return linked_machine(tvm.compile(module, UNOPTIMIZED))


def linked_machine(executable: relax.VMExecutable) -> relax.VirtualMachine:
    """What runs an executable; one with regions in C++ is linked as a user's is."""
    if cc.get_cc() is None or (isinstance(executable, LinkedExecutable) and executable.options):
        return relax.VirtualMachine(executable, tvm.cpu())
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / "library.so")
        executable.export_library(library, fcompile=_link)
        return relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())


def _link(output: str, objects: Sequence[str], options: Sequence[str] = ()) -> None:
    """Without the parts of every C++ library, whose linking takes longer than that of a small graph."""
    compiler = str(cc.get_cc())
    words = ("-shared", "-nostdlib", *options, "-o", output, *objects, "-lm", "-lgcc")
    subprocess.run([compiler, *words], check=True)
