"""Limits on a row of segments: prices for scarce resources, and a combination that just fits.

Limits on memory, on regions, and on ops (if both the number of regions of a target and their size are
limited) are relaxed into prices, as in `annotated_region.placement.penalties`. Because a row is solved
exactly and fast, the best prices are found by tangents: the cost of a fixed placement is linear in the price;
the intersection of the lines of an infeasible and of a feasible placement is the next price (Kelley 1960, in
one dimension). The result starts as the infeasible placement and switches to the feasible one after the last
segment for which the combination fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.price_lines import PriceLine
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.segment_solver import Cell, Cells, RowAnswer, SegmentRow, SmallSolver, row_of
from annotated_region.placement.segments import Tariff
from annotated_region.placement.uses import Uses

__all__ = ["solve_limited_row"]

ROUNDS = 2
"""How often each price is adjusted, because the prices of several resources are interdependent."""

TANGENTS = 8
"""The maximum number of prices tried per resource and round."""

EFFORT = 25
"""The approximate work of one unit of effort, to derive the effort per price from the budget."""

TRIES = 2 * ROUNDS * TANGENTS
"""The number of shares of the budget; most problems need few of them."""


@dataclass(frozen=True, slots=True)
class _Resource:
    """A limited resource of a target.

    Attributes
    ----------
    place
        The target.
    limit
        The available amount.
    of_region
        The use of each region.
    of_unit
        The use of each unit.
    """

    place: Place
    limit: float
    of_region: int
    of_unit: Callable[[UnitId], float]


def solve_limited_row(
    best: Incumbent, uses: Uses, budget: int, solver: SmallSolver, offer: Callable[[Placement], None]
) -> bool:
    """Solve equal segments once, if there are enough; returns whether this gave a bound.

    Parameters
    ----------
    best
        The incumbent, which receives the bound and the work.
    uses
        The resource use of units.
    budget
        The work of the search.
    solver
        Solves a small problem.
    offer
        Receives placements, which may violate limits without a price.

    Raises
    ------
    PinError
        If no placement was found for some small problem.
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
    """The priced resources: memory, regions, and ops if both regions and their ops are limited."""
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
        """The answer at the current prices; its bound is recorded."""
        tariff = self.tariff()
        answer = self.row.solve(tariff, self.budget, self.solver)
        if answer is not None:
            self.best.work += answer.work
            self.best.raise_bound(answer.bound - self.most(), "segments")
        return answer

    def tariff(self) -> Tariff:
        """The costs of launches and resources at the current prices, rounded down to the grid."""
        launch = list(self.row.problem.launch)
        for resource, price in zip(self.resources, self.prices, strict=True):
            launch[resource.place] += resource.of_region * price
        step = self.best.step
        floored = tuple([math.floor(each / step) * step for each in launch])
        return Tariff(floored, tuple(self.prices), step)

    def most(self) -> float:
        """The maximum that a placement within the limits pays for resources, rounded up to the grid."""
        most = math.fsum(
            [price * each.limit for price, each in zip(self.prices, self.resources, strict=True)]
        )
        return math.ceil(most / self.best.step) * self.best.step

    def takes(self, index: int, chosen: Sequence[Cell]) -> list[float]:
        """For each segment, its use of one resource."""
        resource = self.resources[index]
        place, of_region = resource.place, resource.of_region
        return [cell.taken[index] + of_region * cell.regions[place] for cell in chosen]

    def line(self, index: int) -> PriceLine[RowAnswer] | None:
        """The answer at the current prices, as a line over one of them."""
        answer = self.solved()
        if answer is None:
            return None
        taken = math.fsum(self.takes(index, answer.chosen))
        return PriceLine(
            answer, answer.cost - self.prices[index] * taken, taken - self.resources[index].limit
        )

    def adjust(self, index: int) -> None:
        """Find the best price of one resource, with the other prices fixed."""
        self.prices[index] = 0.0
        dear = last = self.line(index)
        fit: PriceLine[RowAnswer] | None = None
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

    def first_price(self, index: int, dear: PriceLine[RowAnswer]) -> float:
        """A price at which the infeasible answer costs more than the best known placement, or twice the last
        price.
        """
        slack = self.best.cost + self.most() - dear.cost
        least = slack / dear.over if 0 < slack < math.inf else dear.cost / dear.over
        return max(2 * self.prices[index], least)

    def mixed(self, dear: RowAnswer, fit: RowAnswer, columns: Sequence[Cells]) -> list[Cell]:
        """The longest prefix of `dear` that fits together with the remaining segments of `fit`."""
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
