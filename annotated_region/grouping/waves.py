"""Waves: run everything of one colour that is ready, then the next colour; hosts run in between.

A grouping without limits is an order of runs: write the quotient graph in topological order and each group is
one run of its colour. So the fewest groups are the fewest runs, and a run is never worse for taking more.
"""

from __future__ import annotations

from collections.abc import Callable

from annotated_region.graphs import Dag
from annotated_region.grouping.problem import GroupingProblem

__all__ = ["POLICIES", "Positions", "tails", "turned", "waves"]

Positions = list[int]
"""For each coloured vertex the number of its run; all vertices of one run have one colour. -1 for host."""

Policy = Callable[[int, int, int], tuple[int, int]]
"""The merit of a colour from what is ready of it: how many vertices, the sum and the largest of their
tails."""

POLICIES: tuple[Policy, ...] = (
    lambda _count, total, longest: (longest, total),
    lambda _count, total, longest: (total, longest),
    lambda count, total, _longest: (count, total),
)


def waves(problem: GroupingProblem, tail: list[int], policy: Policy) -> Positions:
    """Positions from running the colour of most merit, as far as it goes, until nothing is left.

    Parameters
    ----------
    problem
        The graph and its colours.
    tail
        For each vertex, the runs that still have to follow on some path; see `tails`.
    policy
        Which colour goes next.

    Notes
    -----
    O(n + m), and O(k) a run to choose among k colours.

    With one colour there is nothing to choose and the run of a vertex is its level: 0 without predecessors,
    the level of a coloured predecessor, one more than the level of a host predecessor, whichever is largest,
    where a host has the largest level before it. The number of runs is then the least possible: on the path
    that gives the last level its number, the levels are separated by host vertices, and no group may hold two
    vertices of a path with a host in between.

    With several colours the fewest runs are the shortest common supersequence of the colours along all paths,
    which is NP-hard for two colours already (Räihä and Ukkonen, "The shortest common supersequence problem
    over binary alphabet is NP-complete", 1981). Choosing by the longest remaining path is the majority merge
    of Branke, Middendorf and Schneider, "Improved heuristics and a genetic algorithm for finding short
    supersequences" (1998).
    """
    dag, colours = problem.dag, problem.colours
    missing = [len(sources) for sources in dag.predecessors]
    ready = {colour: _ReadyVertices() for colour in problem.limits}
    positions = [-1] * len(dag)
    freed = [vertex for vertex, count in enumerate(missing) if not count]
    run = 0
    while True:
        for vertex in freed:  # grows: what a host frees may be a host again
            colour = colours[vertex]
            if colour is None:
                freed.extend(_finish(dag, vertex, missing))
            else:
                ready[colour].add(vertex, tail[vertex])
        chosen = max(ready, key=lambda colour: ready[colour].merit(policy), default=None)
        if chosen is None or not ready[chosen].vertices:
            return positions
        queue, freed = ready[chosen].vertices, []
        ready[chosen] = _ReadyVertices()
        for vertex in queue:  # grows: what the run itself makes ready joins it
            positions[vertex] = run
            for target in _finish(dag, vertex, missing):
                (queue if colours[target] == chosen else freed).append(target)
        run += 1


class _ReadyVertices:
    """The vertices of one colour that could run now, and the measures that policies judge by."""

    __slots__ = ("_longest", "_total", "vertices")

    def __init__(self) -> None:
        self.vertices: list[int] = []
        self._total = 0
        self._longest = 0

    def add(self, vertex: int, tail: int) -> None:
        """Take in one vertex."""
        self.vertices.append(vertex)
        self._total += tail
        self._longest = max(self._longest, tail)

    def merit(self, policy: Policy) -> tuple[bool, tuple[int, int]]:
        """What running this colour next is worth; nothing beats nothing."""
        return bool(self.vertices), policy(len(self.vertices), self._total, self._longest)


def _finish(dag: Dag, vertex: int, missing: list[int]) -> list[int]:
    """The vertices that wait for nothing any more once `vertex` is done."""
    freed = []
    for target in dag.successors[vertex]:
        missing[target] -= 1
        if not missing[target]:
            freed.append(target)
    return freed


def tails(problem: GroupingProblem) -> list[int]:
    """For each vertex the most runs on a path from it, its own included: a bound on what is still to come.

    Notes
    -----
    O(n + m). An edge inside one colour continues a run; every other edge to a coloured vertex starts one.
    """
    dag, colours = problem.dag, problem.colours
    tail = [0] * len(dag)
    for vertex in reversed(problem.topological):
        colour = colours[vertex]
        longest = 0 if colour is None else 1
        for target in dag.successors[vertex]:
            longest = max(longest, tail[target] + (colour is not None and colours[target] != colour))
        tail[vertex] = longest
    return tail


def turned(positions: Positions) -> Positions:
    """Positions on the reversed graph as positions on the graph itself: counted from the other end."""
    last = max(positions, default=-1)
    return [last - position if position >= 0 else -1 for position in positions]
