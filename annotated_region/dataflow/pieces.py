"""The connected pieces of a set of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.graphs import connected_parts
from annotated_region.ids import NodeId

__all__ = ["pieces"]


def pieces(graph: DataflowGraph, nodes: Iterable[NodeId]) -> Iterator[list[NodeId]]:
    """The pieces of a region connected by values. O(its nodes and the edges around them)."""

    def neighbours(node: NodeId) -> list[NodeId]:
        producers = [edge.producer for edge in graph.into[node]]
        return producers + [edge.consumer for edge in graph.out_of[node]]

    return connected_parts(nodes, neighbours)
