"""Pareto fronts of small problems: for each amount of memory that pays, the cheapest placement.

A search at one price for memory finds the placement that is best at this price. The points of the front that
no price selects, because they lie above the convex hull, are what fills a budget exactly. The dynamic program
with resource use (`annotated_region.placement.limited_search`) ends with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from annotated_region.ids import Place
from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.frontier import SearchLimits, most_work
from annotated_region.placement.limited_search import LimitedLabel, LimitedSearch, Penalties
from annotated_region.placement.limits import NO_LIMITS, TargetLimits
from annotated_region.placement.prices import Potential, Prices
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.spine import Spine
from annotated_region.placement.transitions import Transitions
from annotated_region.placement.uses import Uses

__all__ = ["Front", "FrontPoint", "MemoryBudget", "front_of"]

SWEEPS = 3
"""Pairs of sweeps over the prices."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory of a target, and its price.

    Attributes
    ----------
    place
        The target.
    most
        The bytes that it has.
    price
        The price of a byte, in seconds.
    step
        The step of the grid, to which prices of units are rounded down.
    """

    place: Place
    most: int
    price: float
    step: float

    def penalty(self, memory: int) -> float:
        """The price of a unit's memory."""
        return math.floor(self.price * memory / self.step) * self.step


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One placement of a front.

    Attributes
    ----------
    memory, cost
        Its bytes, and its cost without the price of memory.
    label
        Its label in the search.
    """

    memory: int
    cost: float
    label: LimitedLabel


@dataclass(frozen=True, slots=True)
class Front:
    """The placements of a small problem of which none costs less and needs no more memory than another one.

    Attributes
    ----------
    points
        By memory, ascending.
    dropped
        A lower bound on the cost, memory paid for, of placements that may be missing; infinite if there are
        none.
    work
        The work done.
    search
        The search, which translates labels.
    """

    points: tuple[FrontPoint, ...]
    dropped: float
    work: int
    search: LimitedSearch

    def placement(self, point: FrontPoint) -> Placement:
        """The placement of a point."""
        return self.search.placement(point.label)


def front_of(
    problem: PlacementProblem, memory: Sequence[int], budget: MemoryBudget, upper: float, ration: int
) -> Front:
    """The front of a small problem.

    Parameters
    ----------
    problem
        The problem; its limits are ignored.
    memory
        The bytes of each unit.
    budget
        The memory of the target, and its price.
    upper
        Placements that cost at least this, memory paid for, are left out.
    ration
        The approximate work of the search.

    Notes
    -----
    As `LimitedSearch`.
    """
    penalties = tuple(map(budget.penalty, memory))
    units = zip(problem.units, penalties, strict=True)
    limits = [NO_LIMITS] * problem.host
    limits[budget.place] = TargetLimits(budget_bytes=budget.most)
    priced = replace(
        problem,
        units=tuple([replace(unit, cost=unit.cost + paid) for unit, paid in units]),
        limits=tuple(limits),
    )
    order = narrow_order(priced)
    prices = Prices(priced, order)
    for _ in range(SWEEPS):
        prices.sweep(forward=True)
        prices.sweep(forward=False)
    transitions = Transitions(priced, steps_of(priced, order), Potential(priced, prices, budget.step))
    search = LimitedSearch(
        transitions, Spine(transitions), _MemoryOnly(priced, memory), Penalties(penalties, 0.0)
    )
    explored = search.explore(SearchLimits(upper, None, ration, most_work(ration)))
    points = [
        FrontPoint(label.usage.targets[budget.place].memory, label.cost, label) for label in explored.labels
    ]
    return Front(tuple(undominated_points(points)), explored.dropped, explored.work, search)


def undominated_points(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """The points of which none costs less and needs no more memory than another one, by memory."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda point: (point.memory, point.cost)):
        if not kept or point.cost < kept[-1].cost:
            kept.append(point)
    return kept


class _MemoryOnly(Uses):
    """Units that use given amounts of memory, and nothing else."""

    def __init__(self, problem: PlacementProblem, memory: Sequence[int]) -> None:
        super().__init__(problem)
        uses = zip(self.of, memory, strict=True)
        self.of = [replace(use, own=needed, common=(), handed_on=(), made=0) for use, needed in uses]
