"""Orders the readers of a value around the nodes that may overwrite it.

Relax values are immutable, with three exceptions: ``call_tir_inplace`` and ``call_inplace_packed`` write into
an argument, and a call with effects may. Readers of the argument before such a call must stay before it,
readers after it must stay after it, and the same holds for all values that may alias it: tuples, fields,
other names, and the results of everything but ops. Printing and asserting only read.

Alias classes are kept as disjoint sets; each lists the readers since its last overwrite, and a union moves
the shorter list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import tvm
from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph, DataflowNode, NodeKind
from annotated_region.graphs import DisjointSets
from annotated_region.ids import NodeId

__all__ = ["order_around_overwriting"]


def order_around_overwriting(
    graph: DataflowGraph, overwriting: Collection[NodeId]
) -> list[tuple[NodeId, NodeId]]:
    """Pairs of nodes that must run in this order.

    Parameters
    ----------
    graph
        The graph of a function.
    overwriting
        The nodes that may overwrite their operands.

    Notes
    -----
    O((V + E) log V).
    """
    return list(_Memory(graph).pairs(set(overwriting)))


@dataclass(slots=True)
class _Class:
    """A class of values that may alias.

    Attributes
    ----------
    readers
        The nodes that read one of them since the last overwrite.
    writers
        The nodes that overwrote it last; several only if classes with different ones were united.
    """

    readers: list[NodeId] = field(default_factory=list)
    writers: list[NodeId] = field(default_factory=list)

    def take(self, other: _Class) -> None:
        self.readers += other.readers
        self.writers += other.writers


class _Memory:
    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        # Externals have negative numbers, so this offset maps every producer to an index.
        self.externals = len(graph.externals)
        self.sets = DisjointSets(self.externals + len(graph.nodes))
        self.classes: defaultdict[int, _Class] = defaultdict(_Class)

    def pairs(self, overwriting: set[NodeId]) -> Iterator[tuple[NodeId, NodeId]]:
        for number, node in self.graph.numbered():
            used = [
                edge.producer for edge in self.graph.into[number] if not self.graph.is_literal(edge.producer)
            ]
            if node.kind is not NodeKind.STRUCTURE:
                before = dict.fromkeys(self.earlier(number, used, number in overwriting))
                yield from ((earlier, number) for earlier in before if earlier != number)
            if _may_share(node):
                for producer in used:
                    self.unite(number, producer)

    def earlier(self, number: NodeId, used: Iterable[NodeId], overwrites: bool) -> Iterator[NodeId]:
        """The predecessors of a node that reads, or overwrites, its operands; also records the access."""
        for root in dict.fromkeys(map(self.root, used)):
            memory = self.classes[root]
            yield from memory.writers
            if overwrites:
                yield from memory.readers
                self.classes[root] = _Class(writers=[number])
            else:
                memory.readers.append(number)

    def root(self, producer: NodeId) -> int:
        return self.sets.find(producer + self.externals)

    def unite(self, left: NodeId, right: NodeId) -> None:
        large, small = self.root(left), self.root(right)
        if large == small:
            return
        if len(self.classes[large].readers) < len(self.classes[small].readers):
            large, small = small, large
        self.sets.unite(large, small)
        self.classes[large].take(self.classes.pop(small))


def _may_share(node: DataflowNode) -> bool:
    """Whether the result may alias an operand: only ops guarantee fresh memory."""
    call = node.value
    return not (
        node.kind is NodeKind.OPERATION and isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op)
    )
