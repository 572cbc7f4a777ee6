"""Mixtures of two placements: a window of the program as in one of them, the rest as in the other.

At the best price of a memory budget, two placements cost the same: one exceeds the budget, and the other
leaves part of it unused. A placement that takes a window from one and the rest from the other can use the
whole budget; only what crosses the borders of the window costs more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain

from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.uses import Uses
from annotated_region.placement.waves import wave_placement
from annotated_region.placement.windows import starts_to_try

__all__ = ["fill_budgets", "offer_mixtures"]

FILLINGS = 4
"""How often the rest of a budget is filled, at most."""

Stretches = list[list[UnitId]]
"""The units of a placement between each two borders, in program order."""


def offer_mixtures(
    problem: PlacementProblem,
    uses: Uses,
    place: Place,
    inside: Placement,
    outside: Placement,
    offer: Callable[[Placement], None],
) -> None:
    """Offer the placements that follow one placement in a window, and another one elsewhere.

    Parameters
    ----------
    problem
        The problem, with a budget for `place`.
    uses
        The resource use of its units.
    place
        The target of whose budget each window uses as much as possible.
    inside, outside
        The placements; one of them may exceed the budget.
    offer
        Receives the placements, which may still violate limits.

    Notes
    -----
    O(starts x places x (nodes + edges)).
    """
    budget = uses.limits(place).budget_bytes
    assert budget is not None, "the target has a budget"
    borders = _borders(problem, inside, outside)
    new, old = (_stretches(problem, borders, placement) for placement in (inside, outside))
    held = [[_memory(problem, uses, place, units) for units in stretches] for stretches in (new, old)]
    change = [0, *accumulate(after - before for after, before in zip(*held, strict=True))]
    for start, stop in _windows(change, budget - sum(held[1]), starts_to_try(problem, len(old))):
        units = chain(*old[:start], *new[start:stop], *old[stop:])
        found = wave_placement(problem, sorted(units))
        if found is not None:
            offer(found)


def fill_budgets(best: Incumbent, uses: Uses, source: Placement, offer: Callable[[Placement], None]) -> None:
    """Mix windows of a placement into the best one, while that uses more of a budget and makes it cheaper.

    Parameters
    ----------
    best
        The incumbent.
    uses
        The resource use of units.
    source
        A placement, which may exceed budgets.
    offer
        Offers a placement to the incumbent if it respects the limits.
    """
    for place, limits in numbered(Place, best.problem.limits):
        for _ in range(FILLINGS if limits.budget_bytes is not None else 0):
            before, known = best.cost, best.placement
            if known is None:
                return
            offer_mixtures(best.problem, uses, place, source, known, offer)
            if best.cost >= before:
                break


def _borders(problem: PlacementProblem, *placements: Placement) -> list[int]:
    """The nodes before which no unit of the placements is incomplete, and the number of nodes."""
    last = list(range(problem.nodes))
    for unit in chain.from_iterable(placement.units for placement in placements):
        nodes = problem.units[unit].nodes
        last[nodes[0]] = max(last[nodes[0]], nodes[-1])
    reached = [-1, *accumulate(last, max)]
    return [node for node, before in enumerate(reached) if before < node]


def _stretches(problem: PlacementProblem, borders: Sequence[int], placement: Placement) -> Stretches:
    found: Stretches = [[] for _ in borders[1:]]
    for unit in placement.units:
        found[bisect_left(borders, problem.units[unit].nodes[0] + 1) - 1].append(unit)
    return found


def _memory(problem: PlacementProblem, uses: Uses, place: Place, units: Sequence[UnitId]) -> int:
    """The memory of those of some units that are at a place, if they share no constants."""
    return sum(uses.memory([unit]) for unit in units if problem.units[unit].place == place)


def _windows(change: Sequence[int], room: int, starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """For each start, the stop at which the memory has changed most, but by at most `room`."""
    for start in starts:
        stops = [stop for stop in range(start + 1, len(change)) if change[stop] - change[start] <= room]
        if stops:
            yield start, max(stops, key=change.__getitem__)
