"""Comparing extents, and walking over the body of a primitive function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tvm_ffi
from tvm import relax
from tvm.sym import Analyzer

__all__ = ["Extent", "provably_equal", "visit"]

Extent: TypeAlias = int | relax.Expr


def provably_equal(left: Extent, right: Extent) -> bool:
    """Whether two extents are equal; for symbolic ones TVM's analyzer is asked, 10 us and more a question."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return left is right or bool(Analyzer().can_prove_equal(left, right))


def visit(root: object, visitors: Sequence[tuple[type, Callable[[Any], None]]]) -> None:
    """Call, for each node below `root` in pre-order, the visitor of its class."""
    tvm_ffi.structural_walk(root, list(visitors))
