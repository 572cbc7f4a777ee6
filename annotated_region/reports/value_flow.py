"""The producer and the consumers of each value, through tuples and aliases; for reports."""

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
    """The values that ops produce or consume, in the order of their first consumers.

    Parameters
    ----------
    graph
        The dataflow graph of the function.
    positions
        The position in the report of each node that counts as an op.

    Notes
    -----
    O(nodes + edges), times the fields of tuples. Constants are not included: they belong to their consumers.
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
