"""Placements that respect a memory budget by moving one window of a target's units to other places.

A placement found without the budget exceeds it. Dropping units one by one scatters the target's regions; a
window of units that are consecutive in program order costs few launches and transfers. Two kinds are tried
from evenly spaced starts: the shortest window that has to leave the target, and the longest one that may
stay. Units that leave go to the cheapest other place, and the result is grouped into waves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.uses import Uses
from annotated_region.placement.waves import wave_placement

__all__ = ["offer_windows", "starts_to_try"]

MOST_STARTS = 48
"""The number of starts of windows, at most."""

NODE_VISITS = 24_000
"""The approximate number of node visits in grouping the placements, which bounds the number of starts."""


def offer_windows(
    problem: PlacementProblem, uses: Uses, source: Placement, offer: Callable[[Placement], None]
) -> None:
    """Offer the placements that differ from another one in one window.

    Parameters
    ----------
    problem
        The problem, with its budgets.
    uses
        The resource use of its units.
    source
        A placement, which may exceed budgets.
    offer
        Receives the placements, which may still violate other limits.

    Notes
    -----
    O(starts x places x (nodes + edges)) for each target whose budget `source` exceeds.
    """
    for place, limits in numbered(Place, problem.limits):
        if limits.budget_bytes is None:
            continue
        line = _UnitLine(problem, uses, source, place)
        for first, stop, leaves in line.windows(limits.budget_bytes):
            units = line.units_with(first, stop, leaves=leaves)
            found = None if units is None else wave_placement(problem, units)
            if found is not None:
                offer(found)


def starts_to_try(problem: PlacementProblem, count: int) -> list[int]:
    """Evenly spaced starts of windows in a line of `count` items; fewer for larger problems."""
    starts = max(1, min(MOST_STARTS, NODE_VISITS // max(1, problem.nodes)))
    return list(dict.fromkeys(count * number // starts for number in range(starts)))


class _UnitLine:
    """The units of a placement in program order, with the memory of those of one target."""

    def __init__(self, problem: PlacementProblem, uses: Uses, source: Placement, place: Place) -> None:
        self._problem = problem
        self._place = place
        self._units = sorted(source.units, key=lambda unit: problem.units[unit].nodes)
        held = [uses.memory([unit]) if self._stands(unit) else 0 for unit in self._units]
        self._before = [0, *accumulate(held)]
        self._others: dict[UnitId, Sequence[UnitId] | None] = {}

    def _stands(self, unit: UnitId) -> bool:
        """Whether a unit is at the target."""
        return self._problem.units[unit].place == self._place

    def windows(self, budget: int) -> Iterator[tuple[int, int, bool]]:
        """The windows to try: the first unit, the one after the last, and whether the window leaves."""
        before, count = self._before, len(self._units)
        over = before[-1] - budget
        if over <= 0:
            return
        for start in starts_to_try(self._problem, count):
            leaving = bisect_left(before, before[start] + over)
            if leaving <= count:
                yield start, leaving, True
            yield start, bisect_right(before, before[start] + budget) - 1, False

    def units_with(self, first: int, stop: int, *, leaves: bool) -> list[UnitId] | None:
        """The units if those of a window, or all others, leave the target; None if some cannot."""
        found: list[UnitId] = []
        for index, unit in enumerate(self._units):
            if not self._stands(unit) or (first <= index < stop) != leaves:
                found.append(unit)
                continue
            others = self._elsewhere(unit)
            if others is None:
                return None
            found += others
        return found

    def _elsewhere(self, unit: UnitId) -> Sequence[UnitId] | None:
        """The cheapest units of another place, and of the host, for the nodes of a unit; None without any."""
        if unit not in self._others:
            covers = [self._cover(unit, place) for place in map(Place, range(self._problem.host + 1))]
            known = [cover for cover in covers if cover is not None]
            self._others[unit] = min(known, key=self._cost, default=None)
        return self._others[unit]

    def _cover(self, unit: UnitId, place: Place) -> list[UnitId] | None:
        """The nodes of a unit covered by units of a place, the largest first, and of the host."""
        problem = self._problem
        wanted = set(problem.units[unit].nodes)
        if place == self._place:
            return None
        offered = {other for node in wanted for other in problem.units_of[node]}
        usable = [
            other
            for other in sorted(offered)
            if problem.units[other].place in (place, problem.host)
            and wanted.issuperset(problem.units[other].nodes)
        ]
        usable.sort(
            key=lambda other: (problem.units[other].place == problem.host, -len(problem.units[other].nodes))
        )
        chosen = []
        for other in usable:
            if wanted.issuperset(problem.units[other].nodes):
                wanted.difference_update(problem.units[other].nodes)
                chosen.append(other)
        return None if wanted else chosen

    def _cost(self, units: Sequence[UnitId]) -> float:
        return sum(self._problem.units[unit].cost for unit in units)
