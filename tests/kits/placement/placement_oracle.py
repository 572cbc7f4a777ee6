"""The optimum by trying everything: every choice of units and every grouping into regions.

It shares no code with the engine, not even the evaluation.
"""

from __future__ import annotations

import math

from annotated_region.placement import PlacementProblem


def brute_force(problem: PlacementProblem) -> float:
    """The least cost over all placements, infinite if there is none; dearer branches are cut."""
    return _Search(problem).best


class _Search:
    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.host = len(problem.launch)
        self.best = math.inf
        self.group = [-1] * problem.nodes
        self.place = [-1] * problem.nodes
        self.edges = [
            (value.producer, reader)
            for value in problem.values
            if value.producer is not None
            for reader in value.consumers
        ]
        self._extend([], 0.0)

    def _extend(self, group_places: list[int], fixed: float) -> None:
        if fixed + self._transfers() >= self.best:
            return
        if -1 not in self.group:
            if self._acyclic(len(group_places)):
                self.best = fixed + self._transfers()
            return
        node = self.group.index(-1)
        for unit in self.problem.units:
            free = all(self.group[other] == -1 for other in unit.nodes)
            if free and node in unit.nodes and unit.cost < math.inf:
                self._try(unit.place, unit.nodes, group_places, fixed + unit.cost)

    def _try(self, place: int, nodes: tuple[int, ...], group_places: list[int], fixed: float) -> None:
        joins = place != self.host and place not in self.problem.single
        joinable = [g for g, p in enumerate(group_places) if joins and p == place]
        launch = 0.0 if place == self.host else self.problem.launch[place]
        for group in [*joinable, len(group_places)]:
            new = group == len(group_places)
            for node in nodes:
                self.group[node], self.place[node] = group, place
            self._extend([*group_places, place] if new else group_places, fixed + launch * new)
            for node in nodes:
                self.group[node] = self.place[node] = -1

    def _transfers(self) -> float:
        total = 0.0
        for value in self.problem.values:
            made = value.producer
            if made is not None and self.place[made] == -1:
                continue
            source = self.host if made is None else self.place[made]
            for destination in range(self.host + 1):
                if source == destination == self.host:
                    continue
                crosses = value.host_reads and destination == self.host
                for reader in value.consumers:
                    outside = made is None or self.group[reader] != self.group[made]
                    crosses |= self.place[reader] == destination and outside
                if crosses:
                    total += value.transfer[source][destination]
        return total

    def _acyclic(self, groups: int) -> bool:
        reach = [[False] * groups for _ in range(groups)]
        for left, right in self.edges:
            if self.group[left] != self.group[right]:
                reach[self.group[left]][self.group[right]] = True
        for middle in range(groups):
            for left in range(groups):
                for right in range(groups):
                    reach[left][right] |= reach[left][middle] and reach[middle][right]
        return not any(reach[group][group] for group in range(groups))
