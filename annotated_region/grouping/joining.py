"""Greedy joins: groups of one colour become one wherever that closes no cycle."""

from __future__ import annotations

from collections.abc import Iterable

from annotated_region.grouping.dag import contract
from annotated_region.grouping.problem import Partition, Problem
from annotated_region.grouping.quotient import DynamicQuotient

__all__ = ["join"]

_EFFORT = 8
"""All searches of one call look at no more edges than this many times the size of the graph."""

_REACH = 4
"""An unconnected group is offered to this many later groups of its colour."""


def join(problem: Problem, partition: Partition) -> Partition:
    """The partition after joining groups, edge by edge and then sibling by sibling, until nothing joins.

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
    Edges that join groups of one colour are tried in topological order, twice, because a join may absorb what
    stood between two others. Every refusal by search costs what `DynamicQuotient` says; together the
    searches stop at a fixed multiple of n + m, so the whole is O((n + m) log n).
    """
    if not _worthwhile(problem, partition):
        return partition
    quotient, blocks, block_of = contract(problem.dag, partition)
    colour = [problem.colours[block[0]] for block in blocks]
    order = [block_of[group[0]] for group in partition]
    pairs = [
        (block, target)
        for block in order
        for target in quotient.successors[block]
        if colour[target] == colour[block]
    ]
    pairs.extend(_siblings(problem, order, colour))
    merged = DynamicQuotient(quotient)
    budget = _EFFORT * (len(problem.dag) + sum(map(len, problem.dag.successors)))
    for _ in range(2):
        refused = [pair for pair in pairs if not _try(problem, merged, blocks, pair, budget)]
        if len(refused) in (0, len(pairs)):
            break
        pairs = refused
    rank = {vertex: rank for rank, vertex in enumerate(problem.topological)}
    groups = ([vertex for block in group for vertex in blocks[block]] for group in merged.groups())
    return [sorted(group, key=rank.__getitem__) for group in groups if problem.colours[group[0]] is not None]


def _worthwhile(problem: Problem, partition: Partition) -> bool:
    """Whether any two groups could be joined at all, told without building the quotient graph."""
    if _sibling_joins(problem):
        return len(partition) > 1
    place = [-1] * len(problem.dag)
    for index, group in enumerate(partition):
        for vertex in group:
            place[vertex] = index
    return any(
        place[target] != place[vertex] and problem.colours[target] == problem.colours[vertex]
        for vertex in problem.coloured()
        for target in problem.dag.successors[vertex]
    )


def _sibling_joins(problem: Problem) -> bool:
    """Whether groups without an edge between them may be joined, and are not as few as can be already."""
    several = len(problem.limits) > 1 or problem.bounded
    return several and not all(limits.connected for limits in problem.limits.values())


def _siblings(problem: Problem, order: list[int], colour: list[int | None]) -> Iterable[tuple[int, int]]:
    """Pairs of groups of one colour that need no edge between them: each with the next few of its colour."""
    if not _sibling_joins(problem):
        return
    by_colour: dict[int, list[int]] = {}
    for block in order:
        kind = colour[block]
        if kind is not None and not problem.limits[kind].connected:
            by_colour.setdefault(kind, []).append(block)
    for blocks in by_colour.values():
        for position, block in enumerate(blocks):
            for other in blocks[position + 1 : position + 1 + _REACH]:
                yield block, other


def _try(
    problem: Problem,
    merged: DynamicQuotient,
    blocks: list[tuple[int, ...]],
    pair: tuple[int, int],
    budget: int,
) -> bool:
    """Join the groups of two blocks if the limits and the graph allow it; whether they are one now."""
    left, right = pair
    if merged.same(left, right):
        return True
    if merged.steps >= budget:
        return False
    if problem.limits_of(blocks[left][0]).bounded:
        both = [*merged.members(left), *merged.members(right)]
        if not problem.accepts([vertex for block in both for vertex in blocks[block]]):
            return False
    return merged.try_merge(left, right, budget - merged.steps)
