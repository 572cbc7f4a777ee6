"""Modules that nest deeper than anything that is written by hand."""

from __future__ import annotations

import tvm
from tvm import relax

__all__ = ["nested_tuples"]


def nested_tuples(depth: int) -> tvm.IRModule:
    """A module whose result is one tensor in as many tuples, one inside the other."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    with builder.function("main", [x]):
        value: relax.Expr = x
        for _ in range(depth):
            value = builder.emit(relax.Tuple([value]))
        builder.emit_func_output(value)
    return builder.get()
