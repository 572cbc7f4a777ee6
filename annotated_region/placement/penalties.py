"""Prices for memory: Lagrangian relaxation of the budgets of targets.

A unit pays for its memory. The bound of the problem without budgets, minus the price of the
whole budgets, is a bound of the problem with budgets (Fisher 1981, "The Lagrangian relaxation method for
solving integer programming problems"). The price of each target is found by bisection: if the best
choices at a price exceed the budget, the price is too low. This needs no search for placements:
the sweeps of `annotated_region.placement.prices` give the best unit of each node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.limited_search import Penalties
from annotated_region.placement.prices import Prices
from annotated_region.placement.problem import PlacementProblem, PlacementUnit
from annotated_region.placement.uses import Uses

__all__ = ["MemoryMarket", "PricedMemory", "priced_memory"]

NODE_VISITS = 60_000
"""The approximate number of node visits in the search for prices."""

LEAST_ROUNDS, MOST_ROUNDS = 5, 24
"""The minimum and maximum number of price adjustments, for any number of nodes."""

SWEEPS = 3
"""Pairs of sweeps at the final prices."""


@dataclass(frozen=True, slots=True)
class PricedMemory:
    """A problem whose units pay for memory.

    Attributes
    ----------
    problem
        The problem, with penalties in the costs of its units.
    prices
        Its prices, after the final sweeps.
    penalties
        The added penalties.
    per_byte
        The price of a byte at each target with a budget.
    """

    problem: PlacementProblem
    prices: Prices
    penalties: Penalties
    per_byte: Mapping[Place, float]


def priced_memory(
    problem: PlacementProblem, uses: Uses, order: Sequence[int], step: float, upper: float
) -> PricedMemory:
    """The problem at those of the tried memory prices that give the best bound.

    Parameters
    ----------
    problem
        The problem, with its costs on the grid of `step`.
    uses
        The resource use of its units.
    order
        The order of the sweeps.
    step
        The step of the grid, to which penalties are rounded.
    upper
        The cost of a known placement, for the initial prices; infinite if none is known.

    Notes
    -----
    O(rounds x edges x 4^places).
    """
    prices = Prices(problem, order)
    _sweep(prices, SWEEPS)
    dearest = math.fsum(unit.cost for unit in problem.units if math.isfinite(unit.cost))
    market = MemoryMarket(problem, uses, step)
    free, unpriced, best_bound = market.per_byte(), prices.state(), prices.bound()
    best = free
    for _ in range(market.rounds):
        if not market.adjust(prices.leaning, _slack(best_bound, dearest, upper)):
            break
        tried = market.penalties(market.per_byte())
        prices.reprice(market.priced(tried))
        _sweep(prices, 1)
        bound = prices.bound() - tried.most
        if bound > best_bound:
            best, best_bound = market.per_byte(), bound
    if best is free and any(market.per_byte().values()):
        prices.reprice(problem)
        prices.restore(unpriced)  # no price helped: sweeps from what they left would have to undo it first
        return PricedMemory(problem, prices, market.penalties(free), free)
    return market.repriced(prices, best)


def _slack(bound: float, dearest: float, upper: float) -> float:
    """How much more a placement may cost than the bound: as the units do, or a known placement.

    Where launches and transfers cost more than all units, the units do not tell; then twice the bound.
    """
    most = min(upper, dearest if dearest >= bound else 2 * bound)
    return max(0.0, most - bound)


def _sweep(prices: Prices, pairs: int) -> None:
    for _ in range(pairs):
        prices.sweep(forward=True)
        prices.sweep(forward=False)


@dataclass(slots=True)
class _Price:
    """The seconds per byte at one target, and the interval that contains the best price."""

    budget: int
    now: float = 0.0
    low: float = 0.0
    high: float = math.inf

    def adjust(self, memory: float, first: float) -> bool:
        """Choose the next price after `memory` was used at this one; returns whether there is one."""
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
class MemoryMarket:
    """The targets with budgets: the memory of their units, and their prices.

    Attributes
    ----------
    problem, uses
        The problem, and the resource use of its units.
    step
        The step of the grid, to which penalties are rounded.
    price
        For each target with a budget, its price and the bisection of it.
    memory
        For each unit of these targets, a lower bound on its memory.
    """

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
        """The number of price adjustments."""
        if not self.price:
            return 0
        return min(MOST_ROUNDS, max(LEAST_ROUNDS, NODE_VISITS // max(1, self.problem.nodes)))

    def adjust(self, chosen: Sequence[UnitId], slack: float) -> bool:
        """Update the prices for the memory use of the chosen units; returns whether any changed."""
        taken = dict.fromkeys(self.price, 0.0)
        for unit in chosen:
            described = self.problem.units[unit]
            if described.place in taken:
                taken[described.place] += self.memory[unit] / len(described.nodes)
        changed = [price.adjust(taken[place], slack) for place, price in self.price.items()]
        return any(changed)

    def per_byte(self) -> dict[Place, float]:
        """The current prices."""
        return {place: price.now for place, price in self.price.items()}

    def penalties(self, per_byte: Mapping[Place, float]) -> Penalties:
        """The penalties of the units at some prices, rounded so that a budget is never overpaid."""
        step = self.step
        of = [0.0] * len(self.problem.units)
        for unit, memory in self.memory.items():
            of[unit] = math.floor(per_byte[self.problem.units[unit].place] * memory / step) * step
        most = math.fsum(per_byte[place] * price.budget for place, price in self.price.items())
        return Penalties(tuple(of), math.ceil(most / step) * step)

    def repriced(self, prices: Prices, per_byte: Mapping[Place, float]) -> PricedMemory:
        """The problem at some prices of memory; continues the sweeps from `prices`, which it changes."""
        penalties = self.penalties(per_byte)
        problem = self.priced(penalties)
        prices.reprice(problem)
        _sweep(prices, SWEEPS)
        return PricedMemory(problem, prices, penalties, per_byte)

    def priced(self, penalties: Penalties) -> PlacementProblem:
        """The problem with penalties added to the costs of its units."""
        units = zip(self.problem.units, penalties.of, strict=True)
        return replace(
            self.problem,
            units=tuple(
                [
                    PlacementUnit(unit.place, unit.nodes, unit.cost + paid) if paid else unit
                    for unit, paid in units
                ]
            ),
        )
