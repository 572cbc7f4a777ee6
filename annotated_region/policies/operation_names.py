"""The names by which users refer to operations: of a binding, of an op, of what a binding was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.ids import NodeId
from annotated_region.origins import origin_of
from annotated_region.regions.op_names import op_name_of

__all__ = ["ALL", "OperationNames"]

ALL = "#*"
"""What makes a key mean all bindings that its name fits."""

_LINE = " ("


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
    origins
        By an origin that is not the binding's own name, the nodes that come from it; an origin with a line of
        source, ``"layers.0.query (model.py:42)"``, also stands without the line.
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
        """The nodes that a key means: ``"name"``, ``"name#2"``, ``"name#*"``, or these behind ``"main/"``.

        The name is that of a binding or of what it comes from; ``#2`` means the second one of that name,
        ``#*`` all of them.
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
        # What was derived of a binding comes from it, but does not have its name. A binding that merely
        # happens to be called like a node of the model is another matter: then the name means both.
        if bound and all(self.origin_of[node] == name for node in bound):
            return bound
        return tuple(sorted({*bound, *made}))

    def keys(self) -> dict[NodeId, str]:
        """For each node a name that means it alone in its function: its origin, where nothing else has that.

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
            # A node may come from a binding that still exists, which alone has that name then.
            called = origin if number_in(origin, node) is not None else name
            number = number_in(called, node)
            keys[node] = called if len(numbers[called]) == 1 else f"{called}#{number}"
        return keys

    def unique_name(self, node: NodeId) -> str:
        """The name of a binding which no other binding of the module has."""
        name = self.name_of[node]
        same = self.bindings[name]
        return f"{self.function}/{name}" + (f"#{same.index(node) + 1}" if len(same) > 1 else "")

    def op(self, node: NodeId) -> str:
        """The name of the op that a node calls."""
        return next(name for name, nodes in self.calls.items() if node in nodes)

    def all(self) -> Iterator[str]:
        """All names of bindings, of ops, and of what bindings come from."""
        yield from self.bindings
        yield from self.calls
        yield from self.origins
