"""Splits a problem by one op that decides whether a memory budget is exceeded.

If one op needs much of the budget, such as an embedding, the placements next to the best price of memory
differ in it: one exceeds the budget, the other leaves nearly as much of it unused as the op needs. No price
closes that gap. With the op at the target and without it the best prices differ, and each part has a higher
bound; the lower one of both holds (branch and bound, Land and Doig 1960). One of the two placements is in
each part, so where the op is small, the search for the price of the part begins with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from annotated_region.ids import Place, UnitId
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.segment_solver import SmallSolver
from annotated_region.placement.tangents import Beside, PriceSearch
from annotated_region.placement.uses import Uses

__all__ = ["split_by_ops"]

SEARCHES = 4
"""The searches for the prices of one part, at most."""

LARGE = 2
"""An op decides if it needs at least one `LARGE`-th of what the two placements differ by."""

RATIONS = 10
"""Each search gets one `RATIONS`-th of the budget."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The placements with some nodes at the target, and some others elsewhere.

    Attributes
    ----------
    stands
        For each node decided, whether it is at the target.
    bound
        A lower bound on their costs.
    beside
        The placements next to their best price; None if unknown.
    """

    stands: Mapping[int, bool]
    bound: float
    beside: Beside | None


def split_by_ops(
    best: Incumbent,
    uses: Uses,
    prices: PriceSearch,
    budget: int,
    solver: SmallSolver,
    offer: Callable[[Placement], None],
    *,
    needs_large: bool = True,
) -> None:
    """Raise the bound by splitting, while single ops decide whether the budget is exceeded.

    Parameters
    ----------
    best
        The incumbent, which receives the bound and the work.
    uses
        The resource use of units.
    prices
        The search for prices of memory, after it.
    budget
        The approximate work.
    solver
        Solves the problem without limits.
    offer
        Receives placements, which may violate limits.
    needs_large
        Whether to split only by ops that need a large part of what two placements differ by. Splits by
        smaller ones raise the bound as well, but it takes more of them.
    """
    if prices.beside is None or not prices.all_exact:  # gaps of the searches would hide what a split gains
        return
    place, least = prices.beside.place, 1 / LARGE if needs_large else 0.0
    parts_of = _PartSearch(best, uses, prices.dearest, place, least, budget // RATIONS, solver, offer)
    parts = [_Part({}, best.bound, prices.beside)]
    stop = best.work + budget
    while best.work < stop and not best.proven:
        part = min(parts, key=lambda part: part.bound)
        node = parts_of.deciding(part)
        if node is None:
            break
        parts.remove(part)
        parts += [parts_of.part(part, node, stands) for stands in (True, False)]
        best.raise_bound(min(best.cost, *(part.bound for part in parts)), "prices")


@dataclass(frozen=True, slots=True)
class _PartSearch:
    """Makes parts of parts; the attributes are the arguments of `split_by_ops`.

    An op decides if it needs at least the part `least` of the memory that two placements differ by.
    """

    best: Incumbent
    uses: Uses
    per_byte: Mapping[Place, float]
    place: Place
    least: float
    ration: int
    solver: SmallSolver
    offer: Callable[[Placement], None]

    def deciding(self, part: _Part) -> int | None:
        """A node of the op that decides whether a placement of a part exceeds the budget."""
        if part.beside is None:
            return None
        dear, fit = (
            [unit for unit in each.units if self._stands(unit)]
            for each in (part.beside.dear.answer, part.beside.fit.answer)
        )
        inside = {node for unit in fit for node in self.best.problem.units[unit].nodes}
        needs = [
            (self.uses.least_memory(unit), -node)
            for unit in dear
            for node in self.best.problem.units[unit].nodes[:1]
            if node not in inside and node not in part.stands
        ]
        change = math.fsum(map(self.uses.least_memory, dear)) - math.fsum(map(self.uses.least_memory, fit))
        most, node = max(needs, default=(0.0, 0))
        return -node if most > 0 and most >= self.least * change else None

    def part(self, whole: _Part, node: int, stands: bool) -> _Part:
        """The part in which a node is at the target, or is not."""
        decided = {**whole.stands, node: stands}
        problem = self._restricted(decided)
        if not all(problem.units_of) or whole.beside is None:
            return _Part(decided, math.inf, None)
        own = Incumbent(problem, [])
        search = PriceSearch(own, self.uses, dict(self.per_byte), self.solver, self.offer)
        known = whole.beside if self.least == 0 else None
        beside = self._beside(search, known, stands)
        self.best.work += own.work
        if known is not None and beside is not None and own.bound < self.best.cost:
            search.mix(beside)
        return _Part(decided, max(whole.bound, own.bound), beside)

    def _beside(self, search: PriceSearch, known: Beside | None, stands: bool) -> Beside | None:
        """Search for the best price of a part; returns the placements next to it.

        One of those of the whole is in the part: the one that exceeds the budget has the op at the target. Of
        the other kind none is known, so the price is doubled, or the memory is free. After a large op, the
        best price is far from that of the whole, and the search begins at a price of zero.
        """
        dear = known.dear if known is not None and stands else None
        fit = known.fit if known is not None and not stands else None
        price = 0.0 if known is None else known.price
        for _ in range(SEARCHES):
            if dear is None:
                price = 0.0
            else:
                price = max(2 * price, self.per_byte[self.place]) if fit is None else dear.crossing(fit)
            search.per_byte[self.place] = price
            found = search.search(self.ration)
            if found is None or search.highest >= self.best.cost:
                break
            line = search.line(self.place, found)
            met = dear is not None and fit is not None and not fit.over < line.over < dear.over
            if known is not None and met:
                break
            dear, fit = (line, fit) if line.over > 0 else (dear, line)
            if dear is None:  # the budget is not scarce here
                break
        return None if dear is None or fit is None else Beside(self.place, dear, fit)

    def _stands(self, unit: UnitId) -> bool:
        return self.best.problem.units[unit].place == self.place

    def _restricted(self, stands: Mapping[int, bool]) -> PlacementProblem:
        """The problem without the units that contradict the decisions."""
        units = (
            replace(unit, cost=math.inf)
            if any(stands.get(node, mine) != mine for node in unit.nodes)
            else unit
            for unit in self.best.problem.units
            for mine in [unit.place == self.place]
        )
        return replace(self.best.problem, units=tuple(units))
