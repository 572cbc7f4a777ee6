"""Splitting: a group that its limits refuse becomes several that they accept."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from annotated_region.grouping.components import parts
from annotated_region.grouping.problem import Partition, Problem

__all__ = ["split"]


def split(problem: Problem, partition: Partition) -> Partition:
    """The partition with every refused group cut into pieces that are accepted, or single vertices.

    Parameters
    ----------
    problem
        Graph and limits.
    partition
        A valid grouping in a topological order of its groups, connected where that is asked for.

    Notes
    -----
    A refused group is laid out in a topological order that follows its edges, and cut into the longest
    accepted stretches, found by doubling and bisection, so the predicate sees O(size log size) vertices in
    all. A stretch comes before the rest of its group, hence cutting keeps the quotient acyclic; where a
    stretch is not connected and has to be, its connected parts take its place. That a smaller group is
    accepted more easily is assumed for speed only: each group returned was asked for as it is, or is a single
    vertex.
    """
    done: Partition = []
    todo = partition[::-1]
    while todo:
        group = todo.pop()
        if len(group) == 1 or problem.accepts(group):
            done.append(group)
        else:
            todo.extend(_pieces(problem, group)[::-1])
    return done


def _pieces(problem: Problem, group: list[int]) -> Partition:
    """A refused group in two pieces or more, each accepted or in need of another cut."""
    connected = problem.limits_of(group[0]).connected
    layout = _layout(problem, group)
    pieces: Partition = []
    start = 0
    while start < len(layout):
        length = _stretch(problem, layout, start)
        piece = layout[start : start + length]
        pieces.extend(parts(problem.dag, piece) if connected else [piece])
        start += length
    return pieces


def _layout(problem: Problem, group: Sequence[int]) -> list[int]:
    """A topological order of the group that, where it can, goes on next to what it laid out last."""
    inside = set(group)
    missing = {
        vertex: sum(source in inside for source in problem.dag.predecessors[vertex]) for vertex in group
    }
    rank = {vertex: index for index, vertex in enumerate(group)}
    ready = [(0, rank[vertex], vertex) for vertex in group if not missing[vertex]]
    layout: list[int] = []
    while ready:
        _, _, vertex = heappop(ready)
        layout.append(vertex)
        for target in problem.dag.successors[vertex]:
            if target in inside:
                missing[target] -= 1
                if not missing[target]:
                    heappush(ready, (-len(layout), rank[target], target))
    return layout


def _stretch(problem: Problem, layout: Sequence[int], start: int) -> int:
    """The length of a long accepted stretch from `start` on, shorter than the whole layout."""
    low, high = 1, 2
    most = min(len(layout) - start, len(layout) - 1)
    while high <= most and problem.accepts(layout[start : start + high]):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:  # invariant: `low` is accepted (or 1), `high` is refused (or too long)
        middle = (low + high) // 2
        if problem.accepts(layout[start : start + middle]):
            low = middle
        else:
            high = middle
    return low
