"""Prices for memory by tangents: the problem without budgets, solved at several prices.

The sweeps of `annotated_region.placement.penalties` count launches only along one path. Here each price is
tried with a search for whole placements. Its bound, minus the price of the budgets, is a bound of the problem
(Held and Karp 1971, "The traveling-salesman problem and minimum spanning trees: part II"; Fisher 1981). The
cost of a fixed placement is linear in the price; the lines of a placement that exceeds a budget and of one
that keeps it intersect at the next price (Kelley 1960, in one dimension). Mixtures of the two placements are
offered as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from annotated_region.errors import PinError
from annotated_region.ids import Place
from annotated_region.placement.incumbent import TOLERANCE, Incumbent, Solution
from annotated_region.placement.mixtures import offer_mixtures
from annotated_region.placement.penalties import MemoryMarket
from annotated_region.placement.price_lines import PriceLine
from annotated_region.placement.problem import Placement
from annotated_region.placement.segment_solver import SmallSolver
from annotated_region.placement.uses import Uses

__all__ = ["prices_by_tangents"]

TRIES = 5
"""The maximum number of prices tried for each budget."""

THOROUGH = 3
"""The searches for prices get one `THOROUGH`-th of the budget together."""

NEAR = 1.25
"""The factor between the first two prices, squared with each next one, until one placement exceeds the budget
and another one keeps it."""


def prices_by_tangents(
    best: Incumbent,
    uses: Uses,
    per_byte: Mapping[Place, float],
    budget: int,
    solver: SmallSolver,
    offer: Callable[[Placement], None],
) -> Mapping[Place, float]:
    """Search at several prices for memory, near the given ones; returns those of the best bound.

    Parameters
    ----------
    best
        The incumbent, which receives the bounds and the work.
    uses
        The resource use of units.
    per_byte
        For each target with a budget, the price of a byte; prices of zero are kept.
    budget
        The work of all searches: a third for the search for prices, the rest for one thorough search at the
        prices found.
    solver
        Solves the problem without limits.
    offer
        Receives placements, which may violate limits.
    """
    scarce = [place for place, price in per_byte.items() if price > 0]
    if not scarce:
        return per_byte
    market = MemoryMarket(best.problem, uses, best.step)
    tangents = _Tangents(best, uses, market, dict(per_byte), solver, offer)
    for place in scarce:
        tangents.adjust(place, budget // (THOROUGH * TRIES * len(scarce)))
    if not best.proven and not tangents.is_exact:
        tangents.search(budget - budget // THOROUGH)
    return tangents.dearest


@dataclass(slots=True)
class _Tangents:
    """The search for the prices.

    Attributes
    ----------
    is_exact
        Whether the last search proved its placement the best at the current prices.
    highest, dearest
        The best bound of a search, and its prices.
    """

    best: Incumbent
    uses: Uses
    market: MemoryMarket
    per_byte: dict[Place, float]
    solver: SmallSolver
    offer: Callable[[Placement], None]
    is_exact: bool = False
    highest: float = -math.inf
    dearest: Mapping[Place, float] = field(init=False)

    def __post_init__(self) -> None:
        self.dearest = dict(self.per_byte)

    def adjust(self, place: Place, ration: int) -> None:
        """Find the best price of one target, with the other prices fixed; mix the placements next to it."""
        dear: PriceLine[Placement] | None = None
        fit: PriceLine[Placement] | None = None
        for attempt in range(TRIES):
            found = self.search(ration)
            line = None if found is None else self.line(place, found)
            if line is None or self.best.proven:
                break
            if dear is not None and fit is not None and not fit.over < line.over < dear.over:
                break
            dear, fit = (line, fit) if line.over > 0 else (dear, line)
            if dear is None:
                self.per_byte[place] /= NEAR**2**attempt
            elif fit is None:
                self.per_byte[place] *= NEAR**2**attempt
            else:
                self.per_byte[place] = dear.crossing(fit)
            self.is_exact = False
        if dear is not None and fit is not None:
            problem = self.best.problem
            offer_mixtures(problem, self.uses, place, dear.answer, fit.answer, self.offer)
            offer_mixtures(problem, self.uses, place, fit.answer, dear.answer, self.offer)

    def search(self, ration: int) -> Solution | None:
        """Search at the current prices; None if the search found no placement."""
        penalties = self.market.penalties(self.per_byte)
        try:
            found = self.solver(self.market.priced(penalties), ration)
        except PinError:
            return None
        self.best.work += found.work
        bound = found.lower_bound - TOLERANCE * found.cost  # it may have been rounded up to the cost
        if bound - penalties.most > self.highest:
            self.highest, self.dearest = bound - penalties.most, dict(self.per_byte)
            self.best.raise_bound(self.highest, found.proof)
        self.offer(found.placement)
        self.is_exact = found.gap == 0
        return found

    def line(self, place: Place, found: Solution) -> PriceLine[Placement]:
        """What was found at the current prices, as a line over one of them."""
        limit = self.uses.limits(place).budget_bytes
        assert limit is not None, "the target has a budget"
        units = self.best.problem.units
        taken = math.fsum(
            self.market.memory[unit] for unit in found.placement.units if units[unit].place == place
        )
        return PriceLine(found.placement, found.cost - self.per_byte[place] * taken, taken - limit)
