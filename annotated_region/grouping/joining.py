"""Greedy joins: merges groups of one colour wherever that closes no cycle."""

from __future__ import annotations

from collections.abc import Iterator

from annotated_region.graphs import DynamicQuotient
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["join"]

_EFFORT = 8
"""All searches of one call together visit at most this many times the edges and vertices of the graph."""

_REACH = 4
"""Where groups need not be connected, a merge is tried with this many later groups of the colour."""


def join(problem: GroupingProblem, partition: Partition) -> Partition:
    """Merge groups along edges, then groups that share no edge.

    Parameters
    ----------
    problem
        Graph and limits.
    partition
        A valid grouping of the coloured vertices, in a topological order of its groups.

    Returns
    -------
    list
        A valid grouping with as many groups or fewer, in a topological order.

    Notes
    -----
    Edges between groups of one colour are tried once, in topological order: a join can only unblock two other
    groups by absorbing the paths between them, and such a path ends in an edge that is tried later. A
    rejected merge costs a search, see `DynamicQuotient`; the searches together are capped at a fixed multiple
    of n + m, so the whole is O((n + m) log n). Contracting edges greedily under a cycle check is what the
    partitioners of TVM and torch.fx do; here the check is exact.
    """
    pairs = [*_edges(problem, partition), *_siblings(problem, partition)]
    if not pairs:
        return partition
    joining = _Joining(problem, partition)
    for pair in pairs:
        joining.attempt(*pair)
    rank = {vertex: rank for rank, vertex in enumerate(problem.topological)}
    groups = (group for group in joining.quotient.groups() if problem.colours[group[0]] is not None)
    return [sorted(group, key=rank.__getitem__) for group in groups]


class _Joining:
    """The quotient graph, the weights of its groups, and the search budget."""

    __slots__ = ("_budget", "_problem", "_weight", "quotient")

    def __init__(self, problem: GroupingProblem, partition: Partition) -> None:
        self._problem = problem
        self._budget = _EFFORT * (len(problem.dag) + sum(map(len, problem.dag.successors)))
        self.quotient = DynamicQuotient(problem.dag, partition)
        self._weight = {
            self.quotient.name(group[0]): sum(problem.weights[vertex] for vertex in group)
            for group in partition
        }

    def attempt(self, left: int, right: int) -> None:
        """Merge the groups of two vertices if the limits and acyclicity allow it."""
        quotient = self.quotient
        if quotient.same(left, right):
            return
        weight = self._weight[quotient.name(left)] + self._weight[quotient.name(right)]
        budget = self._budget - quotient.steps
        if budget > 0 and self._allowed(left, right, weight) and quotient.try_merge(left, right, budget):
            self._weight[quotient.name(left)] = weight

    def _allowed(self, left: int, right: int, weight: int) -> bool:
        """Whether the limits allow merging the groups of two vertices."""
        limits = self._problem.limits_of(left)
        if limits.max_weight is not None and weight > limits.max_weight:
            return False
        if limits.accept is None:
            return True
        return self._problem.accepts([*self.quotient.members(left), *self.quotient.members(right)])


def _edges(problem: GroupingProblem, partition: Partition) -> list[tuple[int, int]]:
    """One edge for each pair of adjacent groups of one colour, in topological order."""
    place = [-1] * len(problem.dag)
    for index, group in enumerate(partition):
        for vertex in group:
            place[vertex] = index
    colours = problem.colours
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for vertex in problem.coloured():
        for target in problem.dag.successors[vertex]:
            if colours[target] == colours[vertex] and place[target] != place[vertex]:
                found.setdefault((place[vertex], place[target]), (vertex, target))
    return list(found.values())


def _siblings(problem: GroupingProblem, partition: Partition) -> Iterator[tuple[int, int]]:
    """Pairs of groups that need not be adjacent: each group with the next few of its colour.

    With one colour and no limits waves are already optimal, so there is nothing to gain.
    """
    if len(problem.limits) == 1 and not problem.bounded:
        return
    by_colour: dict[int | None, list[int]] = {}
    for group in partition:
        if not problem.limits_of(group[0]).connected:
            by_colour.setdefault(problem.colours[group[0]], []).append(group[0])
    for vertices in by_colour.values():
        for position, vertex in enumerate(vertices):
            for other in vertices[position + 1 : position + 1 + _REACH]:
                yield vertex, other
