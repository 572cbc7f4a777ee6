"""Waves: run all ready vertices of one colour, then of the next; hosts run as soon as they are ready.

A grouping without limits is an order of runs: write the quotient graph in topological order and each group is
one run of its colour. So the fewest groups are the fewest runs, and a longer run is never worse.
"""

from __future__ import annotations

from collections.abc import Callable

from annotated_region.graphs import Dag
from annotated_region.grouping.problem import GroupingProblem

__all__ = ["POLICIES", "Positions", "tails", "turned", "waves"]

Positions = list[int]
"""The run of each coloured vertex; all vertices of one run have one colour. -1 for host vertices."""

Policy = Callable[[int, int, int], tuple[int, int]]
"""The merit of a colour, from its ready vertices: their number, and the sum and maximum of their tails."""

POLICIES: tuple[Policy, ...] = (
    lambda _count, total, longest: (longest, total),
    lambda _count, total, longest: (total, longest),
    lambda count, total, _longest: (count, total),
)


def waves(problem: GroupingProblem, tail: list[int], policy: Policy) -> Positions:
    """Positions from repeatedly running the colour of highest merit until no vertex is left.

    Parameters
    ----------
    problem
        The graph and its colours.
    tail
        For each vertex, the largest number of runs on a path from it; see `tails`.
    policy
        The merit by which the next colour is chosen.

    Notes
    -----
    O(n + m), plus O(k) per run to choose among k colours.

    With one colour there is nothing to choose, and the run of a vertex is its level: the maximum of 0, the
    levels of its coloured predecessors, and one more than the levels of its host predecessors, where the
    level of a host is the largest level before it. This is the least possible number of runs: on the path
    that determines the last level, consecutive levels are separated by host vertices, and no group may
    contain two vertices of a path with a host in between.

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
        for vertex in freed:  # grows: a host may free further hosts
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
        for vertex in queue:  # grows: vertices that the run makes ready join it
            positions[vertex] = run
            for target in _finish(dag, vertex, missing):
                (queue if colours[target] == chosen else freed).append(target)
        run += 1


class _ReadyVertices:
    """The ready vertices of one colour, with the measures that policies use."""

    __slots__ = ("_longest", "_total", "vertices")

    def __init__(self) -> None:
        self.vertices: list[int] = []
        self._total = 0
        self._longest = 0

    def add(self, vertex: int, tail: int) -> None:
        """Add a ready vertex."""
        self.vertices.append(vertex)
        self._total += tail
        self._longest = max(self._longest, tail)

    def merit(self, policy: Policy) -> tuple[bool, tuple[int, int]]:
        """The merit of running this colour next; a colour without ready vertices loses to all others."""
        return bool(self.vertices), policy(len(self.vertices), self._total, self._longest)


def _finish(dag: Dag, vertex: int, missing: list[int]) -> list[int]:
    """The vertices that become ready when `vertex` is done."""
    freed = []
    for target in dag.successors[vertex]:
        missing[target] -= 1
        if not missing[target]:
            freed.append(target)
    return freed


def tails(problem: GroupingProblem) -> list[int]:
    """For each vertex, the largest number of runs on a path from it, its own included: a lower bound on the
    rest.

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
    """Convert positions on the reversed graph to positions on the graph, counted from the other end."""
    last = max(positions, default=-1)
    return [last - position if position >= 0 else -1 for position in positions]
