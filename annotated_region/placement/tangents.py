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

__all__ = ["Beside", "PriceSearch"]

TRIES = 5
"""The maximum number of prices tried for each budget."""

NEAR = 1.25
"""The factor between the first two prices, squared with each next one, until one placement exceeds the budget
and another one keeps it."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The two placements next to the best price of a target's memory.

    Attributes
    ----------
    place
        The target.
    dear, fit
        The placement that exceeds its budget, and the one that keeps it, as lines over the price.
    """

    place: Place
    dear: PriceLine[Placement]
    fit: PriceLine[Placement]

    @property
    def price(self) -> float:
        """The price at which both placements cost the same."""
        return self.dear.crossing(self.fit)


@dataclass(slots=True)
class PriceSearch:
    """The search for the prices of memory.

    Attributes
    ----------
    best
        The incumbent, which receives the bounds and the work.
    uses
        The resource use of units.
    per_byte
        For each target with a budget, the current price of a byte; prices of zero are kept.
    solver
        Solves the problem without limits.
    offer
        Receives placements, which may violate limits.
    is_exact
        Whether the last search proved its placement the best at the current prices.
    all_exact
        Whether every search did.
    highest, dearest
        The best bound of a search, and its prices.
    beside
        The placements next to the price adjusted last.
    """

    best: Incumbent
    uses: Uses
    per_byte: dict[Place, float]
    solver: SmallSolver
    offer: Callable[[Placement], None]
    is_exact: bool = False
    all_exact: bool = True
    highest: float = -math.inf
    dearest: Mapping[Place, float] = field(init=False)
    beside: Beside | None = None
    market: MemoryMarket = field(init=False)

    def __post_init__(self) -> None:
        self.dearest = dict(self.per_byte)
        self.market = MemoryMarket(self.best.problem, self.uses, self.best.step)

    def adjust_all(self, budget: int) -> None:
        """Find the best prices, near the current ones."""
        scarce = [place for place, price in self.per_byte.items() if price > 0]
        for place in scarce:
            self.adjust(place, budget // (TRIES * len(scarce)))

    def search_again(self, budget: int) -> None:
        """Search once more at the current prices if no search there was exact."""
        if budget > 0 and not self.best.proven and not self.is_exact and any(self.per_byte.values()):
            self.search(budget)

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
            self.beside = Beside(place, dear, fit)
            self.mix(self.beside)

    def mix(self, beside: Beside) -> None:
        """Offer mixtures of two placements."""
        dear, fit = beside.dear.answer, beside.fit.answer
        offer_mixtures(self.best.problem, self.uses, beside.place, dear, fit, self.offer)
        offer_mixtures(self.best.problem, self.uses, beside.place, fit, dear, self.offer)

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
        self.all_exact &= self.is_exact
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
