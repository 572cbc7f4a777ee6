"""Limits the nesting depth of modules: branches in branches, functions in functions, tuples in tuples.

TVM's passes and ours are recursive. Python's recursion limit is reached after some 200 levels, in the middle
of a pass and with an error that names no function, so the depth is checked in advance.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from annotated_region.errors import InvalidModuleError

__all__ = ["DEEPEST", "require_shallow"]

DEEPEST = 100


def require_shallow(mod: tvm.IRModule) -> None:
    """Raise `InvalidModuleError` if a function is nested more than `DEEPEST` levels deep. O(bindings)."""
    for global_var, func in mod.functions_items():
        if not isinstance(func, relax.Function):
            continue
        for binding, depth in _bindings(func):
            if max(depth, _depth_of(binding.var.ty)) > DEEPEST:
                raise InvalidModuleError(
                    f"in function {global_var.name_hint!r}, {binding.var.name!r} is nested more than "
                    f"{DEEPEST} branches or tuples deep; reduce the nesting"
                )


def _bindings(func: relax.Function) -> Iterator[tuple[relax.Binding, int]]:
    """Every binding, with the number of enclosing bodies."""
    waiting: list[tuple[relax.Expr, int]] = [(func.body, 0)]
    while waiting:
        body, depth = waiting.pop()
        if not isinstance(body, relax.SeqExpr) or depth > DEEPEST + 1:
            continue
        for block in body.blocks:
            for binding in block.bindings[:]:
                yield binding, depth
                value = binding.value
                if isinstance(value, relax.Call):  # first, because it is the usual case
                    continue
                if isinstance(value, relax.If):
                    waiting += [(value.true_branch, depth + 1), (value.false_branch, depth + 1)]
                elif isinstance(value, relax.Function):
                    waiting.append((value.body, depth + 1))


def _depth_of(ty: tvm.ir.Type) -> int:
    """The nesting depth of a tuple type, along the first tuple field per level; capped at `DEEPEST` + 1."""
    depth = 0
    level: tvm.ir.Type | None = ty
    while isinstance(level, relax.TupleType) and depth <= DEEPEST:
        depth += 1
        level = next((field for field in level.fields if isinstance(field, relax.TupleType)), None)
    return depth
