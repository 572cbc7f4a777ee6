"""Searches for the cheapest valid placement, and proves a lower bound on its cost.

1. Starting placements: all-host, each target alone, the priority orders, the caller's placements; for one
   target the minimum cut.
2. If the network is a sequence of segments and many of them are equal, equal segments are solved once
   (`annotated_region.placement.segment_solver`).
3. Prices give a lower bound and a potential (`annotated_region.placement.prices`).
4. Dynamic programming over the frontier with increasing width. Each run is pruned by the best placement so
   far and followed by a look-ahead from the articulation points, until the bound meets the cost or the
   budget is exhausted. After the first inexact run, the units that are best without launch costs are
   tried (`annotated_region.placement.free_launches`). If even the narrowest run exceeds the budget,
   because the network is long and wide, the units that are best at the prices are tried instead.

The result does not depend on the clock or on hashes: the budget is counted in labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from annotated_region.collector import paused_collector
from annotated_region.errors import PinError
from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.free_launches import offer_free_of_launches
from annotated_region.placement.frontier import FrontierSearch, SearchLimits, is_too_wide, most_work
from annotated_region.placement.incumbent import Incumbent, Solution
from annotated_region.placement.leaning import offer_leaning
from annotated_region.placement.limited_solver import (
    PASS,
    SHARE,
    offered_units,
    solve_limited,
    without_limits,
)
from annotated_region.placement.lookahead import look_ahead
from annotated_region.placement.mincut import minimum_cut
from annotated_region.placement.prices import Potential, Prices
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.segment_solver import row_of
from annotated_region.placement.segments import Tariff
from annotated_region.placement.starts import starting_placements
from annotated_region.placement.transitions import Transitions
from annotated_region.placement.waves import wave_placement

__all__ = ["DEFAULT_BUDGET", "Solution", "solve"]

DEFAULT_BUDGET = 300_000
"""Work of the dynamic program; 300 000 take about 8 s in CPython."""

FIRST_WIDTH = 16
"""Labels per layer in the first run, if the budget allows that for all steps."""

WIDER = 8
"""The factor by which the width grows with each run."""

SWEEPS = 3
"""Pairs of sweeps over the prices; the first two give nearly all of the bound."""


@paused_collector()
def solve(
    problem: PlacementProblem, budget: int = DEFAULT_BUDGET, starts: Iterable[Placement] = ()
) -> Solution:
    """Find the cheapest placement.

    Parameters
    ----------
    problem
        The problem.
    budget
        The work of the search: 300 000 take about 8 s. It affects quality but not validity;
        the same budget gives the same result on every machine. A search that exceeds it several times
        stops, unless it has to find the first placement.
    starts
        Further starting placements; the result is at most as expensive as each of them.

    Raises
    ------
    PinError
        If some node has no unit, or no valid placement was found within the budget.
    InvalidPlacementError
        If one of `starts` is not a placement of this problem.

    Notes
    -----
    O(places x (nodes + edges)) for the starts, O(edges x 4^places) for the prices; the rest is bounded by
    the budget, but visits each node at least once.
    """
    _require_units(problem)
    if problem.is_limited:
        return _solve_limited(problem, budget, starts)
    candidates = (placement.split(problem) for placement in starting_placements(problem))
    best = Incumbent(problem, [*(each for each in candidates if each is not None), *starts])
    if best.cost > 0 and problem.nodes:
        _improve(best, budget)
    else:
        best.raise_bound(0.0, "trivial")
    return best.solution()


def _require_units(problem: PlacementProblem) -> None:
    """Reject a problem with a node that has no unit."""
    if not all(problem.units_of):
        node = problem.units_of.index(())
        raise PinError(f"no unit of finite cost covers node {node}: no place can run it")


def _solve_limited(problem: PlacementProblem, budget: int, starts: Iterable[Placement]) -> Solution:
    """Solve without limits first, if the budget allows both; then with limits."""
    offered = offered_units(problem)
    _require_units(offered)
    free = None
    if problem.nodes * PASS <= budget:
        free = solve(without_limits(offered), budget // SHARE)
    return solve_limited(offered, budget, starts, free, solve)


def _improve(best: Incumbent, budget: int) -> None:
    """Minimum cut, prices, search; stop when the bound meets the cost."""
    problem = best.problem
    _cut(best)
    if best.proven:
        return
    is_large = problem.nodes * PASS > budget
    if _solve_row(best, budget if is_large else budget // SHARE) and (is_large or best.proven):
        return
    order = narrow_order(problem)
    prices = Prices(problem, order)
    for _ in range(SWEEPS):
        prices.sweep(forward=True)
        prices.sweep(forward=False)
    potential = Potential(problem, prices, best.step)
    best.raise_bound(potential.base, "prices")
    if best.proven:
        return
    if best.placement is not None and is_too_wide(problem, order, budget):
        offer_leaning(problem, prices, best.offer_parts)
        return
    _search(best, FrontierSearch(Transitions(problem, steps_of(problem, order), potential)), budget)


def _cut(best: Incumbent) -> None:
    """For one target, the minimum cut: any placement that uses the target costs at least the cut and a
    launch.
    """
    problem = best.problem
    found = minimum_cut(problem)
    if found is None:
        return
    flow, units = found
    placement = wave_placement(problem, units)
    if placement is not None:
        best.offer_parts(placement)
    host = [
        [unit for unit in units if problem.units[unit].place == problem.host] for units in problem.units_of
    ]
    all_host = math.fsum(min([problem.units[unit].cost for unit in row], default=math.inf) for row in host)
    best.raise_bound(min(all_host, flow + problem.launch[0]), "minimum cut")


def _solve_row(best: Incumbent, budget: int) -> bool:
    """Solve equal segments once, if there are enough; returns whether this found a placement."""
    row = row_of(best.problem, {}, best.problem.nodes)
    try:
        found = None if row is None else row.solve(Tariff(best.problem.launch), budget, solve)
    except PinError:  # the narrow search missed every placement of some segment
        return False
    if row is None or found is None:
        return False
    best.work += found.work
    best.raise_bound(found.bound, "segments")
    best.offer(row.placement(found.chosen))
    return True


def _search(best: Incumbent, search: FrontierSearch, budget: int) -> None:
    """Runs of increasing width, each pruned by the results of the previous ones."""
    base = search.transitions.potential.base
    steps = len(search.transitions.steps)
    width = first = max(2, min(FIRST_WIDTH, budget // (32 * steps)))
    while True:
        most = None if best.placement is None else most_work(budget)
        result = search.run(SearchLimits(best.cost, width, budget - best.work, most))
        best.work += result.work
        best.raise_bound(result.bound, "frontier")
        if result.placement is not None:
            best.offer_parts(result.placement)
        if result.exact or best.proven or best.work >= budget:
            return
        if width == first and best.problem.nodes * PASS <= budget:
            offer_free_of_launches(best, (budget - best.work) // SHARE, best.offer_parts)
        slack = best.cost - base
        if math.isfinite(slack):
            looked = look_ahead(search, slack, 4 * width, (budget - best.work) // 2)
            best.work += looked.work
            best.raise_bound(base + looked.rise, "look-ahead")
        if best.proven or best.work >= budget:
            return
        width *= WIDER
