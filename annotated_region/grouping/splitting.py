"""Splitting: a group that its limits refuse becomes several that they accept."""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.grouping.components import parts
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["split"]


def split(problem: GroupingProblem, partition: Partition) -> Partition:
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


def _pieces(problem: GroupingProblem, group: list[int]) -> Partition:
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


def _layout(problem: GroupingProblem, group: Sequence[int]) -> list[int]:
    """A topological order of the group in which a vertex follows closely on what it needs.

    Depth-first from the shallowest last vertex on: each brings with it what is still missing before it, so
    the front of the layout is connected as far as the group allows, and side branches do not stay behind.
    """
    depth: dict[int, int] = {}
    inner: dict[int, list[int]] = {}
    last = dict.fromkeys(group)
    for vertex in group:  # topological
        inner[vertex] = sources = [source for source in problem.dag.predecessors[vertex] if source in depth]
        depth[vertex] = 1 + max((depth[source] for source in sources), default=0)
        for source in sources:
            last.pop(source, None)
    layout: dict[int, None] = {}
    entered: set[int] = set()
    stack = sorted(last, key=depth.__getitem__, reverse=True)
    while stack:
        vertex = stack[-1]
        if vertex in entered or vertex in layout:
            layout[stack.pop()] = None
        else:
            entered.add(vertex)
            missing = (source for source in inner[vertex] if source not in layout)
            stack.extend(sorted(missing, key=depth.__getitem__))  # the deepest comes first
    return list(layout)


def _stretch(problem: GroupingProblem, layout: Sequence[int], start: int) -> int:
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
