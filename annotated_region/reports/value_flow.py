"""Which op makes a value and which ones read it, seen through tuples and other names; for reports."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax

from annotated_region.dataflow.graph import RESULT, DataflowGraph, NodeKind
from annotated_region.dataflow.leaves import Leaf, flatten, leaves_of
from annotated_region.findings.function_report import ValueReport
from annotated_region.ids import NodeId
from annotated_region.regions.networks import bytes_of
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["values_of"]


def values_of(graph: DataflowGraph, positions: Mapping[NodeId, int]) -> tuple[ValueReport, ...]:
    """The values that ops make or read, in the order of their first readers.

    Parameters
    ----------
    graph
        The dataflow graph of the function.
    positions
        For each node that counts as an op, its position in the report.

    Notes
    -----
    O(nodes + edges), times the fields of tuples. Constants are no values: they belong to their readers.
    """

    def definition(var: relax.Expr) -> relax.Expr | None:
        number = graph.number_of(var)
        if number is None or graph.nodes[number].kind is not NodeKind.STRUCTURE:
            return None
        return graph.nodes[number].value

    readers: dict[Leaf, list[NodeId]] = {}
    for edge in graph.edges():
        if (edge.consumer in positions or edge.consumer == RESULT) and not graph.is_literal(edge.producer):
            for leaf in flatten(leaves_of(graph.producer_var(edge.producer), definition)):
                if not isinstance(leaf.root, Constant):
                    readers.setdefault(leaf, []).append(edge.consumer)
    return tuple(_value(graph, positions, leaf, consumers) for leaf, consumers in readers.items())


def _value(
    graph: DataflowGraph, positions: Mapping[NodeId, int], leaf: Leaf, consumers: list[NodeId]
) -> ValueReport:
    number = graph.number_of(leaf.root)
    return ValueReport(
        leaf.name,
        None if number is None else positions.get(number),
        tuple(sorted({positions[node] for node in consumers if node != RESULT})),
        RESULT in consumers,
        bytes_of(leaf.ty),
    )
