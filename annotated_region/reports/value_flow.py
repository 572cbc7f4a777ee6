"""Which op makes a value and which ones read it, seen through tuples and other names; for reports."""

from __future__ import annotations

from collections.abc import Mapping

from annotated_region.dataflow.graph import RESULT, DataflowGraph
from annotated_region.dataflow.leaves import Leaf, readers_of_leaves
from annotated_region.findings.function_report import ValueReport
from annotated_region.findings.wording import words_for_type
from annotated_region.functions.sizes import bytes_of
from annotated_region.ids import NodeId

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
    readers = readers_of_leaves(graph, lambda consumer: consumer in positions or consumer == RESULT)
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
        words_for_type(leaf.ty),
    )
