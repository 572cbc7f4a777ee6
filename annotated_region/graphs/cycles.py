"""Cycle detection: one cycle for error messages, or all vertices on or between cycles."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CycleError", "cyclic_core", "find_cycle", "indegrees", "peeled"]

Adjacency = Sequence[Sequence[int]]
"""For each vertex, its successors (or its predecessors), each once."""


class CycleError(ValueError):
    """A graph that must be acyclic is not.

    Attributes
    ----------
    cycle
        The blocks along one cycle, each the tuple of its vertices; the last feeds the first.
    """

    def __init__(self, cycle: Sequence[tuple[int, ...]]) -> None:
        blocks = " -> ".join(_name(block) for block in (*cycle, *cycle[:1]))
        super().__init__(f"the graph has a cycle: {blocks}")
        self.cycle = tuple(cycle)

    def expanded(self, blocks: Sequence[tuple[int, ...]]) -> CycleError:
        """A cycle of a quotient graph, in vertices of the contracted graph.

        Parameters
        ----------
        blocks
            The vertices that each quotient vertex stands for.
        """
        return CycleError([blocks[vertex] for (vertex,) in self.cycle])


def _name(block: tuple[int, ...]) -> str:
    """A single vertex as its number, a group in braces."""
    return str(block[0]) if len(block) == 1 else "{" + ", ".join(map(str, block)) + "}"


def indegrees(successors: Adjacency) -> list[int]:
    """The in-degree of each vertex. O(n + m)."""
    found = [0] * len(successors)
    for targets in successors:
        for target in targets:
            found[target] += 1
    return found


def peeled(successors: Adjacency, waiting: list[int]) -> list[int]:
    """The vertices that Kahn's algorithm orders, in breadth-first order.

    Parameters
    ----------
    successors
        The graph.
    waiting
        For each vertex, the number of predecessors not yet ordered. Updated in place: vertices whose count
        stays positive are on a cycle or reachable from one.

    Notes
    -----
    O(n + m). A. B. Kahn, "Topological sorting of large networks" (1962).
    """
    placed = [vertex for vertex, count in enumerate(waiting) if not count]
    for vertex in placed:  # grows while it is walked
        for target in successors[vertex]:
            waiting[target] -= 1
            if not waiting[target]:
                placed.append(target)
    return placed


def find_cycle(successors: Adjacency) -> list[int]:
    """One cycle, along the edges from its smallest vertex; empty if the graph is acyclic.

    Parameters
    ----------
    successors
        The graph; an edge from a vertex to itself is a cycle.

    Notes
    -----
    Every vertex that Kahn's algorithm leaves over has a predecessor that is left over too, so a backward walk
    from one of them must return to a visited vertex. O(n + m).

    Examples
    --------
    >>> find_cycle([[1], [3, 2], [1], []])
    [1, 2]
    >>> find_cycle([[1], []])
    []
    """
    waiting = indegrees(successors)
    if len(peeled(successors, waiting)) == len(waiting):
        return []
    before: dict[int, int] = {}
    for vertex, targets in enumerate(successors):
        if waiting[vertex]:
            for target in targets:
                before[target] = vertex  # of several predecessors, the last
    vertex = next(vertex for vertex, count in enumerate(waiting) if count)
    seen: dict[int, None] = {}
    while vertex not in seen:
        seen[vertex] = None
        vertex = before[vertex]
    walk = list(seen)
    cycle = walk[walk.index(vertex) :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def cyclic_core(successors: Adjacency) -> list[int]:
    """The vertices that lie on a cycle or on a path from one cycle to another, ascending.

    Notes
    -----
    The vertices that Kahn's algorithm leaves over in both directions. O(n + m).

    Examples
    --------
    The edge 0 -> 1 leads into the cycle 1 <-> 2, and 2 -> 3 out of it.

    >>> cyclic_core([[1], [2], [1, 3], []])
    [1, 2]
    """
    waiting = indegrees(successors)
    peeled(successors, waiting)
    left = [vertex for vertex, count in enumerate(waiting) if count]
    if not left:
        return []
    inner = [[target for target in targets if waiting[target]] for targets in successors]
    sources: list[list[int]] = [[] for _ in successors]
    for vertex in left:
        for target in inner[vertex]:
            sources[target].append(vertex)
    leaving = indegrees(sources)
    peeled(sources, leaving)
    return [vertex for vertex in left if leaving[vertex]]
