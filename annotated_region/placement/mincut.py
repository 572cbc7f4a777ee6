"""One target against the host: the cheapest assignment is a minimum cut.

A node on the source's side runs on the target, one on the sink's side on the host; what is cut is what is
paid (Stone 1977, "Multiprocessor scheduling with the aid of network flow algorithms"). A value that several
nodes read gets a vertex of its own for each direction, so that it is paid once:

        source --host--> node --target--> sink        what the node costs where it ends up
        producer --down--> b, b --inf--> readers      made on the target, read on the host
        readers --inf--> a, a --up--> producer        made on the host, read on the target

Launches, convexity and what flows between two regions of the target are left out, so the cut is a lower
bound: every placement that uses the target pays at least the cut and one launch.
"""

from __future__ import annotations

import math
from collections import deque

from annotated_region.placement.problem import Problem

__all__ = ["minimum_cut"]


def minimum_cut(problem: Problem) -> tuple[float, list[int]] | None:
    """The least cost without launches, and the units that reach it.

    Parameters
    ----------
    problem
        One target; its costs are on a grid, so that flows add up exactly.

    Returns
    -------
    tuple or None
        None if there is more than one target, or composites, or no finite cut.

    Notes
    -----
    Dinic 1970: O(vertices squared x edges) at worst, in practice a few passes over the edges.
    """
    if problem.host != 1 or any(len(unit.nodes) > 1 for unit in problem.units):
        return None
    costs = _node_costs(problem)
    network = _network(problem, costs)
    flow = network.saturate()
    if math.isinf(flow):
        return None
    on_target = network.reached_from_source()
    units = []
    for node in range(problem.nodes):
        place = 0 if on_target[node] else 1
        options = [unit for unit in problem.units_of[node] if problem.units[unit].place == place]
        units.append(min(options, key=lambda unit: problem.units[unit].cost))
    return flow, units


def _node_costs(problem: Problem) -> list[tuple[float, float]]:
    """For each node, the least cost on the target and on the host; infinite where it cannot run."""
    costs = []
    for units in problem.units_of:
        offered = [problem.units[unit] for unit in units]
        target, host = (
            min((unit.cost for unit in offered if unit.place == place), default=math.inf) for place in (0, 1)
        )
        costs.append((target, host))
    return costs


def _network(problem: Problem, costs: list[tuple[float, float]]) -> _Network:
    """The flow network of the module's picture; the vertices of nodes come first."""
    network = _Network(problem.nodes)
    for node, (target, host) in enumerate(costs):
        network.join(network.source, node, host)
        network.join(node, network.sink, target)
    for value in problem.values:
        down, up = value.transfer[0][1], value.transfer[1][0]
        origin = network.sink if value.producer is None else value.producer
        if value.host_reads and value.producer is not None:
            network.join(origin, network.sink, down)
        elif value.producer is not None and down > 0 and value.consumers:
            network.fan_out(origin, value.consumers, down)
        if up > 0 and value.consumers:
            network.fan_in(value.consumers, origin, up)
    return network


class _Network:
    """A flow network with residual capacities, edges in pairs."""

    def __init__(self, nodes: int) -> None:
        self.source, self.sink = nodes, nodes + 1
        self._edges_of: list[list[int]] = [[] for _ in range(nodes + 2)]
        self._head: list[int] = []
        self._room: list[float] = []

    def join(self, tail: int, head: int, room: float) -> None:
        """Add an edge."""
        for end, other, capacity in ((tail, head, room), (head, tail, 0.0)):
            self._edges_of[end].append(len(self._head))
            self._head.append(other)
            self._room.append(capacity)

    def fan_out(self, tail: int, heads: tuple[int, ...], room: float) -> None:
        """Pay `room` once if `tail` is cut from any of `heads`."""
        middle = self._middle(heads)
        self.join(tail, middle, room)
        if len(heads) > 1:
            for head in heads:
                self.join(middle, head, math.inf)

    def fan_in(self, tails: tuple[int, ...], head: int, room: float) -> None:
        """Pay `room` once if any of `tails` is cut from `head`."""
        middle = self._middle(tails)
        self.join(middle, head, room)
        if len(tails) > 1:
            for tail in tails:
                self.join(tail, middle, math.inf)

    def _middle(self, ends: tuple[int, ...]) -> int:
        """A new vertex, or the only end itself."""
        if len(ends) == 1:
            return ends[0]
        self._edges_of.append([])
        return len(self._edges_of) - 1

    def saturate(self) -> float:
        """Push as much flow as fits, and say how much; infinite if nothing bounds it."""
        total = 0.0
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
        """For each vertex, whether it is on the source's side of the cut."""
        return [level >= 0 for level in self._levels()]

    def _levels(self) -> list[int]:
        """Distance from the source over edges with room; -1 for what is not reached."""
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
        """The edges of a path to the sink that climbs one level an edge; empty if none is left."""
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
