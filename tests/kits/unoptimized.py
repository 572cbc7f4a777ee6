"""TVM's target for answers that others are compared with: it compiles in a third of the time."""

from __future__ import annotations

import tvm

__all__ = ["UNOPTIMIZED"]

UNOPTIMIZED = tvm.target.Target({"kind": "llvm", "opt-level": 0})
"""Code that LLVM does not optimize: its optimizations take most of the time to compile a small graph."""
