"""Splits runs into weakly connected parts, for colours whose groups must be connected."""

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
        The vertices; each part lists its vertices in this order.
    key
        Edges between vertices of equal key connect. A vertex outside `vertices` must have a different key.

    Notes
    -----
    O((n + m) log n) in the worst case; see `DisjointSets`.
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
    """The runs as groups: whole, or split into weakly connected parts where the colour requires connected
    groups.

    Splitting preserves validity: no path leaves a run and re-enters it, and no edge connects two parts of a
    run, so any order of the parts in place of the run keeps the quotient order topological.

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
