"""Comparing extents, and walking over the body of a primitive function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import relax
from tvm.sym import Analyzer

__all__ = ["provably_equal", "visit"]


def provably_equal(left: relax.Expr | int, right: relax.Expr | int) -> bool:
    """Whether TVM's arithmetic analyzer can prove two extents equal; 10 us and more a question."""
    return bool(Analyzer().can_prove_equal(left, right))


def visit(root: object, visitors: Sequence[tuple[type, Callable[[Any], None]]]) -> None:
    """Call, for each node below `root` in pre-order, the visitor of its class."""
    tvm_ffi.structural_walk(root, list(visitors))
