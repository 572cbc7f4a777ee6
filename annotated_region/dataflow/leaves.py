"""Tuple flattening: the single values that each variable of a function stands for.

An external function takes and returns single tensors only, so a tuple that enters or leaves it is passed
field by field, each distinct field once, and rebuilt on the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.ids import NodeId, ScopeId
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["Leaf", "LeafTable", "Leaves", "flatten", "leaves_of", "readers_of_leaves", "with_paths"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value: a variable, a constant, or a field of a tuple-valued one, selected by a path."""

    root: relax.Expr
    path: tuple[int, ...] = ()

    @property
    def ty(self) -> tvm.ir.Type:
        """The type of the value."""
        ty = self.root.ty
        for index in self.path:
            ty = expect(tvm.ir.TupleType, ty).fields[index]
        return ty

    @property
    def name(self) -> str:
        """A name for the value."""
        return "_".join([getattr(self.root, "name", "constant"), *map(str, self.path)])


Leaves: TypeAlias = "Leaf | tuple[Leaves, ...]"
"""A leaf, or the leaves of each field of a tuple."""

Definition: TypeAlias = "Callable[[relax.Expr], relax.Expr | Leaves | None]"
"""Maps a variable to its bound expression or its leaves where it may be traced through, else to None."""


class LeafTable:
    """The leaves of every variable of a function.

    Tuples, tuple fields and aliases are traced through, except where a leaf would be a dataflow variable used
    outside its block.

    Attributes
    ----------
    fields
        For each scope, the tuple fields that it reads, and the first variable bound to each.

    Notes
    -----
    Built in one pass over the structural nodes, in program order; O(sizes of their types).
    """

    def __init__(self, graph: DataflowGraph) -> None:
        self._graph = graph
        self._known: dict[NodeId, Leaves] = {}
        self._public: set[NodeId] = set()
        self.fields: dict[ScopeId, dict[Leaf, relax.Var]] = {scope.index: {} for scope in graph.scopes}
        for number, node in graph.numbered():
            if node.kind is NodeKind.STRUCTURE:
                leaves = self._of(node.value, node.scope)
                self._known[number] = leaves
                if not any(isinstance(leaf.root, relax.DataflowVar) for leaf in flatten(leaves)):
                    self._public.add(number)
                if isinstance(leaves, Leaf) and leaves.path:
                    self.fields[node.scope].setdefault(leaves, node.var)

    def of(self, var: relax.Var, scope: ScopeId) -> Leaves:
        """The leaves of `var`, as variables visible in a scope where `var` is visible."""
        known = self._known_of(var, scope)
        return _by_type(Leaf(var), var.ty) if known is None else known

    def _known_of(self, var: relax.Expr, scope: ScopeId) -> Leaves | None:
        number = self._graph.number_of(var)
        if number is None or number not in self._known:
            return None
        visible = self._graph.nodes[number].scope == scope or number in self._public
        return self._known[number] if visible else None

    def _of(self, expr: relax.Expr, scope: ScopeId) -> Leaves:
        return leaves_of(expr, lambda var: self._known_of(var, scope))


def leaves_of(expr: relax.Expr, definition: Definition) -> Leaves:
    """The leaves that `expr` stands for.

    Tuples, tuple fields and aliases are traced through as far as `definition` allows.
    """
    if isinstance(expr, relax.Tuple):
        return tuple(leaves_of(part, definition) for part in expr.fields)
    if isinstance(expr, relax.TupleGetItem):
        whole = leaves_of(expr.tuple_value, definition)
        assert isinstance(whole, tuple), "a field is taken of a tuple only"
        field: Leaves = whole[expr.index]
        return field
    found = definition(expr)
    if isinstance(found, Leaf | tuple):
        return found
    if isinstance(found, relax.Tuple | relax.TupleGetItem | relax.Var):
        return leaves_of(found, definition)
    return _by_type(Leaf(expr), expr.ty)


def readers_of_leaves(graph: DataflowGraph, counts: Callable[[NodeId], bool]) -> dict[Leaf, list[NodeId]]:
    """The nodes (or RESULT) that read each single value, traced through tuples, tuple fields and aliases.

    Constants are left out: they belong to their readers.

    Parameters
    ----------
    graph
        The graph of a function.
    counts
        Whether a consumer counts as a reader.

    Notes
    -----
    O(nodes + edges), times the fields of tuples.
    """

    def definition(var: relax.Expr) -> relax.Expr | None:
        number = graph.number_of(var)
        if number is None or graph.nodes[number].kind is not NodeKind.STRUCTURE:
            return None
        return graph.nodes[number].value

    readers: dict[Leaf, list[NodeId]] = {}
    for edge in graph.edges():
        if counts(edge.consumer) and not graph.is_literal(edge.producer):
            for leaf in flatten(leaves_of(graph.producer_var(edge.producer), definition)):
                if not isinstance(leaf.root, Constant):
                    readers.setdefault(leaf, []).append(edge.consumer)
    return readers


def _by_type(leaf: Leaf, ty: tvm.ir.Type) -> Leaves:
    if not isinstance(ty, tvm.ir.TupleType):
        return leaf
    return tuple(_by_type(Leaf(leaf.root, (*leaf.path, index)), part) for index, part in enumerate(ty.fields))


def flatten(leaves: Leaves) -> Iterator[Leaf]:
    """All leaves, in order."""
    return (leaf for leaf, _path in with_paths(leaves))


def with_paths(leaves: Leaves, path: tuple[int, ...] = ()) -> Iterator[tuple[Leaf, tuple[int, ...]]]:
    """All leaves, in order, each with its path."""
    if isinstance(leaves, Leaf):
        yield leaves, path
        return
    for index, part in enumerate(leaves):
        yield from with_paths(part, (*path, index))
