"""Reachability and connected components over neighbour functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["connected_parts", "reached"]

V = TypeVar("V", bound=int)


def reached(starts: Iterable[V], neighbours: Callable[[V], Iterable[V]]) -> dict[V, None]:
    """The vertices reachable from `starts`, these included, breadth first.

    Parameters
    ----------
    starts
        The start vertices.
    neighbours
        The successors of a vertex; called once for each reached vertex. Vertices may be any integers.

    Notes
    -----
    O(reached vertices + edges that leave them).

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
    """The connected components of some vertices, each in the order of `vertices`.

    Parameters
    ----------
    vertices
        The vertices. Components are ordered by their first vertex.
    neighbours
        The neighbours of a vertex, in either direction; those not in `vertices` are ignored. It must be
        symmetric, which is not checked.

    Notes
    -----
    O(k log k + the edges at the k vertices), independent of the rest of the graph.

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
