"""Chooses units as if launches were free, and groups them into waves.

With expensive launches, bounds are loose, because they only include launches along the spine; a narrow run of
the dynamic program may then drop the best choices. Without launches its bounds are nearly tight. The units
that it chooses there, grouped into as few regions as waves allow, form a placement of the original problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.evaluation import evaluate
from annotated_region.placement.frontier import FrontierSearch, SearchLimits, is_too_wide, most_work
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.leaning import offer_leaning
from annotated_region.placement.prices import Potential, Prices
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.transitions import Transitions
from annotated_region.placement.waves import wave_placement

__all__ = ["offer_free_of_launches"]

WIDTH = 256
"""Labels per layer."""

SWEEPS = 3
"""Pairs of sweeps over the prices."""


def offer_free_of_launches(
    best: Incumbent,
    budget: int,
    offer: Callable[[Placement], None],
    penalties: Sequence[float] = (),
) -> None:
    """Find the best units without launches and limits, and offer their waves as a placement.

    Parameters
    ----------
    best
        The incumbent, which accumulates the work.
    budget
        The work of the search.
    offer
        Receives the placement, which may violate limits.
    penalties
        The additional cost of each unit for its memory.
    """
    problem = best.problem
    if best.placement is None or not any(problem.launch):
        return
    free = _without_launches(problem, best.step, penalties)
    order = narrow_order(free)
    prices = Prices(free, order)
    for _ in range(SWEEPS):
        prices.sweep(forward=True)
        prices.sweep(forward=False)
    if is_too_wide(free, order, budget):
        offer_leaning(free, prices, offer)
        return
    search = FrontierSearch(Transitions(free, steps_of(free, order), Potential(free, prices, best.step)))
    result = search.run(SearchLimits(evaluate(free, best.placement), WIDTH, budget, most_work(budget)))
    best.work += result.work
    waves = None if result.placement is None else wave_placement(problem, result.placement.units)
    if waves is not None:
        offer(waves)


def _without_launches(problem: PlacementProblem, step: float, penalties: Sequence[float]) -> PlacementProblem:
    """The problem without launches and limits; penalties are rounded to the grid."""
    units = problem.units
    if penalties:
        units = tuple(
            replace(unit, cost=unit.cost + round(penalty / step) * step)
            for unit, penalty in zip(units, penalties, strict=True)
        )
    launch = (0.0,) * len(problem.launch)
    return replace(problem, launch=launch, units=units, limits=(), constants=(), accepts=None)
