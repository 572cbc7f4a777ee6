"""Prices for memory: Lagrangian relaxation of the budgets of targets.

A unit pays for the memory that it takes, and the bound of the problem without budgets, less the price of the
whole budgets, is a bound of the problem with them (Fisher 1981, "The Lagrangian relaxation method for
solving integer programming problems"). The price of each target is found by bisection: where the placement
that is best at a price takes more than the budget, the price is too low. No placement is searched for that:
the sweeps of `annotated_region.placement.prices` tell which unit each node would choose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.limited_search import Penalties
from annotated_region.placement.prices import Prices
from annotated_region.placement.problem import PlacementProblem
from annotated_region.placement.uses import Uses

__all__ = ["PricedMemory", "priced_memory"]

NODE_VISITS = 60_000
"""How many nodes are visited in search of prices, about."""

LEAST_ROUNDS, MOST_ROUNDS = 5, 24
"""How often prices are tried, whatever the number of nodes."""

SETTLING = 3
"""Pairs of sweeps at prices that stay."""


@dataclass(frozen=True, slots=True)
class PricedMemory:
    """A problem whose units pay for memory.

    Attributes
    ----------
    problem
        The problem, with penalties in the costs of its units.
    prices
        Its prices, settled.
    penalties
        What was added.
    """

    problem: PlacementProblem
    prices: Prices
    penalties: Penalties


def priced_memory(
    problem: PlacementProblem, uses: Uses, order: Sequence[int], step: float, upper: float
) -> PricedMemory:
    """The problem at the prices for memory that give the best bound of those tried.

    Parameters
    ----------
    problem
        The problem, with its costs on the grid of `step`.
    uses
        What its units use.
    order
        The order of the sweeps.
    step
        The step of the grid; penalties are put on it.
    upper
        The cost of a known placement, from which the first prices are guessed; infinite if none is known.

    Notes
    -----
    O(rounds x edges x 4^places).
    """
    prices = Prices(problem, order)
    _sweep(prices, SETTLING)
    dearest = math.fsum(unit.cost for unit in problem.units if math.isfinite(unit.cost))
    market = _Market(problem, uses, step)
    best, best_bound = market.penalties(), prices.bound()
    for _ in range(market.rounds):
        if not market.adjust(prices.leaning, min(upper, dearest) - best_bound):
            break
        tried = market.penalties()
        prices.reprice(market.priced(tried))
        _sweep(prices, 1)
        bound = prices.bound() - tried.most
        if bound > best_bound:
            best, best_bound = tried, bound
    settled = market.priced(best)
    prices.reprice(settled)
    _sweep(prices, SETTLING)
    return PricedMemory(settled, prices, best)


def _sweep(prices: Prices, pairs: int) -> None:
    for _ in range(pairs):
        prices.sweep(forward=True)
        prices.sweep(forward=False)


@dataclass(slots=True)
class _Price:
    """The seconds that a byte costs at one target, and between which prices the right one lies."""

    budget: int
    now: float = 0.0
    low: float = 0.0
    high: float = math.inf

    def adjust(self, memory: float, first: float) -> bool:
        """Take the next price to try after `memory` was taken at this one; whether there is any."""
        if memory > self.budget:
            self.low = self.now
        elif self.now == 0:
            return False
        else:
            self.high = self.now
        if self.high < math.inf:
            self.now = (self.low + self.high) / 2
        else:
            self.now = 2 * self.low if self.low > 0 else first / max(1.0, memory - self.budget)
        return self.high - self.low > self.high / 1024 if self.high < math.inf else self.now > 0


@dataclass(slots=True)
class _Market:
    """The prices of the targets with budgets."""

    problem: PlacementProblem
    uses: Uses
    step: float
    price: dict[Place, _Price] = field(init=False)
    memory: Mapping[UnitId, float] = field(init=False)

    def __post_init__(self) -> None:
        self.price = {
            place: _Price(limits.budget_bytes)
            for place, limits in numbered(Place, self.problem.limits)
            if limits.budget_bytes is not None
        }
        self.memory = {
            index: self.uses.least_memory(index)
            for index, unit in numbered(UnitId, self.problem.units)
            if unit.place in self.price
        }

    @property
    def rounds(self) -> int:
        """How many prices to try."""
        if not self.price:
            return 0
        return min(MOST_ROUNDS, max(LEAST_ROUNDS, NODE_VISITS // max(1, self.problem.nodes)))

    def adjust(self, chosen: Sequence[UnitId], slack: float) -> bool:
        """Change the prices for the memory that the chosen units take; whether any changed."""
        taken = dict.fromkeys(self.price, 0.0)
        for unit in chosen:
            described = self.problem.units[unit]
            if described.place in taken:
                taken[described.place] += self.memory[unit] / len(described.nodes)
        changed = [price.adjust(taken[place], slack) for place, price in self.price.items()]
        return any(changed)

    def penalties(self) -> Penalties:
        """What the units pay at the prices as they are; rounded so that a budget is never overpaid."""
        step = self.step
        of = [0.0] * len(self.problem.units)
        for unit, memory in self.memory.items():
            price = self.price[self.problem.units[unit].place].now
            of[unit] = math.floor(price * memory / step) * step
        most = math.fsum(price.now * price.budget for price in self.price.values())
        return Penalties(tuple(of), math.ceil(most / step) * step)

    def priced(self, penalties: Penalties) -> PlacementProblem:
        """The problem with penalties in the costs of its units."""
        units = zip(self.problem.units, penalties.of, strict=True)
        return replace(
            self.problem,
            units=tuple([replace(unit, cost=unit.cost + paid) if paid else unit for unit, paid in units]),
        )
