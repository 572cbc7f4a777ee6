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
        self.chosen: list[tuple[tuple[int, ...], int]] = []
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
            if self._acyclic(len(group_places)) and self._within_limits(group_places):
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
            self.chosen.append((nodes, group))
            if not joins or self._few_ops(group, place):
                self._extend([*group_places, place] if new else group_places, fixed + launch * new)
            self.chosen.pop()
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

    def _few_ops(self, group: int, place: int) -> bool:
        most = self.problem.limits[place].ops if self.problem.limits else None
        return most is None or self.group.count(group) <= most

    def _within_limits(self, group_places: list[int]) -> bool:
        budgets = dict.fromkeys(range(self.host), 0)
        for group, place in enumerate(group_places):
            if place != self.host and not self._takes(group, place, budgets):
                return False
        for place, limits in enumerate(self.problem.limits):
            if limits.regions is not None and group_places.count(place) > limits.regions:
                return False
            if limits.budget_bytes is not None and budgets[place] > limits.budget_bytes:
                return False
        return True

    def _takes(self, group: int, place: int, budgets: dict[int, int]) -> bool:
        """Whether one group is within the limits of its place; adds to what the place has used."""
        units = [nodes for nodes, of in self.chosen if of == group]
        inside = {node for nodes in units for node in nodes}
        constants = sum(each.size for each in self.problem.constants if inside & set(each.readers))
        made = workspace = 0
        for value in self.problem.values:
            readers = {-1, *value.consumers} if value.host_reads else set(value.consumers)
            for nodes in units:
                if value.producer in nodes and not readers <= set(nodes):
                    made += value.size
                    workspace += value.size * (readers <= inside)
        budgets[place] += constants + made
        if self.problem.accepts is not None:
            indices = [
                next(
                    index
                    for index, unit in enumerate(self.problem.units)
                    if unit.nodes == nodes and unit.place == place
                )
                for nodes in units
            ]
            if not self.problem.accepts(place, tuple(sorted(indices))):  # type: ignore[arg-type]
                return False
        if not self.problem.limits:
            return True
        limits = self.problem.limits[place]
        return (
            (limits.ops is None or len(inside) <= limits.ops)
            and (limits.constant_bytes is None or constants <= limits.constant_bytes)
            and (limits.workspace_bytes is None or workspace <= limits.workspace_bytes)
        )
