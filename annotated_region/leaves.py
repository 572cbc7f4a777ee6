"""Tuples taken apart: which single values an expression stands for.

An external function takes and returns single tensors only. A tuple that enters or leaves it is
therefore passed field by field, each distinct field once, and put together again on the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import relax

__all__ = ["Leaf", "Leaves", "flatten", "leaves_of"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value: a variable, a constant, or the field of a tuple-valued one at the end of a path."""

    root: relax.Expr
    path: tuple[int, ...] = ()

    @property
    def ty(self) -> tvm.ir.Type:
        """The type of the value."""
        ty = self.root.ty
        for index in self.path:
            ty = ty.fields[index]
        return ty

    @property
    def name(self) -> str:
        """A name for the value."""
        return "_".join([getattr(self.root, "name", "constant"), *map(str, self.path)])


Leaves: TypeAlias = "Leaf | tuple[Leaves, ...]"
"""A leaf, or the leaves of each field of a tuple."""

Definition = Callable[[relax.Expr], relax.Expr | None]
"""The value that a variable is bound to, as far as it may be looked through; else None."""


def leaves_of(expr: relax.Expr, definition: Definition) -> Leaves:
    """The leaves that `expr` stands for.

    Tuples, their fields and other names are looked through as far as `definition` allows.
    """
    if isinstance(expr, relax.Tuple):
        return tuple(leaves_of(part, definition) for part in expr.fields)
    if isinstance(expr, tvm.ir.TupleGetItem):
        whole = leaves_of(expr.tuple_value, definition)
        assert isinstance(whole, tuple), "a field is taken of a tuple only"
        field: Leaves = whole[expr.index]
        return field
    value = definition(expr)
    if isinstance(value, relax.Tuple | tvm.ir.TupleGetItem | tvm.ir.Var):
        return leaves_of(value, definition)
    return _leaves_of_type(Leaf(expr), expr.ty)


def _leaves_of_type(leaf: Leaf, ty: tvm.ir.Type) -> Leaves:
    if not isinstance(ty, tvm.ir.TupleType):
        return leaf
    return tuple(
        _leaves_of_type(Leaf(leaf.root, (*leaf.path, index)), part) for index, part in enumerate(ty.fields)
    )


def flatten(leaves: Leaves) -> list[Leaf]:
    """All leaves, in order."""
    if isinstance(leaves, Leaf):
        return [leaves]
    return [leaf for part in leaves for leaf in flatten(part)]
