"""The names by which users refer to operations: of a binding or of an op; and a unique one for a binding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.ids import NodeId
from annotated_region.regions.networks import op_name_of

__all__ = ["OperationNames"]


@dataclass(frozen=True, slots=True)
class OperationNames:
    """What the operations of one function are called.

    Attributes
    ----------
    function
        The name of the function.
    bindings
        By the name of a binding, the nodes that have it, in program order.
    calls
        By the name of an op, the nodes that call it.
    """

    function: str
    bindings: Mapping[str, Sequence[NodeId]]
    calls: Mapping[str, Sequence[NodeId]]

    @staticmethod
    def of(graph: DataflowGraph) -> OperationNames:
        """The names of the operations of a function."""
        bindings: dict[str, list[NodeId]] = {}
        calls: dict[str, list[NodeId]] = {}
        for number, node in graph.numbered():
            if node.kind is NodeKind.OPERATION:
                bindings.setdefault(node.var.name, []).append(number)
                calls.setdefault(op_name_of(node.value), []).append(number)
        return OperationNames(graph.name, bindings, calls)

    def calls_of(self, key: str) -> Sequence[NodeId]:
        """The nodes that call the op of that name."""
        return self.calls.get(key, ())

    def bindings_called(self, key: str) -> Sequence[NodeId]:
        """The nodes that ``"name"``, ``"name#2"``, ``"function/name"`` or ``"function/name#2"`` means."""
        for name in (key, key.removeprefix(f"{self.function}/")):
            if name in self.bindings:
                return self.bindings[name]
            called, _, number = name.rpartition("#")
            same = self.bindings.get(called, ())
            if number.isdecimal() and 1 <= int(number) <= len(same):
                return (same[int(number) - 1],)
        return ()

    def unique_name(self, node: NodeId) -> str:
        """The name of a binding which no other binding of the module has."""
        name = next(name for name, nodes in self.bindings.items() if node in nodes)
        same = self.bindings[name]
        return f"{self.function}/{name}" + (f"#{same.index(node) + 1}" if len(same) > 1 else "")

    def op(self, node: NodeId) -> str:
        """The name of the op that a node calls."""
        return next(name for name, nodes in self.calls.items() if node in nodes)

    def all(self) -> Iterator[str]:
        """All names of bindings and of ops."""
        yield from self.bindings
        yield from self.calls
