"""Refinement: moves vertices between runs, within what validity allows, to reduce the values that cross.

Waves assign a vertex to the first run that can take it. The reshape of a constant then lies in the first run,
and its value crosses to the tenth, where its only consumer is; it can be moved there::

      run 0: {a, r}   host   run 1: {c}      a -> host -> c, r -> c:   r may join c
"""

from __future__ import annotations

from annotated_region.graphs import Dag
from annotated_region.grouping.problem import GroupingProblem
from annotated_region.grouping.waves import Positions, turned

__all__ = ["crossings", "refined"]

_CANDIDATES = 8
"""The number of runs tried for one vertex; keeps vertices of high degree linear."""


def refined(problem: GroupingProblem, positions: Positions) -> Positions:
    """Positions with the same runs or fewer, and no more values that cross between runs.

    Notes
    -----
    One pass from the sinks moves vertices to later runs, one from the sources moves vertices to earlier ones.
    In the first, the consumers of a vertex are final when it is visited, so the latest valid run is known,
    and a later run cannot violate its dependences on producers; the second is the same pass on the reversed
    graph. A vertex moves only if that strictly lowers the number of distinct (value, run) pairs that cross.
    O(n + m), since at most 8 runs are tried per vertex. This is the move-based refinement of Moreira, Popp
    and Schulz, "Graph partitioning with acyclicity constraints" (2017), with the exact range for each move.
    """
    later = _pull(problem, positions)
    return _compact(turned(_pull(problem.reversed(), turned(later))))


def crossings(problem: GroupingProblem, positions: Positions) -> int:
    """The number of distinct (value, destination) pairs that cross between runs, and to and from the host.

    Each vertex produces one value. The host is a single destination, and values within it do not cross.
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
    latest = [end] * len(dag)  # for a host: the last run that may feed it
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
    """Positions, and the number of users of each value in each run."""

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
        """The distinct later runs that contain a user or a sibling of the vertex."""
        runs = list(self._users[vertex])
        for source in self._dag.predecessors[vertex][:_CANDIDATES]:
            runs.append(self.positions[source])
            if len(self._users[source]) <= _CANDIDATES:
                runs.extend(self._users[source])
        own = self.positions[vertex]
        return [run for run in dict.fromkeys(runs) if run > own]

    def move(self, vertex: int, runs: list[int]) -> None:
        """Move a vertex to the candidate run that saves most crossing pairs, if that beats its own run."""
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
        """The (value, run) pairs at a vertex that add no crossing if the vertex is in this run."""
        own = self.positions[vertex]
        score = int(run in self._users[vertex])
        for source in self._dag.predecessors[vertex]:
            others = self._users[source].get(run, 0) - (run == own)
            score += self.positions[source] == run or others > 0
        return score


def _compact(positions: Positions) -> Positions:
    """Positions renumbered without empty runs."""
    number = {run: index for index, run in enumerate(sorted(set(positions) - {-1}))}
    return [number.get(run, -1) for run in positions]
