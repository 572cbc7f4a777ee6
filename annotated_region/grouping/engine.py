"""The grouping engine: several strategies, the best answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotated_region.grouping.components import cut_runs
from annotated_region.grouping.dag import Dag
from annotated_region.grouping.joining import join
from annotated_region.grouping.problem import ColourLimits, Grouping, Partition, Problem
from annotated_region.grouping.settling import crossings, settle
from annotated_region.grouping.waves import all_waves

__all__ = ["group"]

_NO_LIMITS: Mapping[int, ColourLimits] = {}


def group(
    dag: Dag,
    colours: Sequence[int | None],
    weights: Sequence[int] | None = None,
    limits: Mapping[int, ColourLimits] = _NO_LIMITS,
    fixed: Sequence[Sequence[int]] = (),
) -> Grouping:
    """Put the coloured vertices into as few groups as possible, with the quotient graph acyclic.

    Parameters
    ----------
    dag
        The graph; need not be numbered topologically.
    colours
        The colour of each vertex; None for the host, whose vertices stay alone.
    weights
        The weight of each vertex; 1 if not given.
    limits
        By colour; a colour without an entry has no limits and need not be connected.
    fixed
        Disjoint sets of vertices of one colour each that have to stay together.

    Raises
    ------
    CycleError
        If the graph is cyclic, or is once the fixed groups are contracted.
    ValueError
        If the arguments do not fit together.

    Examples
    --------
    >>> group(Dag([[1, 2], [2], []]), [0, None, 0]).groups
    ((0,), (2,))
    """
    problem = Problem.of(dag, colours, weights, limits, fixed)
    candidates = [join(problem, cut_runs(problem, settle(problem, run))) for run in all_waves(problem)]
    best = min(candidates, key=lambda partition: _cost(problem, partition))
    return _answer(problem, best, len(dag))


def _cost(problem: Problem, partition: Partition) -> tuple[int, int]:
    """Groups first, values that cross second."""
    place: list[int | None] = [None] * len(problem.dag)
    for index, members in enumerate(partition):
        for vertex in members:
            place[vertex] = index
    return len(partition), crossings(problem, place)


def _answer(problem: Problem, partition: Partition, size: int) -> Grouping:
    """The partition in the caller's vertices."""
    groups = sorted(tuple(sorted(v for block in part for v in problem.blocks[block])) for part in partition)
    group_of: list[int | None] = [None] * size
    for index, members in enumerate(groups):
        for vertex in members:
            group_of[vertex] = index
    return Grouping(tuple(groups), tuple(group_of), refusals=tuple(problem.refusals))
