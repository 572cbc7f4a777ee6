"""Splitting: cuts groups that violate their limits into groups that satisfy them."""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.grouping.components import parts
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["split"]


def split(problem: GroupingProblem, partition: Partition) -> Partition:
    """The partition with every rejected group cut into accepted groups or single vertices.

    Parameters
    ----------
    problem
        Graph and limits.
    partition
        A valid grouping in a topological order of its groups, connected where required.

    Notes
    -----
    A rejected group is laid out in a topological order that follows its edges, and cut into the longest
    accepted segments, found by doubling and bisection, so the predicate sees O(size log size) vertices in
    total. A segment precedes the rest of its group, so cutting keeps the quotient acyclic; a segment that is
    not connected but has to be is replaced by its connected parts. Bisection assumes that smaller groups are
    accepted more easily, but only for speed: each returned group was itself accepted, or is a single vertex.
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
    """A rejected group cut into at least two pieces, each accepted or to be cut again."""
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
    """A topological order of the group in which a vertex closely follows its predecessors.

    Depth-first from the sinks, shallowest first: each sink pulls in its missing predecessors, so the front of
    the layout is as connected as the group allows, and side branches are not postponed.
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
    """The length of a long accepted segment from `start`, shorter than the whole layout."""
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
