"""The names by which users refer to operations: binding names, op names and origins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.ids import NodeId
from annotated_region.origins import origin_of
from annotated_region.regions.op_names import op_name_of

__all__ = ["ALL", "OperationNames"]

ALL = "#*"
"""The suffix of a key that selects all bindings of its name."""

_LINE = " ("


@dataclass(frozen=True, slots=True)
class OperationNames:
    """The names of the operations of one function.

    Attributes
    ----------
    function
        The name of the function.
    bindings
        The nodes of each binding name, in program order.
    calls
        The nodes that call each op.
    origins
        The nodes of each origin that differs from the binding's name; an origin with a source line,
        ``"layers.0.query (model.py:42)"``, is also listed without the line.
    name_of, origin_of
        The name and the origin of each node.
    """

    function: str
    bindings: Mapping[str, Sequence[NodeId]]
    calls: Mapping[str, Sequence[NodeId]]
    origins: Mapping[str, Sequence[NodeId]]
    name_of: Mapping[NodeId, str]
    origin_of: Mapping[NodeId, str]

    @staticmethod
    def of(graph: DataflowGraph) -> OperationNames:
        """The names of the operations of a function."""
        bindings: dict[str, list[NodeId]] = {}
        calls: dict[str, list[NodeId]] = {}
        origins: dict[str, list[NodeId]] = {}
        name_at: dict[NodeId, str] = {}
        origin_at: dict[NodeId, str] = {}
        for number, node in graph.numbered():
            if node.kind is not NodeKind.OPERATION:
                continue
            bindings.setdefault(node.var.name, []).append(number)
            calls.setdefault(op_name_of(node.value), []).append(number)
            name_at[number] = node.var.name
            origin = origin_at[number] = origin_of(node.var, node.value)
            if origin != node.var.name:
                for each in dict.fromkeys((origin, origin.rpartition(_LINE)[0] or origin)):
                    origins.setdefault(each, []).append(number)
        return OperationNames(graph.name, bindings, calls, origins, name_at, origin_at)

    def calls_of(self, key: str) -> Sequence[NodeId]:
        """The nodes that call the op of that name."""
        return self.calls.get(key, ())

    def nodes_called(self, key: str) -> Sequence[NodeId]:
        """The nodes that a key selects: ``"name"``, ``"name#2"``, ``"name#*"``, or one of these after
        ``"main/"``.

        The name is that of a binding or an origin; ``#2`` selects the second of that name, ``#*`` all of
        them.
        """
        for name in (key, key.removeprefix(f"{self.function}/")):
            if same := self._called(name):
                return same
            called, _, number = name.rpartition("#")
            same = self._called(called)
            if name.endswith(ALL):
                return same
            if number.isdecimal() and 1 <= int(number) <= len(same):
                return (same[int(number) - 1],)
        return ()

    def _called(self, name: str) -> Sequence[NodeId]:
        bound, made = self.bindings.get(name, ()), self.origins.get(name, ())
        # Bindings derived from a binding have its name as their origin, and do not count if it still exists.
        # If a binding only happens to have the name of a node of the model, the name selects both.
        if bound and all(self.origin_of[node] == name for node in bound):
            return bound
        return tuple(sorted({*bound, *made}))

    def keys(self) -> dict[NodeId, str]:
        """A unique key for each node of the function: its origin, if no other node has it.

        Linear in the nodes.
        """
        numbers: dict[str, dict[NodeId, int]] = {}

        def number_in(called: str, node: NodeId) -> int | None:
            if called not in numbers:
                numbers[called] = {each: at for at, each in enumerate(self._called(called), start=1)}
            return numbers[called].get(node)

        keys = {}
        for node, name in self.name_of.items():
            origin = self.origin_of[node]
            # The node's origin may be the name of a binding that still exists, which then owns the name.
            called = origin if number_in(origin, node) is not None else name
            number = number_in(called, node)
            keys[node] = called if len(numbers[called]) == 1 else f"{called}#{number}"
        return keys

    def unique_name(self, node: NodeId) -> str:
        """A name of a binding that is unique in the module."""
        name = self.name_of[node]
        same = self.bindings[name]
        return f"{self.function}/{name}" + (f"#{same.index(node) + 1}" if len(same) > 1 else "")

    def op(self, node: NodeId) -> str:
        """The name of the op that a node calls."""
        return next(name for name, nodes in self.calls.items() if node in nodes)

    def all(self) -> Iterator[str]:
        """All binding names, op names and origins."""
        yield from self.bindings
        yield from self.calls
        yield from self.origins
