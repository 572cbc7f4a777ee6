"""A row of segments within one memory budget: Pareto fronts of its segments, joined by a shortest path.

Prices for memory leave a gap: of two placements that cost the same at the best price, one exceeds the budget,
and the other leaves part of it unused. Over a row of segments the budget itself can be kept:

1. The row is solved at the best price, which bounds what each segment may cost in a better placement.
2. Fronts (`annotated_region.placement.fronts`) hold the placements of each segment that are within that.
3. Paths through the fronts within the budget (`annotated_region.placement.row_labels`) are placements, and
   the cheapest one bounds the cost. Fronts that are incomplete and limit the bound are searched further,
   with what the others prove about the rest of the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from annotated_region.errors import PinError
from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.fronts import Front, MemoryBudget, front_of
from annotated_region.placement.incumbent import TOLERANCE, Incumbent
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.row_labels import cells_of, lengths_to_end, paths_within_budget
from annotated_region.placement.segment_solver import RowAnswer, SegmentRow, SmallSolver, row_of
from annotated_region.placement.segments import Ends, Tariff
from annotated_region.placement.uses import Uses

__all__ = ["row_within_budget", "solve_budgeted_row"]

EFFORT = 12
"""The approximate work of one unit of effort in `row_of`."""

FIRST_PASS, JOINS, WIDER = 8, 8, 4
"""The first search for all fronts gets one `FIRST_PASS`-th of the budget, joining them at most one
`JOINS`-th. Each further search for one front may take `WIDER` times the work of the one before."""


def row_within_budget(
    problem: PlacementProblem, uses: Uses, per_byte: Mapping[Place, float], budget: int
) -> SegmentRow | None:
    """The network as a row of segments, if one budget of memory is scarce and the row is worthwhile.

    Parameters
    ----------
    problem
        The network.
    uses
        The resource use of units.
    per_byte
        The price of a byte for each target with a budget.
    budget
        The approximate work of one solution of the row.

    Notes
    -----
    O(nodes + edges + units).
    """
    place = _scarce(per_byte)
    if place is None:
        return None
    weights = {
        index: (math.floor(uses.least_memory(index)) if unit.place == place else 0,)
        for index, unit in numbered(UnitId, problem.units)
    }
    return row_of(problem, weights, budget // EFFORT)


def solve_budgeted_row(
    best: Incumbent,
    row: SegmentRow,
    per_byte: Mapping[Place, float],
    budget: int,
    solver: SmallSolver,
    offer: Callable[[Placement], None],
) -> None:
    """Find the best placement of a row within its budget, and a bound.

    Parameters
    ----------
    best
        The incumbent, which has a placement, and receives the bound and the work.
    row
        The result of `row_within_budget`.
    per_byte
        The price of a byte for each target with a budget; other limits than the scarce budget are relaxed.
    budget
        The approximate work.
    solver
        Solves a small problem without limits.
    offer
        Receives the placements found, which may violate relaxed limits.
    """
    place = _scarce(per_byte)
    limit = None if place is None else best.problem.limits[place].budget_bytes
    if place is None or limit is None:
        return
    memory = MemoryBudget(place, limit, per_byte[place], best.step)
    tariff = Tariff(best.problem.launch, (memory.price,), best.step)
    try:
        answer = row.solve(tariff, budget // JOINS, solver)
    except PinError:  # the narrow search missed every placement of some segment
        return
    if answer is not None:
        best.work += answer.work
        _BudgetedRow(best, row, memory, tariff, answer).solve(budget - answer.work, offer)


def _scarce(per_byte: Mapping[Place, float]) -> Place | None:
    """The only target whose memory has a price; None if there are none or several."""
    scarce = [place for place, price in per_byte.items() if price > 0]
    return scarce[0] if len(scarce) == 1 else None


@dataclass(slots=True)
class _Way:
    """A form of segment between two places.

    Attributes
    ----------
    kind, ends
        The form, and the places of its entry and exit.
    others
        A lower bound on the cost of all other segments, memory paid for and the budget refunded.
    front
        The placements known.
    ration
        The work of the search for them.
    """

    kind: int
    ends: Ends
    others: float
    front: Front
    ration: int

    @property
    def missing(self) -> float:
        """A lower bound on the cost of a placement of the row that the front is missing."""
        return self.others + self.front.dropped


class _BudgetedRow:
    """The search over one row.

    Attributes
    ----------
    best
        The incumbent.
    row, memory, tariff
        The segments, the budget with its price, and the costs at this price.
    tolerance
        The bounds of segments may have been rounded up to their costs, by less than this in all.
    bounds
        For each form, a lower bound on its cost between two places, memory paid for.
    ways
        The ways through a segment that a better placement may take.
    """

    def __init__(
        self, best: Incumbent, row: SegmentRow, memory: MemoryBudget, tariff: Tariff, answer: RowAnswer
    ) -> None:
        self.best = best
        self.row = row
        self.memory = memory
        self.tariff = tariff
        self.tolerance = 2 * TOLERANCE * (best.cost + answer.cost)
        self.bounds: list[dict[Ends, float]] = [{} for _ in row.forms]
        for kind, cells in zip(row.kinds, answer.columns, strict=True):
            self.bounds[kind] = {ends: cell.bound for ends, cell in cells.items()}
        self.ways: list[_Way] = []

    def solve(self, budget: int, offer: Callable[[Placement], None]) -> None:
        """Offer the best placements of the row, and record its bound."""
        stop = self.best.work + budget
        others = self.others()
        ration = budget // (FIRST_PASS * max(1, len(others)))
        for (kind, ends), rest in others.items():
            self.ways.append(_Way(kind, ends, rest, self.front(kind, ends, rest, ration), ration))
        self.join(budget // JOINS, offer)
        while self.deepen(stop - budget // JOINS):
            self.join(min(budget // JOINS, stop - self.best.work), offer)

    def deepen(self, stop: int) -> bool:
        """Search once more for each front that may miss a better placement, the most promising first.

        Searches that would exceed `stop` are left out; returns whether there were others.
        """
        others, found = self.others(), False
        for way in self.ways:
            way.others = max(way.others, others.get((way.kind, way.ends), math.inf))
        for way in sorted(self.ways, key=lambda way: way.missing):
            if way.missing >= self.best.cost:
                break
            if self.best.work + WIDER * way.ration <= stop:
                way.ration *= WIDER
                way.front = self.front(way.kind, way.ends, way.others, way.ration)
                found = True
        return found

    def join(self, budget: int, offer: Callable[[Placement], None]) -> None:
        """Offer the best placement of the fronts, and record its bound."""
        upper = self.best.cost
        fronts: list[dict[Ends, Front]] = [{} for _ in self.row.forms]
        for way in self.ways:
            fronts[way.kind][way.ends] = way.front
        paths = paths_within_budget([fronts[kind] for kind in self.row.kinds], self.memory, upper, budget)
        self.best.work += paths.work
        found = min(paths.labels, key=lambda label: label.cost, default=None)
        cheapest = upper if found is None else found.cost
        missing = min([way.missing - self.tolerance for way in self.ways], default=math.inf)
        self.best.raise_bound(min(cheapest, paths.dropped, missing), "segments")
        if found is not None:
            offer(self.row.placement(cells_of(found)))

    def front(self, kind: int, ends: Ends, others: float, ration: int) -> Front:
        """The front of one form between two places, without the cost of the entry; raises its bound."""
        form = self.row.forms[kind]
        paid = form.paid_before(self.tariff, ends[0])
        unpriced = form.between(self.row.problem, Tariff(self.tariff.launch), ends)
        memory = [int(weights[0]) for weights in form.weights] + [0] * (ends[0] is not None)
        upper = self.best.cost + self.tolerance - others + paid
        front = front_of(unpriced, memory, self.memory, upper, ration)
        self.best.work += front.work
        points = tuple([replace(point, cost=point.cost - paid) for point in front.points])
        least = min([point.cost + self.memory.price * point.memory for point in points], default=math.inf)
        bound = min(least, front.dropped - paid, upper - paid) - self.tolerance
        self.bounds[kind][ends] = max(self.bounds[kind][ends], bound)
        return replace(front, points=points, dropped=front.dropped - paid)

    def others(self) -> dict[tuple[int, Ends], float]:
        """For each form between two places, a lower bound on the cost of all other segments, at its cheapest
        position.

        Those that no placement below the best known one may take are left out.
        """
        upper, refund = self.best.cost + self.tolerance, self.memory.price * self.memory.most
        columns = [self.bounds[kind] for kind in self.row.kinds]
        after = lengths_to_end(columns)
        before = lengths_to_end(
            [{ends[::-1]: bound for ends, bound in column.items()} for column in columns[::-1]]
        )[::-1]
        found: dict[tuple[int, Ends], float] = {}
        for index, kind in enumerate(self.row.kinds):
            for ends, bound in columns[index].items():
                others = (
                    before[index].get(ends[0], math.inf) + after[index + 1].get(ends[1], math.inf) - refund
                )
                if bound + others < upper:
                    found[kind, ends] = min(others, found.get((kind, ends), math.inf))
        return found
