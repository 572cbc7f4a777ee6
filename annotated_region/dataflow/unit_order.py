"""An order for units of nodes, each of which runs as a whole: regions, composites, single nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import RegionCycleError

__all__ = ["in_order"]

Nodes = tuple[int, ...]


def in_order(graph: DataflowGraph, units: Iterable[Nodes]) -> list[Nodes]:
    """Disjoint units in an order along the edges between them.

    Of those that could come next, the one with the lowest first number does (Kahn 1962, with a heap),
    so the program's order is kept wherever that is possible.

    Raises
    ------
    RegionCycleError
        Two units need each other's results.

    Notes
    -----
    O(n log n + edges) for n units.
    """
    listed = list(units)
    followers = _followers(graph, listed)
    waiting = [0] * len(listed)
    for each in followers:
        for follower in each:
            waiting[follower] += 1
    ready = [(unit[0], index) for index, unit in enumerate(listed) if not waiting[index]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _first, index = heapq.heappop(ready)
        ordered.append(listed[index])
        for follower in followers[index]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (listed[follower][0], follower))
    if len(ordered) < len(listed):
        stuck = next(unit for unit, count in zip(listed, waiting, strict=True) if count and len(unit) > 1)
        names = ", ".join(repr(graph.nodes[node].var.name) for node in stuck)
        raise RegionCycleError(
            f"{graph.name}: {names} cannot run as a whole, because something else needs a part of them and "
            "another part needs that; split them, or run ResolveConflicts, which drops such composites"
        )
    return ordered


def _followers(graph: DataflowGraph, units: Sequence[Nodes]) -> list[dict[int, None]]:
    """For each unit, the units that need it."""
    unit_of = {node: index for index, unit in enumerate(units) for node in unit}
    followers: list[dict[int, None]] = [{} for _ in units]
    for index, unit in enumerate(units):
        for node in unit:
            consumers = [edge.consumer for edge in graph.out_of[node]]
            for consumer in (*consumers, *graph.order_successors.get(node, ())):
                follower = unit_of.get(consumer, index)
                if follower != index:
                    followers[index][follower] = None
    return followers
