"""Runs cut into weakly connected parts, for colours whose groups have to hang together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from annotated_region.graphs import Dag, DisjointSets, connected_parts
from annotated_region.grouping.problem import GroupingProblem, Partition
from annotated_region.grouping.waves import Positions

__all__ = ["components", "cut_runs", "parts"]


def components(dag: Dag, vertices: Iterable[int], key: Sequence[int]) -> Partition:
    """The weakly connected parts of the graph on `vertices`, along edges whose two ends share a key.

    Parameters
    ----------
    dag
        The graph.
    vertices
        The vertices to part, in the order in which each part shall list them.
    key
        An edge counts if both of its ends have the same key; the key of any other vertex must differ.

    Notes
    -----
    O((n + m) log n) at most; see `DisjointSets`.
    """
    sets = DisjointSets(len(dag))
    vertices = list(vertices)
    for vertex in vertices:
        for target in dag.successors[vertex]:
            if key[target] == key[vertex]:
                sets.unite(vertex, target)
    parts: dict[int, list[int]] = {}
    for vertex in vertices:
        parts.setdefault(sets.find(vertex), []).append(vertex)
    return list(parts.values())


def parts(dag: Dag, group: Sequence[int]) -> Partition:
    """The weakly connected parts of one group, in time linear in the edges at its vertices."""
    return list(connected_parts(group, lambda vertex: (*dag.successors[vertex], *dag.predecessors[vertex])))


def cut_runs(problem: GroupingProblem, positions: Positions) -> Partition:
    """The runs as groups: whole, or their weakly connected parts where the colour asks for that.

    The parts of a run stay valid: no path leaves the run and comes back, so ordering the parts among
    themselves by their edges, of which there are none, orders the quotient graph.

    Notes
    -----
    O(n + m); groups in the order of their runs, vertices in topological order.
    """
    connected = [problem.limits_of(vertex).connected for vertex in problem.coloured()]
    vertices = problem.coloured()
    whole: dict[int, list[int]] = {}
    for vertex, cut in zip(vertices, connected, strict=True):
        if not cut:
            whole.setdefault(positions[vertex], []).append(vertex)
    cut_vertices = [vertex for vertex, cut in zip(vertices, connected, strict=True) if cut]
    parts = components(problem.dag, cut_vertices, positions)
    return sorted([*whole.values(), *parts], key=lambda group: positions[group[0]])
