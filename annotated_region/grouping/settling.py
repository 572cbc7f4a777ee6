"""Settling: vertices move between the runs that validity leaves open to them, so that fewer values cross.

Waves put a vertex into the first run that can take it. A constant's reshape then sits in the first region and
its value crosses to the tenth, where its only consumer is; it may as well sit there::

      run 0: {a, r}   host   run 1: {c}      a -> host -> c, r -> c:   r may join c
"""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.grouping.dag import Dag
from annotated_region.grouping.problem import Problem
from annotated_region.grouping.waves import Positions, turned

__all__ = ["crossings", "settle"]

_CANDIDATES = 8
"""How many runs are tried for one vertex; a bound that keeps hubs linear."""


def settle(problem: Problem, positions: Positions) -> Positions:
    """Positions with the same runs, or fewer, and no more values that cross between runs.

    Notes
    -----
    One pass from the sinks moves vertices to later runs, one from the sources moves vertices to earlier ones. In the
    first, every consumer of a vertex is final when the vertex is looked at, so the latest run that it may move to
    is known, and moving later never breaks what holds towards its producers; the second pass is the same on the
    reversed graph. A vertex moves only where it strictly lowers the number of distinct (value, run) pairs that
    cross. O(n + m), for at most 8 runs are tried for each vertex. This is the move-based refinement of Moreira,
    Popp and Schulz, "Graph partitioning with acyclicity constraints" (2017), with the exact range for each move.
    """
    later = _pull(problem, positions)
    return _compact(turned(_pull(problem.reversed(), turned(later))))


def crossings(problem: Problem, place: Sequence[int | None]) -> int:
    """The number of distinct (value, destination) pairs that cross.

    Parameters
    ----------
    problem
        The graph; each vertex makes one value.
    place
        The group of each vertex; hosts share the place None, and values between hosts do not count.
    """
    total = 0
    for vertex, targets in enumerate(problem.dag.successors):
        total += len({place[target] for target in targets} - {place[vertex]})
    return total


def _pull(problem: Problem, positions: Positions) -> Positions:
    """Move vertices to later runs, consumers first."""
    dag, colours = problem.dag, problem.colours
    backwards = problem.topological[::-1]
    positions = list(positions)
    colour_of = {positions[vertex]: colours[vertex] for vertex in backwards if colours[vertex] is not None}
    users = _users(dag, positions)
    end = len(dag)
    latest = [end] * len(dag)  # of a host: the last run that may feed it
    for vertex in backwards:
        bound = end
        for target in dag.successors[vertex]:
            if colours[target] is None:
                bound = min(bound, latest[target])
            else:
                same = colours[target] == colours[vertex]
                bound = min(bound, positions[target] - (not same))
        latest[vertex] = bound
        if colours[vertex] is not None and bound > positions[vertex]:
            choices = _choices(dag, vertex, positions, users, bound, colour_of)
            _move(dag, vertex, _best(dag, vertex, choices, positions, users), positions, users)
    return positions


def _users(dag: Dag, positions: Positions) -> list[dict[int, int]]:
    """For each vertex the runs that use its value, with the number of users there; -1 is the host."""
    users: list[dict[int, int]] = []
    for targets in dag.successors:
        count: dict[int, int] = {}
        for target in targets:
            run = positions[target]
            count[run] = count.get(run, 0) + 1
        users.append(count)
    return users


def _choices(
    dag: Dag,
    vertex: int,
    positions: Positions,
    users: list[dict[int, int]],
    bound: int,
    colour_of: dict[int, int | None],
) -> list[int]:
    """The vertex's own run, then runs of its colour up to `bound` that hold a neighbour or a sibling."""
    own = positions[vertex]
    near = list(users[vertex])
    for source in dag.predecessors[vertex][:_CANDIDATES]:
        near.append(positions[source])
        if len(users[source]) <= _CANDIDATES:
            near.extend(users[source])
    colour = colour_of[own]
    fit = [run for run in dict.fromkeys(near) if own < run <= bound and colour_of.get(run) == colour]
    return [own, *fit[: _CANDIDATES - 1]]


def _best(
    dag: Dag, vertex: int, choices: list[int], positions: Positions, users: list[dict[int, int]]
) -> int:
    """The choice that saves the most crossing pairs; the first among equals, so nothing moves for nothing."""
    own = positions[vertex]

    def saved(run: int) -> int:
        score = int(run in users[vertex])
        for source in dag.predecessors[vertex]:
            others = users[source].get(run, 0) - (run == own)
            score += positions[source] == run or others > 0
        return score

    return max(choices, key=saved) if len(choices) > 1 else own


def _move(dag: Dag, vertex: int, run: int, positions: Positions, users: list[dict[int, int]]) -> None:
    """Put a vertex into another run and keep the books."""
    own = positions[vertex]
    if run == own:
        return
    positions[vertex] = run
    for source in dag.predecessors[vertex]:
        count = users[source]
        count[own] -= 1
        if not count[own]:
            del count[own]
        count[run] = count.get(run, 0) + 1


def _compact(positions: Positions) -> Positions:
    """Positions renumbered without the runs that have become empty."""
    number = {run: index for index, run in enumerate(sorted(set(positions) - {-1}))}
    return [number.get(run, -1) for run in positions]
