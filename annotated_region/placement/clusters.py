"""Composites in the bound: how the nodes of overlapping composites share their cost.

In the bound every node chooses its unit independently and pays a share of its cost. A cluster is a set of
nodes connected by composites; choosing its units is an exact cover of its nodes. If every unit is an interval
of the cluster, such as the prefixes of conv + bias + relu, the cheapest cover is a shortest path, and its
distances give shares for which independent choices are as good as a joint choice: linear programming duality,
tight because interval matrices are totally unimodular (Fulkerson and Gross 1965). Otherwise shares are
equalized over the nodes of each composite, which never lowers the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from annotated_region.ids import UnitId
from annotated_region.placement.problem import PlacementProblem

__all__ = ["Cluster", "clusters_of"]

Shares = list[dict[int, float]]
"""For each unit, the share of its cost that each of its nodes pays."""


class Cluster:
    """The units of a set of nodes, each as positions in that set.

    Attributes
    ----------
    nodes
        The nodes, in the order of the sweeps.
    """

    def __init__(self, problem: PlacementProblem, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        position = {node: index for index, node in enumerate(nodes)}
        found = dict.fromkeys(unit for node in nodes for unit in problem.units_of[node])
        spans = [
            (tuple(sorted(position[node] for node in problem.units[unit].nodes)), unit) for unit in found
        ]
        self._spans = sorted(spans)
        self._costs = {unit: problem.units[unit].cost for unit in found}
        self._places = {unit: problem.units[unit].place for unit in found}
        self._intervals = all(span[-1] - span[0] == len(span) - 1 for span, _ in spans)

    def reprice(self, problem: PlacementProblem) -> None:
        """Continue with the same problem under other unit costs."""
        self._costs = {unit: problem.units[unit].cost for unit in self._costs}

    def balance(self, shares: Shares, priced: Callable[[int], Sequence[float]]) -> None:
        """Change the shares in place to maximize the sum of the nodes' minimum costs.

        Parameters
        ----------
        shares
            All shares; those of this cluster's units change, but not their sums.
        priced
            For a node, the sum of its prices at each place.
        """
        prices = [priced(node) for node in self.nodes]
        if self._intervals:
            self._balance_by_path(shares, prices)
        else:
            self._balance_evenly(shares, prices)

    def _balance_by_path(self, shares: Shares, prices: list[Sequence[float]]) -> None:
        """Shares from the distances of a shortest path over the positions."""
        totals = {
            unit: self._costs[unit] + sum([prices[index][self._places[unit]] for index in span])
            for span, unit in self._spans
        }
        distance = [0.0, *(math.inf for _ in self.nodes)]
        for span, unit in self._spans:
            reached = distance[span[0]] + totals[unit]
            distance[span[-1] + 1] = min(distance[span[-1] + 1], reached)
        if math.inf in distance:
            return
        for span, unit in self._spans:
            slack = (totals[unit] - distance[span[-1] + 1] + distance[span[0]]) / len(span)
            place = self._places[unit]
            for index in span:
                own = distance[index + 1] - distance[index]
                shares[unit][self.nodes[index]] = own + slack - prices[index][place]

    def _balance_evenly(self, shares: Shares, prices: list[Sequence[float]]) -> None:
        """One round over the composites that equalizes the excess cost of each at its nodes."""
        for span, unit in self._spans:
            wants = [self._want(shares, prices[index], index, unit) for index in span]
            if len(span) == 1 or math.inf in wants or -math.inf in wants:
                continue
            mean = sum(wants) / len(span)
            for index, want in zip(span, wants, strict=True):
                shares[unit][self.nodes[index]] += mean - want

    def _want(self, shares: Shares, prices: Sequence[float], index: int, unit: UnitId) -> float:
        """The excess cost of `unit` at one node over the best other unit there."""
        node = self.nodes[index]
        costs = {
            other: shares[other][node] + prices[self._places[other]]
            for span, other in self._spans
            if index in span
        }
        own = costs.pop(unit)
        return own - min(costs.values(), default=math.inf)


def clusters_of(problem: PlacementProblem, order: Sequence[int]) -> list[Cluster]:
    """The connected components of the nodes under "some composite holds both", by first node of `order`."""
    neighbours: dict[int, list[int]] = {}
    for unit in problem.units:
        if len(unit.nodes) > 1 and math.isfinite(unit.cost):
            for node in unit.nodes:
                neighbours.setdefault(node, []).extend(unit.nodes)
    rank = {node: index for index, node in enumerate(order)}
    seen: set[int] = set()
    clusters = []
    for first in order:
        if first in seen or first not in neighbours:
            continue
        members = [first]
        seen.add(first)
        for node in members:  # grows during iteration
            fresh = [other for other in dict.fromkeys(neighbours[node]) if other not in seen]
            seen.update(fresh)
            members += fresh
        clusters.append(Cluster(problem, sorted(members, key=rank.__getitem__)))
    return clusters
