"""Orders units that each run as a whole: regions, composites, single nodes."""

from __future__ import annotations

from collections.abc import Iterable

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import RegionCycleError
from annotated_region.graphs import CycleError, program_order
from annotated_region.ids import NodeId
from annotated_region.origins import described

__all__ = ["in_order"]

Nodes = tuple[NodeId, ...]


def in_order(graph: DataflowGraph, units: Iterable[Nodes]) -> list[Nodes]:
    """Disjoint units in topological order.

    Of the ready units, the one with the lowest first number comes first, so the program order is kept
    wherever possible (`annotated_region.graphs.program_order`).

    Raises
    ------
    RegionCycleError
        Units depend on each other in a cycle.

    Notes
    -----
    O(n log n + edges) for n units.
    """
    listed = sorted(units)
    if all(len(unit) == 1 for unit in listed):
        return listed  # nodes are numbered along the edges
    nodes = [node for unit in listed for node in unit]
    local = {node: index for index, node in enumerate(nodes)}
    inside = graph.dag.induced(nodes)
    try:
        order = program_order(inside, [[local[node] for node in unit] for unit in listed])
    except CycleError as error:
        stuck = next(block for block in error.cycle if len(block) > 1)  # nodes are in program order
        names = ", ".join(described(graph.nodes[nodes[vertex]].var) for vertex in stuck)
        raise RegionCycleError(
            f"{graph.name}: {names} cannot run as one unit: a node outside depends on some of them and "
            "others depend on it; split them, or run ResolveConflicts, which drops such composites"
        ) from error
    return [tuple(nodes[vertex] for vertex in block) for block in order]
