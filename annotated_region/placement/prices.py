"""A lower bound from prices, for whole and partial placements.

The relaxation: all nodes of one target may share a region, regardless of cycles; regions pay no launch
except along one path through the graph, the *spine*; the nodes of a composite need not choose it jointly.
The relaxed cost is a sum of terms, one per node and one per value (`annotated_region.placement.stars`). Each
term is minimized independently, and prices make the terms agree: a sweep visits each node, collects the
min-marginals of its values, and distributes their sum to the values with later nodes. The bound
never decreases. This is sequential reweighted message passing (Kolmogorov 2015, "A new look at reweighted
message passing", and 2006 for TRW-S); on a chain two sweeps reach the optimum of the relaxation.

The spine may pay launches because each region is one run of consecutive nodes along a path, or the quotient
would have a cycle; so a placement has at least as many regions as runs on any single path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from annotated_region.ids import Place, UnitId, ValueId
from annotated_region.placement.clusters import Cluster, clusters_of
from annotated_region.placement.grid import snapped
from annotated_region.placement.problem import PlacementProblem
from annotated_region.placement.stars import Star

__all__ = ["Potential", "PriceState", "Prices", "spine_of"]


def spine_of(problem: PlacementProblem, order: Sequence[int]) -> tuple[int, ...]:
    """A longest path of the graph, counting the nodes that some target can run. O(nodes + edges)."""
    length = [0] * problem.nodes
    following: list[int | None] = [None] * problem.nodes
    for last in reversed(order):
        for reader in problem.successors[last]:
            if length[reader] > length[last]:
                length[last], following[last] = length[reader], reader
        length[last] += any(problem.units[unit].place != problem.host for unit in problem.units_of[last])
    node: int | None = max(order, key=length.__getitem__, default=None)
    spine = []
    while node is not None:
        spine.append(node)
        node = following[node]
    return tuple(spine)


@dataclass(frozen=True, slots=True)
class PriceState:
    """What sweeps change.

    Attributes
    ----------
    prices
        For each value, the prices of its members at each place.
    shares, leaning
        As in `Prices`.
    """

    prices: Sequence[Sequence[Sequence[float]]]
    shares: Sequence[Mapping[int, float]]
    leaning: Sequence[UnitId]


class Prices:
    """The prices of one problem; sweeps never worsen their bound.

    Parameters
    ----------
    problem
        The problem; every node has a unit.
    order
        A topological order of the nodes, the order of the sweeps.

    Attributes
    ----------
    spine
        The path that pays launches.
    carriers
        For each node of the spine but the last, the value that connects it with the next one.
    leaning
        For each node, its best unit at the time of its last visit.
    """

    def __init__(self, problem: PlacementProblem, order: Sequence[int]) -> None:
        self._problem = problem
        self._order = tuple(order)
        self.spine = spine_of(problem, order)
        self._places = [
            tuple(sorted({problem.units[unit].place for unit in units})) for units in problem.units_of
        ]
        self.carriers = self._carriers()
        self.stars = self._make_stars()
        self.shares = [dict.fromkeys(unit.nodes, unit.cost / len(unit.nodes)) for unit in problem.units]
        self._cluster_of: dict[int, Cluster] = {}
        for cluster in clusters_of(problem, order):
            self._cluster_of |= dict.fromkeys(cluster.nodes, cluster)
        self._at = self._incidence()
        self._offers = [
            [(unit, problem.units[unit].place, self.shares[unit]) for unit in units]
            for units in problem.units_of
        ]
        self.leaning = [units[0] for units in problem.units_of]

    def bound(self) -> float:
        """A lower bound on the cost of all placements. O(edges x 4^places)."""
        least = [min(self.unit_costs(node).values()) for node in self._order]
        return math.fsum([*least, *(star.best() for star in self.stars)])

    def reprice(self, problem: PlacementProblem) -> None:
        """Continue with the same problem under other unit costs, from the current prices."""
        for old, new, shares in zip(self._problem.units, problem.units, self.shares, strict=True):
            change = (new.cost - old.cost) / len(new.nodes) if math.isfinite(new.cost) else 0.0
            if change:
                for node in shares:
                    shares[node] += change
        for cluster in dict.fromkeys(self._cluster_of.values()):
            cluster.reprice(problem)
        self._problem = problem

    def _carriers(self) -> dict[int, ValueId]:
        """For each node of the spine but the last, the first of its values that the next node reads."""
        found = {}
        for node, after in zip(self.spine, self.spine[1:], strict=False):
            carried = (v for v in self._problem.makes[node] if after in self._problem.values[v].consumers)
            found[node] = next(carried)
        return found

    def _make_stars(self) -> list[Star]:
        """One star per value; those along the spine include its launches."""
        after = dict(zip(self.spine, self.spine[1:], strict=False))
        follower = {value: after[node] for node, value in self.carriers.items()}
        values = map(ValueId, range(len(self._problem.values)))
        return [Star(self._problem, value, self._places, follower.get(value)) for value in values]

    def _incidence(self) -> list[list[tuple[Star, int, bool, bool]]]:
        """For each node: star, member index, whether later and whether earlier nodes are members."""
        rank = {node: index for index, node in enumerate(self._order)}
        found: list[list[tuple[Star, int, bool, bool]]] = [[] for _ in self._order]
        for star in self.stars:
            ranks = [rank[node] for node in star.members]
            for member, node in enumerate(star.members):
                found[node].append((star, member, rank[node] < max(ranks), rank[node] > min(ranks)))
        return found

    def sweep(self, forward: bool) -> None:
        """Visit every node once, in forward or reverse order. O(edges x 4^places)."""
        for node in self._order if forward else reversed(self._order):
            self._visit(node, forward)

    def _visit(self, node: int, forward: bool) -> None:
        """Collect the min-marginals of the values at `node`, and distribute their sum to values with later
        nodes.
        """
        places = self._places[node]
        stars = self._at[node]
        for star, member, _, _ in stars:
            price = star.price[member]
            for place, known in zip(places, star.marginals(member), strict=True):
                price[place] += known
            star.forget(member)  # once: nothing is derived from these prices before they change again below
        if node in self._cluster_of:
            self._cluster_of[node].balance(self.shares, self._priced)
        costs = self._place_costs(node)
        to_come, gone = (2, 3) if forward else (3, 2)
        takers = [entry for entry in stars if entry[to_come]]
        if not takers:
            return
        weight = 1 / max(len(takers), sum([bool(entry[gone]) for entry in stars]))
        for star, member, _, _ in takers:
            price = star.price[member]
            for place in places:
                price[place] -= weight * costs[place]

    def _priced(self, node: int) -> list[float]:
        """The sum of a node's prices at each place; the first node of the spine pays its launch there."""
        columns = [star.price[member] for star, member, _, _ in self._at[node]]
        if len(columns) == 1:
            sums = list(columns[0])
        elif len(columns) == 2:
            sums = [first + second for first, second in zip(*columns, strict=True)]
        else:
            sums = [sum(column) for column in zip(*columns, strict=True)] or [0.0] * (self._problem.host + 1)
        if node == self.spine[0]:
            for place, launch in enumerate(self._problem.launch):
                sums[place] += launch
        return sums

    def _place_costs(self, node: int) -> dict[int, float]:
        """For each place, the minimum cost of a node there, prices included; updates `leaning`."""
        priced = self._priced(node)
        least: dict[int, float] = {}
        best = math.inf
        for unit, place, shares in self._offers[node]:
            cost = shares[node] + priced[place]
            if place not in least or cost < least[place]:
                least[place] = cost
            if cost < best:
                best, self.leaning[node] = cost, unit
        return least

    def unit_costs(self, node: int) -> dict[UnitId, float]:
        """For each unit that contains `node`, the cost of the node in it, prices included."""
        priced = self._priced(node)
        return {unit: shares[node] + priced[place] for unit, place, shares in self._offers[node]}

    def state(self) -> PriceState:
        """A copy of the prices and shares."""
        return PriceState(
            [[list(price) for price in star.price] for star in self.stars],
            [dict(shares) for shares in self.shares],
            list(self.leaning),
        )

    def restore(self, state: PriceState) -> None:
        """Continue from an earlier state under the same unit costs."""
        for star, prices in zip(self.stars, state.prices, strict=True):
            star.price = [list(price) for price in prices]
            for member, _node in enumerate(star.members):
                star.forget(member)
        for shares, known in zip(self.shares, state.shares, strict=True):
            shares.update(known)
        self.leaning = list(state.leaning)

    def snap(self, step: float) -> None:
        """Round all prices and shares to the grid of `step`; the problem's costs must already be on it."""
        for star in self.stars:
            star.price = [[snapped(price, step) for price in prices] for prices in star.price]
            for member, _node in enumerate(star.members):
                star.forget(member)
        for unit, shares in zip(self._problem.units, self.shares, strict=True):
            if math.isfinite(unit.cost):
                for node in shares:
                    shares[node] = snapped(shares[node], step)
                shares[unit.nodes[0]] += unit.cost - sum(shares.values())


class Potential:
    """A lower bound on the remaining cost of a partial placement, for prices on the grid.

    The bound of a label is its cost so far plus the bound on the remaining cost. It is updated by adding
    `node`, `made`, `read` and differences of `rest`; a launch is added when a region is created, although
    the bound may already include a launch for the next run of the spine. That run may join a region created
    elsewhere, so the launches of all regions that the spine can still join are subtracted from a bound before
    it is compared with a cost (`Spine.allowance`).

    Attributes
    ----------
    base
        The bound for the whole problem.
    spine, carriers
        As in `Prices`.
    """

    def __init__(self, problem: PlacementProblem, prices: Prices, step: float) -> None:
        prices.snap(step)
        self._stars = prices.stars
        self._costs = [prices.unit_costs(node) for node in range(problem.nodes)]
        self._least = [min(costs.values()) for costs in self._costs]
        self._best = [star.best() for star in prices.stars]
        self._rests: dict[tuple[int, int, int, int], float] = {}
        self._entry = (*problem.launch, 0.0)
        self._unit_place = [unit.place for unit in problem.units]
        self.spine = prices.spine
        self.carriers = prices.carriers
        self.base = math.fsum([*self._least, *self._best])

    def node(self, node: int, unit: UnitId) -> float:
        """The increase of the bound when `unit` covers `node`, without values."""
        rise = self._costs[node][unit] - self._least[node]
        return rise - self._entry[self._unit_place[unit]] if node == self.spine[0] else rise

    def made(self, value: ValueId, place: Place) -> float:
        """The increase of the bound when `value` is defined at `place`, without its readers."""
        return -self._stars[value].price[0][place] - self._best[value]

    def read(self, value: ValueId, reader: int, place: Place) -> float:
        """The increase of the bound when `reader` reads `value` at `place`, without transfers."""
        star = self._stars[value]
        return -star.price[star.members.index(reader)][place]

    def rest(self, value: ValueId, readers: Sequence[int], source: Place, charged: int) -> float:
        """The minimum remaining cost of `value`: see `annotated_region.placement.stars.Star.rest`."""
        key = (value, len(readers), source, charged)
        if key not in self._rests:
            self._rests[key] = self._stars[value].rest(readers, source, charged)
        return self._rests[key]
