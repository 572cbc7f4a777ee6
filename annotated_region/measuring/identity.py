"""Keys of measurements: what was run, and everything else that its time depends on."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from annotated_region._version import __version__
from annotated_region.costs.model import HOST
from annotated_region.measuring.timing import Timed
from annotated_region.targets.engine_version import library_version
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["key_of", "key_of_pair", "surroundings"]


def key_of(timed: Timed) -> str:
    """The key of a measurement; independent of addresses and names."""
    digest = hashlib.sha256()
    structure = int(tvm_ffi.structural_hash(timed.func, skip_tensor_content=True))
    digest.update(structure.to_bytes(8, "little", signed=structure < 0))

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, Constant) and isinstance(expr.value, tvm.runtime.Tensor):
            digest.update(np.ascontiguousarray(expr.value.numpy()).view(np.uint8).data)

    relax.analysis.post_order_visit(timed.func, visit)
    return f"unit {digest.hexdigest()} {surroundings(timed.target)}"


def key_of_pair(current: Sequence[str], candidate: Sequence[str]) -> str:
    """The key of a comparison of two sequences of timed parts, given by their keys."""
    return "pair " + hashlib.sha256(repr((list(current), list(candidate))).encode()).hexdigest()


def surroundings(target: str) -> str:
    """Target, versions, processor and threads: everything but the unit that a time depends on."""
    threads = os.environ.get("TVM_NUM_THREADS", str(os.cpu_count()))
    versions = f"{_library_version(target)} annotated-region-{__version__} tvm-{tvm.__version__}"
    return f"{target} {versions} {_processor()} {threads}"


def _library_version(target: str) -> str:
    return "-" if target == HOST else library_version(target)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip().replace(" ", "_")
    return platform.processor() or platform.machine()
