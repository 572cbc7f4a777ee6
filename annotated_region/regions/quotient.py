"""The quotient of a dataflow graph: every region contracted to one vertex, and its topological order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from annotated_region.dataflow.graph import DataflowGraph

__all__ = ["Quotient", "contract", "find_cycle", "topological_order"]


@dataclass(frozen=True, slots=True)
class Quotient:
    """A contracted graph.

    Attributes
    ----------
    vertex_of
        For each node, its vertex: the number of the first node of its region, or its own number.
    successors
        For each vertex, the vertices that depend on it, without itself, each once.
    """

    vertex_of: Sequence[int]
    successors: dict[int, list[int]]


def contract(graph: DataflowGraph, regions: Iterable[Sequence[int]]) -> Quotient:
    """Contract disjoint `regions`, given as node numbers in program order. O(nodes + edges)."""
    vertex_of = list(range(len(graph.nodes)))
    for nodes in regions:
        for node in nodes:
            vertex_of[node] = nodes[0]
    successors: dict[int, dict[int, None]] = {vertex: {} for vertex in dict.fromkeys(vertex_of)}
    for consumer, edges in enumerate(graph.into):
        vertex = vertex_of[consumer]
        for edge in edges:
            if edge.producer >= 0:
                successors[vertex_of[edge.producer]][vertex] = None
    for before, after in graph.order_edges:
        successors[vertex_of[before]][vertex_of[after]] = None
    return Quotient(
        vertex_of,
        {vertex: [other for other in after if other != vertex] for vertex, after in successors.items()},
    )


def topological_order(quotient: Quotient) -> list[int] | None:
    """An order of the vertices along the edges, or None if there is a cycle.

    Of the vertices that could come next, the one that the program names first comes next (Kahn 1962,
    with a heap), so the order is the program's wherever that is possible. O(V log V + E).
    """
    waiting = dict.fromkeys(quotient.successors, 0)
    for followers in quotient.successors.values():
        for vertex in followers:
            waiting[vertex] += 1
    ready = [vertex for vertex, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        vertex = heapq.heappop(ready)
        order.append(vertex)
        for after in quotient.successors[vertex]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, after)
    return order if len(order) == len(waiting) else None


def find_cycle(quotient: Quotient) -> list[int]:
    """The vertices of some cycle, in order from the lowest; empty if there is none. O(V + E)."""
    indegree = dict.fromkeys(quotient.successors, 0)
    for followers in quotient.successors.values():
        for vertex in followers:
            indegree[vertex] += 1
    ready = [vertex for vertex, count in indegree.items() if count == 0]
    while ready:
        for after in quotient.successors[ready.pop()]:
            indegree[after] -= 1
            if indegree[after] == 0:
                ready.append(after)
    # Every vertex left has a predecessor among those left, so walking back must meet itself.
    before = {
        after: vertex
        for vertex in quotient.successors
        if indegree[vertex] > 0
        for after in quotient.successors[vertex]
        if indegree[after] > 0
    }
    if not before:
        return []
    path: dict[int, None] = {}
    vertex = min(before)
    while vertex not in path:
        path[vertex] = None
        vertex = before[vertex]
    walked = list(path)
    cycle = walked[walked.index(vertex) :][::-1]
    # Edges go from lower to higher numbers, so the lowest vertex of a cycle is a region.
    lowest = cycle.index(min(cycle))
    return cycle[lowest:] + cycle[:lowest]
