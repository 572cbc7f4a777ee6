"""The cheapest valid placement, and a proof of how far from the cheapest it can be.

1. Starting placements: all-host, each target alone, the priority orders, what the caller hands in; for one
   target the minimum cut.
2. Prices give a lower bound and a potential (`annotated_region.placement.prices`).
3. Dynamic programming over the frontier with ever more room, each run limited by the best placement so
   far and followed by a look ahead from the articulation points, until the bound meets the cost or the
   budget is used up.

Nothing depends on the clock or on hashes: the budget is counted in labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from annotated_region.collector import paused_collector
from annotated_region.errors import PinError
from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.evaluation import evaluate
from annotated_region.placement.frontier import FrontierSearch, SearchLimits
from annotated_region.placement.grid import grid_step, snapped_problem
from annotated_region.placement.lookahead import look_ahead
from annotated_region.placement.mincut import minimum_cut
from annotated_region.placement.prices import Potential, Prices
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.starts import starting_placements
from annotated_region.placement.transitions import Transitions
from annotated_region.placement.waves import wave_placement

__all__ = ["DEFAULT_BUDGET", "TOLERANCE", "Solution", "solve"]

TOLERANCE = 1e-9
"""Relative difference below which the bound has met the cost; it covers putting costs on a grid."""

DEFAULT_BUDGET = 300_000
"""Work of the dynamic program; 300 000 take about 8 s in CPython."""

FIRST_WIDTH = 16
"""Labels of a layer in the first run, if the budget allows that for all steps."""

WIDER = 8
"""How much wider each further run is."""

SWEEPS = 3
"""Pairs of sweeps over the prices: the first two bring nearly all of the bound."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A placement with its cost and its certificate of quality.

    Attributes
    ----------
    placement
        The answer.
    cost
        What `evaluate` says of it, in seconds.
    lower_bound
        No placement costs less. It equals the cost when they agree within `TOLERANCE`.
    proof
        Where the bound comes from: ``"trivial"``, ``"minimum cut"``, ``"prices"``, ``"look-ahead"`` or
        ``"frontier"`` (dynamic programming).
    work
        The work done, in the unit of the budget.
    """

    placement: Placement
    cost: float
    lower_bound: float
    proof: str
    work: int

    @property
    def gap(self) -> float:
        """How much of the cost could be saved at most: ``(cost - lower_bound) / cost``; 0 is proven best."""
        return 0.0 if self.cost <= 0 else (self.cost - self.lower_bound) / self.cost


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
        How much to search: 300 000 are about 8 s. It bounds the search, never the validity of the answer;
        the same budget gives the same answer on every machine.
    starts
        Further placements that the answer must not be worse than.

    Raises
    ------
    PinError
        If some node cannot run anywhere, or no valid placement was found within the budget.
    InvalidPlacementError
        If one of `starts` is no placement of this problem.

    Notes
    -----
    O(places x (nodes + edges)) for the starts, O(edges x 4^places) for the prices; the rest is bounded by
    the budget, but visits each node at least once.
    """
    if not all(problem.units_of):
        node = problem.units_of.index(())
        raise PinError(f"no unit of finite cost holds node {node}: nothing is left that could run it")
    candidates = (placement.split(problem) for placement in starting_placements(problem))
    best = _Best(problem, [*(each for each in candidates if each is not None), *starts])
    if best.cost > 0 and problem.nodes:
        _improve(best, budget)
    else:
        best.raise_bound(0.0, "trivial")
    return best.solution()


class _Best:
    """The best placement known, and the best bound, on the grid and off it."""

    def __init__(self, problem: PlacementProblem, candidates: Iterable[Placement]) -> None:
        self._original = problem
        self._placement: Placement | None = None
        self.cost = math.inf
        self.bound, self._proof = 0.0, "trivial"
        self.work = 0
        known = list(candidates)
        finite = [unit.cost for unit in problem.units if math.isfinite(unit.cost)]
        scale = min([evaluate(problem, placement) for placement in known], default=math.fsum(finite))
        self.step = grid_step(scale or 1.0)
        self.problem = snapped_problem(problem, self.step)
        for placement in known:
            self.offer(placement)

    def offer(self, placement: Placement) -> None:
        """Take `placement` if it is cheaper than what is known."""
        cost = evaluate(self.problem, placement)
        if cost < self.cost:
            self._placement, self.cost = placement, cost

    def offer_parts(self, placement: Placement) -> None:
        """Take a placement of larger regions, cut into what the targets take, if it is cheaper."""
        parts = placement.split(self.problem)
        if parts is not None:
            self.offer(parts)

    def raise_bound(self, bound: float, proof: str) -> None:
        """Take `bound` if it is higher than what is known."""
        if bound > self.bound:
            self.bound, self._proof = bound, proof

    @property
    def proven(self) -> bool:
        """Whether nothing can be cheaper."""
        return self.bound >= self.cost * (1 - TOLERANCE)

    def solution(self) -> Solution:
        """What is known, in the costs as they were given."""
        if self._placement is None:
            raise PinError("no placement satisfies all pins at once: composites or pins exclude each other")
        cost = evaluate(self._original, self._placement)
        rounding = self.step * (
            self._original.nodes + len(self._original.values) * len(self._original.launch)
        )
        bound = max(0.0, self.bound - rounding)
        met = self.proven or bound >= cost * (1 - TOLERANCE)
        return Solution(self._placement, cost, cost if met else bound, self._proof, self.work)


def _improve(best: _Best, budget: int) -> None:
    """Cut, price, search; stop as soon as the bound meets the cost."""
    problem = best.problem
    _cut(best)
    if best.proven:
        return
    order = narrow_order(problem)
    prices = Prices(problem, order)
    for _ in range(SWEEPS):
        prices.sweep(forward=True)
        prices.sweep(forward=False)
    potential = Potential(problem, prices, best.step)
    best.raise_bound(potential.base, "prices")
    if not best.proven:
        _search(best, FrontierSearch(Transitions(problem, steps_of(problem, order), potential)), budget)


def _cut(best: _Best) -> None:
    """For one target, the minimum cut; every placement that uses the target pays it and a launch."""
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


def _search(best: _Best, search: FrontierSearch, budget: int) -> None:
    """Ever wider runs, each instructed by what the one before found."""
    base = search.transitions.potential.base
    steps = len(search.transitions.steps)
    width = max(2, min(FIRST_WIDTH, budget // (32 * steps)))
    while True:
        result = search.run(SearchLimits(best.cost, width, budget - best.work))
        best.work += result.work
        best.raise_bound(result.bound, "frontier")
        if result.placement is not None:
            best.offer_parts(result.placement)
        if result.exact or best.proven or best.work >= budget:
            return
        slack = best.cost - base
        if math.isfinite(slack):
            looked = look_ahead(search, slack, 4 * width, (budget - best.work) // 2)
            best.work += looked.work
            best.raise_bound(base + looked.rise, "look-ahead")
        if best.proven or best.work >= budget:
            return
        width *= WIDER
