"""The solver for targets with limits on regions: a placement within the limits, and a lower bound.

1. Units that no region of their target may hold are removed.
2. Starting placements: greedy ones within the limits; results of the searches below, with regions cut and
   dropped to respect the limits.
3. The problem without limits: its bound is valid, and its solution is optimal if it respects the limits. If
   it exceeds a budget, one window of it goes elsewhere (`annotated_region.placement.windows`).
4. If the network is a row of segments and many of them are equal, equal segments are solved once, at prices
   for scarce resources (`annotated_region.placement.row_prices`).
5. Prices for memory (`annotated_region.placement.penalties`).
6. The problem without limits at several such prices (`annotated_region.placement.tangents`): bounds, and
   mixtures of what was found (`annotated_region.placement.mixtures`). The best units without launches at
   prices near these, cut to the limits (`annotated_region.placement.free_launches`).
7. If one op decides whether a budget is exceeded, the problem with it at the target, and without
   (`annotated_region.placement.splitting`). If the network is a row of segments, Pareto fronts of
   segments (`annotated_region.placement.budgeted_row`).
8. Dynamic programming with labels that carry their resource use, in runs of increasing width
   (`annotated_region.placement.limited_search`).
9. What is left of a budget is filled with windows of the solution of the problem without limits, and single
   units move between places (`annotated_region.placement.refinement`).
10. If that leaves a gap, the problem is split as in step 7 by smaller ops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from annotated_region.errors import PinError
from annotated_region.ids import Place, UnitId, numbered
from annotated_region.placement.budgeted_row import row_within_budget, solve_budgeted_row
from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.free_launches import offer_free_of_launches
from annotated_region.placement.frontier import FrontierSearch, SearchLimits, is_too_wide, most_work
from annotated_region.placement.greedy import greedy_placements, within_limits
from annotated_region.placement.incumbent import Incumbent, Solution
from annotated_region.placement.leaning import offer_leaning
from annotated_region.placement.limited_search import LimitedSearch, Penalties
from annotated_region.placement.lookahead import look_ahead
from annotated_region.placement.mixtures import fill_budgets
from annotated_region.placement.penalties import MemoryMarket, PricedMemory, priced_memory
from annotated_region.placement.prices import Potential
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.refinement import refine
from annotated_region.placement.row_prices import solve_limited_row
from annotated_region.placement.segment_solver import SmallSolver
from annotated_region.placement.splitting import split_by_ops
from annotated_region.placement.starts import starting_placements
from annotated_region.placement.tangents import PriceSearch
from annotated_region.placement.transitions import Transitions
from annotated_region.placement.uses import Uses
from annotated_region.placement.windows import offer_windows

__all__ = ["offered_units", "solve_limited", "without_limits"]

FIRST_WIDTH, WIDER = 16, 8
"""Labels per layer in the first run, and the factor by which the width grows with each run."""

RELAXED_WIDTH = 256
"""Labels per layer in the problem without limits."""

SHARE = 4
"""The problem without limits gets one `SHARE`-th of the budget."""

ROWS = 3
"""The row of segments within the budget gets `ROWS` such shares of what is left then."""

TANGENTS = 3
"""The problem without limits at prices for memory gets `TANGENTS` such shares of what is left: one for the
search for prices, the rest for one thorough search at the prices found."""

LAST_SPLIT = 2
"""A problem that is not proven at the end gets one `LAST_SPLIT`-th of the budget in addition, for splits."""

PRICE_LEVELS = (0.9, 1.0, 1.1, 1.3)
"""The multiples of the memory prices at which units are chosen without launches. At the best prices, the
choice may leave part of a budget unused or exceed it and lose units, so other prices may give better
placements."""

LEVEL_PASS = 25
"""The approximate work per node of choosing units at one level, prices included."""

PASS = 100
"""An approximate upper bound on the work per node of a narrow run. If there are limits and the budget is
smaller, the problem without limits is not solved first."""


def offered_units(problem: PlacementProblem) -> PlacementProblem:
    """The problem with infinite costs for the units that no region of their target may hold."""
    uses = Uses(problem)
    units = (
        unit if uses.can_fit(index) else replace(unit, cost=math.inf)
        for index, unit in numbered(UnitId, problem.units)
    )
    return replace(problem, units=tuple(units))


def without_limits(problem: PlacementProblem) -> PlacementProblem:
    """The same problem without limits: its bound is valid for `problem` too."""
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
        The problem; each node has a unit of finite cost that the limits of its target allow.
    budget
        The work of the search.
    starts
        Further placements, which respect the limits.
    free
        The solution of the problem without limits, if it was computed.
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
        _offer_windows(best, uses, free.placement)
    is_large = problem.nodes * PASS > budget
    search = None
    if not best.proven and not (_solve_row(best, uses, budget // SHARE, solver) and is_large):
        search = _search(best, uses, budget, solver if free is not None and free.gap == 0 else None)
    if not best.proven and free is not None:
        _close_gap(best, uses, free.placement, search, budget // LAST_SPLIT)
    return best.solution()


def _close_gap(best: Incumbent, uses: Uses, free: Placement, search: PriceSearch | None, budget: int) -> None:
    """Fill the budgets and refine the placement; split by smaller ops if there were prices."""
    offer = partial(_offer, best, uses)
    fill_budgets(best, uses, free, offer)
    refine(best, uses, offer)
    if search is not None and not best.proven:
        before = best.cost
        split_by_ops(best, uses, search, budget, search.solver, offer, needs_large=False)
        if best.cost < before:
            refine(best, uses, offer)


def _cut_down(problem: PlacementProblem, uses: Uses, placements: Iterable[Placement]) -> Iterable[Placement]:
    """The placements, cut to the limits; omits those for which that fails."""
    for placement in placements:
        found = within_limits(problem, uses, placement)
        if found is not None:
            yield found


def _solve_row(best: Incumbent, uses: Uses, budget: int, solver: SmallSolver) -> bool:
    """Solve equal segments once, if there are enough; returns whether this gave a bound."""
    try:
        return solve_limited_row(best, uses, budget, solver, partial(_offer, best, uses))
    except PinError:  # the narrow search missed every placement of some segment
        return False


def _search(best: Incumbent, uses: Uses, budget: int, solver: SmallSolver | None) -> PriceSearch | None:
    """Price memory, then run the dynamic program with increasing width; returns the search for prices.

    The `solver` of the problem without limits is None if it proves nothing within its budget.
    """
    order = narrow_order(best.problem)
    priced = priced_memory(best.problem, uses, order, best.step, best.cost)
    potential = Potential(priced.problem, priced.prices, best.step)
    best.raise_bound(potential.base - priced.penalties.most, "prices")
    if best.proven:
        return None
    if best.placement is not None and is_too_wide(priced.problem, order, budget):
        offer_leaning(priced.problem, priced.prices, partial(_offer_windows, best, uses))
        return None
    is_large = best.problem.nodes * PASS > budget
    searches = None
    if solver is not None and best.work < budget:
        searches = PriceSearch(
            best, uses, dict(priced.per_byte), _unlimited(solver), partial(_offer, best, uses)
        )
        priced = _priced_searches(searches, priced, budget)
        potential = Potential(priced.problem, priced.prices, best.step)
        if best.proven:
            return searches
    transitions = Transitions(priced.problem, steps_of(priced.problem, order), potential)
    relaxed = FrontierSearch(transitions)
    width = max(2, min(FIRST_WIDTH, budget // (32 * best.problem.nodes)))
    if not is_large:
        _free_of_launches(best, uses, priced.penalties, (budget - best.work) // SHARE)
        _relax(best, uses, relaxed, priced.penalties.most, (budget - best.work) // SHARE)
    search = LimitedSearch(transitions, relaxed.spine, uses, priced.penalties)
    while True:
        left = budget - best.work
        most = None if best.placement is None else most_work(budget)
        result = search.run(SearchLimits(best.cost, width, left // 2 if is_large else left, most))
        best.work += result.work
        best.raise_bound(result.bound, "frontier")
        _offer(best, uses, result.placement)
        if result.exact or is_large or best.proven or best.work >= budget:
            return searches
        width *= WIDER


def _priced_searches(search: PriceSearch, priced: PricedMemory, budget: int) -> PricedMemory:
    """Search without limits at several prices for memory; returns the problem at the best ones.

    Single ops that keep the prices from closing the gap split the problem. A row of segments is solved within
    the budget.
    """
    best, uses, solver, offer = search.best, search.uses, search.solver, search.offer
    ration = TANGENTS * (budget - best.work) // SHARE
    search.adjust_all(ration // TANGENTS)
    if not best.proven:
        split_by_ops(best, uses, search, (budget - best.work) // SHARE, solver, offer)
    if not best.proven:
        _solve_budgeted_row(best, uses, search.dearest, budget - best.work, solver)
    search.search_again(min(ration - ration // TANGENTS, budget - best.work))
    if search.dearest == priced.per_byte:
        return priced
    return MemoryMarket(best.problem, uses, best.step).repriced(priced.prices, search.dearest)


def _solve_budgeted_row(
    best: Incumbent, uses: Uses, per_byte: Mapping[Place, float], left: int, solver: SmallSolver
) -> None:
    """Solve a row of segments within the budget, if the network is one."""
    row = row_within_budget(best.problem, uses, per_byte, left // SHARE)
    if row is not None:
        ration = ROWS * left // SHARE
        solve_budgeted_row(best, row, per_byte, ration, solver, partial(_offer, best, uses))


def _unlimited(solver: SmallSolver) -> SmallSolver:
    """The solver for problems without their limits."""
    return lambda problem, ration: solver(without_limits(problem), ration)


def _free_of_launches(best: Incumbent, uses: Uses, penalties: Penalties, ration: int) -> None:
    """Offer the best units without launches, at several prices for memory."""
    affordable = LEVEL_PASS * len(PRICE_LEVELS) * best.problem.nodes <= ration
    for level in PRICE_LEVELS if any(penalties.of) and affordable else (1.0,):
        prices = [level * penalty for penalty in penalties.of]
        offer_free_of_launches(best, ration // len(PRICE_LEVELS), partial(_offer, best, uses), prices)


def _relax(best: Incumbent, uses: Uses, search: FrontierSearch, most: float, ration: int) -> None:
    """Search with memory prices and without limits: for the bound, and for the look-ahead."""
    result = search.run(SearchLimits(best.cost + most, RELAXED_WIDTH, ration // 2, most_work(ration)))
    best.work += result.work
    best.raise_bound(result.bound - most, "frontier")
    if result.placement is not None:
        _offer_windows(best, uses, result.placement)
    base, slack = search.transitions.potential.base, best.cost + most - search.transitions.potential.base
    if math.isfinite(slack) and not best.proven:
        looked = look_ahead(search, slack, RELAXED_WIDTH, ration // 2)
        best.work += looked.work
        best.raise_bound(base + looked.rise - most, "look-ahead")


def _offer_windows(best: Incumbent, uses: Uses, source: Placement) -> None:
    """Offer a placement, and those that differ from it in one window if it exceeds a budget."""
    _offer(best, uses, source)
    offer_windows(best.problem, uses, source, partial(_offer, best, uses))


def _offer(best: Incumbent, uses: Uses, placement: Placement | None) -> None:
    """Cut a placement to the limits, and accept the result if it is cheaper."""
    for cut_down in _cut_down(best.problem, uses, [] if placement is None else [placement]):
        best.offer(cut_down)
