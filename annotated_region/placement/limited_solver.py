"""The cheapest placement found where targets limit their regions, and a bound for all that keep the limits.

1. Units that no region of their target may hold are not offered.
2. Starting placements: first come, first served within the limits; whatever the searches below find, cut and
   dropped to the limits.
3. The problem without limits: its bound holds, and if its answer keeps the limits it is the answer.
4. Where the network is a row of segments of which many are equal, those are solved once, at prices for what
   is short (`annotated_region.placement.row_prices`).
5. Prices for memory (`annotated_region.placement.penalties`); the units that are best at prices about these
   and without launches, cut to the limits (`annotated_region.placement.free_launches`).
6. Dynamic programming with labels that carry what they have used, in ever wider runs
   (`annotated_region.placement.limited_search`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from annotated_region.errors import PinError
from annotated_region.ids import UnitId, numbered
from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.free_launches import offer_free_of_launches
from annotated_region.placement.frontier import FrontierSearch, SearchLimits
from annotated_region.placement.greedy import greedy_placements, within_limits
from annotated_region.placement.incumbent import Incumbent, Solution
from annotated_region.placement.limited_search import LimitedSearch, Penalties
from annotated_region.placement.lookahead import look_ahead
from annotated_region.placement.penalties import priced_memory
from annotated_region.placement.prices import Potential
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.row_prices import solve_limited_row
from annotated_region.placement.segment_solver import SmallSolver
from annotated_region.placement.starts import starting_placements
from annotated_region.placement.transitions import Transitions
from annotated_region.placement.uses import Uses

__all__ = ["offered_units", "solve_limited", "without_limits"]

FIRST_WIDTH, WIDER = 16, 8
"""Labels of a layer in the first run, and how much wider each further run is."""

RELAXED_WIDTH = 256
"""Labels of a layer where nothing is limited."""

SHARE = 4
"""The problem without limits gets one part in so many of the budget."""

PRICE_LEVELS = (0.9, 1.0, 1.1, 1.3)
"""At which shares of the prices for memory units are chosen without launches: what the best prices leave of a
budget, or take too much, is cut and lost, so others may be better."""

LEVEL_PASS = 25
"""Choosing units at one level takes about as long as so much work for each node, prices included."""

PASS = 100
"""One narrow run takes less work than this for each node, about; where limits are to be kept and the budget
does not allow that, the problem without limits is not solved first."""


def offered_units(problem: PlacementProblem) -> PlacementProblem:
    """The problem without the units that no region of their target may hold: their costs are infinite."""
    uses = Uses(problem)
    units = (
        unit if uses.can_fit(index) else replace(unit, cost=math.inf)
        for index, unit in numbered(UnitId, problem.units)
    )
    return replace(problem, units=tuple(units))


def without_limits(problem: PlacementProblem) -> PlacementProblem:
    """The same problem for targets that take everything: its bound holds for `problem` too."""
    return replace(problem, limits=(), constants=(), accepts=None)


def solve_limited(
    problem: PlacementProblem,
    budget: int,
    starts: Iterable[Placement],
    free: Solution | None,
    solver: SmallSolver,
) -> Solution:
    """See `annotated_region.placement.solver.solve`.

    Parameters
    ----------
    problem
        The problem, with units of finite cost for each node that its targets' limits allow.
    budget
        How much to search.
    starts
        Further placements, which keep the limits.
    free
        The answer to the problem without limits, if it was sought.
    solver
        Solves small problems without limits.
    """
    uses = Uses(problem)
    known = [
        *greedy_placements(problem, uses),
        *_cut_down(problem, uses, starting_placements(problem)),
        *starts,
    ]
    if free is not None:
        known += _cut_down(problem, uses, [free.placement])
    best = Incumbent(problem, known)
    if free is not None:
        best.work = free.work
        best.raise_bound(free.lower_bound, free.proof)
    is_large = problem.nodes * PASS > budget
    if not best.proven and not (_solve_row(best, uses, budget // SHARE, solver) and is_large):
        _search(best, uses, budget)
    return best.solution()


def _cut_down(problem: PlacementProblem, uses: Uses, placements: Iterable[Placement]) -> Iterable[Placement]:
    """The placements within the limits; without those for which there is no such."""
    for placement in placements:
        found = within_limits(problem, uses, placement)
        if found is not None:
            yield found


def _solve_row(best: Incumbent, uses: Uses, budget: int, solver: SmallSolver) -> bool:
    """Solve equal segments once, if there are enough; whether that led to a bound."""
    try:
        return solve_limited_row(best, uses, budget, solver, partial(_offer, best, uses))
    except PinError:  # a segment has a placement that a narrow search misses
        return False


def _search(best: Incumbent, uses: Uses, budget: int) -> None:
    """Price memory, then ever wider runs of the dynamic program."""
    order = narrow_order(best.problem)
    priced = priced_memory(best.problem, uses, order, best.step, best.cost)
    potential = Potential(priced.problem, priced.prices, best.step)
    best.raise_bound(potential.base - priced.penalties.most, "prices")
    if best.proven:
        return
    transitions = Transitions(priced.problem, steps_of(priced.problem, order), potential)
    relaxed = FrontierSearch(transitions)
    width = max(2, min(FIRST_WIDTH, budget // (32 * best.problem.nodes)))
    is_large = best.problem.nodes * PASS > budget
    if not is_large:
        _free_of_launches(best, uses, priced.penalties, (budget - best.work) // SHARE)
        _relax(best, uses, relaxed, priced.penalties.most, (budget - best.work) // SHARE)
    search = LimitedSearch(transitions, relaxed.spine, uses, priced.penalties)
    while True:
        left = budget - best.work
        result = search.run(SearchLimits(best.cost, width, left // 2 if is_large else left))
        best.work += result.work
        best.raise_bound(result.bound, "frontier")
        _offer(best, uses, result.placement)
        if result.exact or is_large or best.proven or best.work >= budget:
            return
        width *= WIDER


def _free_of_launches(best: Incumbent, uses: Uses, penalties: Penalties, ration: int) -> None:
    """Offer the units that are best without launches, at several prices for memory."""
    affordable = LEVEL_PASS * len(PRICE_LEVELS) * best.problem.nodes <= ration
    for level in PRICE_LEVELS if any(penalties.of) and affordable else (1.0,):
        prices = [level * penalty for penalty in penalties.of]
        offer_free_of_launches(best, ration // len(PRICE_LEVELS), partial(_offer, best, uses), prices)


def _relax(best: Incumbent, uses: Uses, search: FrontierSearch, most: float, ration: int) -> None:
    """Search where memory is priced and nothing is limited: for the bound, and for what lies ahead."""
    result = search.run(SearchLimits(best.cost + most, RELAXED_WIDTH, ration // 2))
    best.work += result.work
    best.raise_bound(result.bound - most, "frontier")
    _offer(best, uses, result.placement)
    base, slack = search.transitions.potential.base, best.cost + most - search.transitions.potential.base
    if math.isfinite(slack) and not best.proven:
        looked = look_ahead(search, slack, RELAXED_WIDTH, ration // 2)
        best.work += looked.work
        best.raise_bound(base + looked.rise - most, "look-ahead")


def _offer(best: Incumbent, uses: Uses, placement: Placement | None) -> None:
    """Take what is left of a placement within the limits, if it is cheaper."""
    for cut_down in _cut_down(best.problem, uses, [] if placement is None else [placement]):
        best.offer(cut_down)
