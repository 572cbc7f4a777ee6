"""The connected pieces of a set of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from annotated_region.dataflow.graph import DataflowGraph

__all__ = ["pieces"]


def pieces(graph: DataflowGraph, nodes: Iterable[int]) -> Iterator[list[int]]:
    """The connected pieces of a region. O(its nodes and the edges around them)."""
    left = dict.fromkeys(nodes)
    while left:
        start = next(iter(left))
        del left[start]
        piece, stack = [], [start]
        while stack:
            node = stack.pop()
            piece.append(node)
            producers = [edge.producer for edge in graph.into[node]]
            for other in producers + [edge.consumer for edge in graph.out_of[node]]:
                if other in left:
                    del left[other]
                    stack.append(other)
        yield piece
