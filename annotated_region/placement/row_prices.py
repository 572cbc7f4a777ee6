"""Limits on a row of equal segments: prices for what is short, and the placement that just fits.

What a target may have of memory, of regions, and of ops (where both the number of its regions and the size
of one are limited) is relaxed into prices, as in `annotated_region.placement.penalties`; but a row is solved
exactly and fast, so the best prices are found by tangents: a placement that takes too much and one that does
not are two lines over the price, and where they cross is the next price to try (Kelley 1960, in one
dimension). The row begins as the former and goes on as the latter from the last segment at which that fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.segment_solver import Cell, Cells, RowAnswer, SegmentRow, SmallSolver, row_of
from annotated_region.placement.segments import Tariff
from annotated_region.placement.uses import Uses

__all__ = ["solve_limited_row"]

ROUNDS = 2
"""How often each price is adjusted: prices of several resources depend on one another."""

TANGENTS = 8
"""The most prices of one resource to try in a round."""

EFFORT = 25
"""What pays at each price, of the budget: a unit of effort takes as long as so much work, about."""

TRIES = 2 * ROUNDS * TANGENTS
"""The parts of the budget: most problems need few."""


@dataclass(frozen=True, slots=True)
class _Resource:
    """What a target has only so much of.

    Attributes
    ----------
    place
        The target.
    limit
        How much.
    of_region
        What each region takes.
    of_unit
        What each unit takes.
    """

    place: Place
    limit: float
    of_region: int
    of_unit: Callable[[UnitId], float]


class _PriceLine(NamedTuple):
    """An answer as a line over the price of one resource.

    Attributes
    ----------
    answer
        The answer.
    cost
        What it costs where the resource is free, without what is paid back for all of them.
    over
        By how much it takes more than there is.
    """

    answer: RowAnswer
    cost: float
    over: float

    def crossing(self, other: _PriceLine) -> float:
        """The price at which both lines are as high; this one takes more."""
        return max(0.0, other.cost - self.cost) / (self.over - other.over)


def solve_limited_row(
    best: Incumbent, uses: Uses, budget: int, solver: SmallSolver, offer: Callable[[Placement], None]
) -> bool:
    """Solve equal segments once, if there are enough; whether that led to a bound.

    Parameters
    ----------
    best
        The best placement known; takes the bound and the work.
    uses
        What units use.
    budget
        How much to search.
    solver
        Solves a small problem.
    offer
        Takes placements, which may break limits that have no price.

    Raises
    ------
    PinError
        If no placement of some small problem was found.
    """
    problem = best.problem
    resources = _resources(problem, uses)
    weights = {
        index: tuple([each.of_unit(index) if each.place == unit.place else 0.0 for each in resources])
        for index, unit in numbered(UnitId, problem.units)
    }
    row = row_of(problem, weights if resources else {}, max(problem.nodes, budget // EFFORT))
    if row is None:
        return False
    market = _ResourceMarket(best, row, resources, solver, budget // TRIES)
    if market.solved() is None:
        return False
    for _ in range(ROUNDS if len(resources) > 1 else 1):
        for index in range(len(resources)):
            market.adjust(index)
    for chosen in market.found:
        offer(row.placement(chosen))
    return True


def _resources(problem: PlacementProblem, uses: Uses) -> list[_Resource]:
    """What has a price: memory, regions, and ops where regions and their ops are limited."""
    found: list[_Resource] = []
    for place, limits in numbered(Place, problem.limits):
        if limits.budget_bytes is not None:
            found.append(_Resource(place, limits.budget_bytes, 0, uses.least_memory))
        if limits.regions is not None:
            found.append(_Resource(place, limits.regions, 1, lambda _unit: 0.0))
        if limits.regions is not None and limits.ops is not None:
            most = limits.regions * limits.ops
            found.append(_Resource(place, most, 0, lambda unit: float(uses.of[unit].ops)))
    return found


@dataclass(slots=True)
class _ResourceMarket:
    """The prices of resources, and the placements found at them."""

    best: Incumbent
    row: SegmentRow
    resources: Sequence[_Resource]
    solver: SmallSolver
    budget: int
    prices: list[float] = field(init=False)
    found: list[list[Cell]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prices = [0.0] * len(self.resources)

    def solved(self) -> RowAnswer | None:
        """The answer at the prices as they are, whose bound is taken."""
        tariff = self.tariff()
        answer = self.row.solve(tariff, self.budget, self.solver)
        if answer is not None:
            self.best.work += answer.work
            self.best.raise_bound(answer.bound - self.most(), "segments")
        return answer

    def tariff(self) -> Tariff:
        """What launches and resources cost at the prices as they are, rounded down to the grid."""
        launch = list(self.row.problem.launch)
        for resource, price in zip(self.resources, self.prices, strict=True):
            launch[resource.place] += resource.of_region * price
        step = self.best.step
        floored = tuple([math.floor(each / step) * step for each in launch])
        return Tariff(floored, tuple(self.prices), step)

    def most(self) -> float:
        """What a placement within the limits pays for resources at most, rounded up to the grid."""
        most = math.fsum(
            [price * each.limit for price, each in zip(self.prices, self.resources, strict=True)]
        )
        return math.ceil(most / self.best.step) * self.best.step

    def takes(self, index: int, chosen: Sequence[Cell]) -> list[float]:
        """For each segment, what is taken of one resource."""
        resource = self.resources[index]
        place, of_region = resource.place, resource.of_region
        return [cell.taken[index] + of_region * cell.regions[place] for cell in chosen]

    def line(self, index: int) -> _PriceLine | None:
        """The answer at the prices as they are, seen as a line over one of them."""
        answer = self.solved()
        if answer is None:
            return None
        taken = math.fsum(self.takes(index, answer.chosen))
        return _PriceLine(
            answer, answer.cost - self.prices[index] * taken, taken - self.resources[index].limit
        )

    def adjust(self, index: int) -> None:
        """Find the best price of one resource; the prices of the others stay."""
        self.prices[index] = 0.0
        dear = last = self.line(index)
        fit: _PriceLine | None = None
        for _ in range(TANGENTS):
            if dear is None or last is None or dear.over <= 0:
                break
            self.prices[index] = self.first_price(index, dear) if fit is None else dear.crossing(fit)
            last = self.line(index)
            if last is None or (fit is not None and not fit.over < last.over < dear.over):
                break
            dear, fit = (last, fit) if last.over > 0 else (dear, last)
        if dear is not None and dear.over <= 0:
            self.found.append(dear.answer.chosen)
        elif dear is not None and fit is not None and last is not None:
            self.found.append(self.mixed(dear.answer, fit.answer, last.answer.columns))

    def first_price(self, index: int, dear: _PriceLine) -> float:
        """A price at which what takes too much is dearer than the best placement known, or twice the last."""
        slack = self.best.cost + self.most() - dear.cost
        least = slack / dear.over if 0 < slack < math.inf else dear.cost / dear.over
        return max(2 * self.prices[index], least)

    def mixed(self, dear: RowAnswer, fit: RowAnswer, columns: Sequence[Cells]) -> list[Cell]:
        """The beginning of one answer, as long as what it takes fits together with the rest of the other."""
        resources = range(len(self.resources))
        before = [[0.0, *accumulate(self.takes(index, dear.chosen))] for index in resources]
        after = [[0.0, *accumulate(self.takes(index, fit.chosen[::-1]))] for index in resources]
        for turn in reversed(range(len(columns))):
            joint = columns[turn].get((dear.ends[turn][0], fit.ends[turn][1]))
            rest = len(columns) - turn - 1
            if joint is not None and all(
                before[index][turn] + self.takes(index, [joint])[0] + after[index][rest]
                <= self.resources[index].limit
                for index in resources
            ):
                return [*dear.chosen[:turn], joint, *fit.chosen[turn + 1 :]]
        return fit.chosen
