"""Settling: vertices move between the runs that validity leaves open to them, so that fewer values cross.

Waves put a vertex into the first run that can take it. A constant's reshape then sits in the first region and
its value crosses to the tenth, where its only consumer is; it may as well sit there::

      run 0: {a, r}   host   run 1: {c}      a -> host -> c, r -> c:   r may join c
"""

from __future__ import annotations

from annotated_region.graphs import Dag
from annotated_region.grouping.problem import GroupingProblem
from annotated_region.grouping.waves import Positions, turned

__all__ = ["crossings", "settle"]

_CANDIDATES = 8
"""How many runs are tried for one vertex; a bound that keeps hubs linear."""


def settle(problem: GroupingProblem, positions: Positions) -> Positions:
    """Positions with the same runs, or fewer, and no more values that cross between runs.

    Notes
    -----
    One pass from the sinks moves vertices to later runs, one from the sources moves vertices to earlier ones.
    In the first, every consumer of a vertex is final when the vertex is looked at, so the latest run that it
    may move to is known, and moving later never breaks what holds towards its producers; the second pass is
    the same on the reversed graph. A vertex moves only where it strictly lowers the number of distinct
    (value, run) pairs that cross. O(n + m), for at most 8 runs are tried for each vertex. This is the
    move-based refinement of Moreira, Popp and Schulz, "Graph partitioning with acyclicity constraints"
    (2017), with the exact range for each move.
    """
    later = _pull(problem, positions)
    return _compact(turned(_pull(problem.reversed(), turned(later))))


def crossings(problem: GroupingProblem, positions: Positions) -> int:
    """The number of distinct (value, destination) pairs that cross between runs, and to and from the host.

    Each vertex makes one value; all of the host is one destination, and values inside it do not cross.
    """
    total = 0
    for vertex, targets in enumerate(problem.dag.successors):
        total += len({positions[target] for target in targets} - {positions[vertex]})
    return total


def _pull(problem: GroupingProblem, positions: Positions) -> Positions:
    """Move vertices to later runs, consumers first."""
    dag, colours = problem.dag, problem.colours
    books = _Books(dag, list(positions))
    colour_of = {run: colour for run, colour in zip(positions, colours, strict=True) if colour is not None}
    end = len(dag)
    latest = [end] * len(dag)  # of a host: the last run that may feed it
    for vertex in reversed(problem.topological):
        colour = colours[vertex]
        bound = end
        for target in dag.successors[vertex]:
            kind = colours[target]
            if kind is None:
                bound = min(bound, latest[target])
            else:
                bound = min(bound, books.positions[target] - (kind != colour))
        latest[vertex] = bound
        if colour is not None and bound > books.positions[vertex]:
            near = [run for run in books.near(vertex) if run <= bound and colour_of.get(run) == colour]
            books.move(vertex, near[:_CANDIDATES])
    return books.positions


class _Books:
    """Positions, and how often each value is used in each run."""

    __slots__ = ("_dag", "_users", "positions")

    def __init__(self, dag: Dag, positions: Positions) -> None:
        self._dag = dag
        self.positions = positions
        self._users: list[dict[int, int]] = []  # for each vertex, run -> users there; run -1 is the host
        for targets in dag.successors:
            count: dict[int, int] = {}
            for target in targets:
                run = positions[target]
                count[run] = count.get(run, 0) + 1
            self._users.append(count)

    def near(self, vertex: int) -> list[int]:
        """The runs later than the vertex's own that hold a neighbour or a sibling, each once."""
        runs = list(self._users[vertex])
        for source in self._dag.predecessors[vertex][:_CANDIDATES]:
            runs.append(self.positions[source])
            if len(self._users[source]) <= _CANDIDATES:
                runs.extend(self._users[source])
        own = self.positions[vertex]
        return [run for run in dict.fromkeys(runs) if run > own]

    def move(self, vertex: int, runs: list[int]) -> None:
        """Put a vertex into the run that saves most crossing pairs, if any saves more than its own."""
        own = self.positions[vertex]
        best = max((own, *runs), key=lambda run: self._saved(vertex, run)) if runs else own
        if best == own:
            return
        self.positions[vertex] = best
        for source in self._dag.predecessors[vertex]:
            count = self._users[source]
            count[own] -= 1
            if not count[own]:
                del count[own]
            count[best] = count.get(best, 0) + 1

    def _saved(self, vertex: int, run: int) -> int:
        """The (value, run) pairs that do not cross, or cross anyway, with the vertex in this run."""
        own = self.positions[vertex]
        score = int(run in self._users[vertex])
        for source in self._dag.predecessors[vertex]:
            others = self._users[source].get(run, 0) - (run == own)
            score += self.positions[source] == run or others > 0
        return score


def _compact(positions: Positions) -> Positions:
    """Positions renumbered without the runs that have become empty."""
    number = {run: index for index, run in enumerate(sorted(set(positions) - {-1}))}
    return [number.get(run, -1) for run in positions]
