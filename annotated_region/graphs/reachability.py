"""What can be reached along edges, and what hangs together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["connected_parts", "reached"]

V = TypeVar("V", bound=int)


def reached(starts: Iterable[V], neighbours: Callable[[V], Iterable[V]]) -> dict[V, None]:
    """The vertices that paths from the starts lead to, the starts included, breadth first.

    Parameters
    ----------
    starts
        Where to start.
    neighbours
        Where edges lead from a vertex; called once for each vertex that is reached. Vertices may have any
        numbers.

    Notes
    -----
    O(the vertices reached and the edges that leave them).

    Examples
    --------
    >>> list(reached([0], {0: [2], 1: [0], 2: [0, 3], 3: []}.__getitem__))
    [0, 2, 3]
    """
    seen = dict.fromkeys(starts)
    queue = list(seen)
    for vertex in queue:  # grows while it is walked
        for other in neighbours(vertex):
            if other not in seen:
                seen[other] = None
                queue.append(other)
    return seen


def connected_parts(vertices: Iterable[V], neighbours: Callable[[V], Iterable[V]]) -> Iterator[list[V]]:
    """The connected parts of some vertices, each in the order in which `vertices` lists them.

    Parameters
    ----------
    vertices
        The vertices to part. Parts come in the order of their first vertices.
    neighbours
        The vertices that share an edge with a vertex, in either direction; others than `vertices` are
        ignored. That ``b in neighbours(a)`` whenever ``a in neighbours(b)`` is not checked.

    Notes
    -----
    O(k log k + the edges at the k vertices), however large the rest of the graph is.

    Examples
    --------
    >>> list(connected_parts([5, 2, 9], {2: [9], 5: [1], 9: [2]}.__getitem__))
    [[5], [2, 9]]
    """
    rank = {vertex: index for index, vertex in enumerate(vertices)}
    left = dict.fromkeys(rank)
    while left:
        start = next(iter(left))
        del left[start]
        part = [start]
        for vertex in part:  # grows while it is walked
            for other in neighbours(vertex):
                if other in left:
                    del left[other]
                    part.append(other)
        yield sorted(part, key=rank.__getitem__)
