"""The cheapest valid placement, and a proof of how far from the cheapest it can be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from annotated_region.errors import PinError
from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.evaluation import evaluate
from annotated_region.placement.frontier import FrontierSearch
from annotated_region.placement.grid import grid_step, snapped_problem
from annotated_region.placement.lookahead import look_ahead
from annotated_region.placement.prices import Potential, Prices
from annotated_region.placement.problem import Placement, Problem
from annotated_region.placement.starts import starting_placements
from annotated_region.placement.transitions import Transitions

__all__ = ["Solution", "solve"]

TOLERANCE = 1e-9
"""Relative difference below which two costs count as equal; sums of floats differ by their order."""

DEFAULT_BUDGET = 1_000_000
"""Labels to make; a million takes about 10 s in CPython on a current core."""

FIRST_WIDTH = 16
ROUNDS = 4


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
        No placement costs less.
    proof
        What establishes the bound.
    labels
        The work done, in labels of dynamic programming.
    """

    placement: Placement
    cost: float
    lower_bound: float
    proof: str
    labels: int

    @property
    def gap(self) -> float:
        """How much of the cost could be saved at most: ``(cost - lower_bound) / cost``; 0 is proven best."""
        return 0.0 if self.cost <= 0 else (self.cost - self.lower_bound) / self.cost


def solve(problem: Problem, budget: int = DEFAULT_BUDGET, starts: Iterable[Placement] = ()) -> Solution:
    """Find the cheapest placement.

    Parameters
    ----------
    problem
        The problem.
    budget
        The work to spend, in labels; it bounds the search, never the validity of the answer.
    starts
        Further placements that the answer must not be worse than.

    Raises
    ------
    PinError
        If some node cannot run anywhere, or no valid placement was found within the budget.
    """
    if not all(problem.units_of):
        raise PinError("no placement satisfies all pins: some node is left without a place that can run it")
    candidates = [*starting_placements(problem), *starts]
    costs = [evaluate(problem, placement) for placement in candidates]
    best, cost = None, math.inf
    for placement, value in zip(candidates, costs, strict=True):
        if value < cost:
            best, cost = placement, value
    original = problem
    largest = (
        cost if cost < math.inf else math.fsum(unit.cost for unit in problem.units if unit.cost < math.inf)
    )
    step = grid_step(max(largest, 1e-300))
    problem = snapped_problem(problem, step)
    cost = math.inf if best is None else evaluate(problem, best)
    order = narrow_order(problem)
    prices = Prices(problem, order)
    for _ in range(ROUNDS):
        prices.sweep(True)
        prices.sweep(False)
    potential = Potential(problem, prices, step)
    search = FrontierSearch(Transitions(problem, steps_of(problem, order), potential))
    rise, _ = look_ahead(search, cost - potential.base, 64)
    width, labels, bound = FIRST_WIDTH, 0, potential.base + rise
    while labels < budget:
        limit = cost
        result = search.run(limit, width)
        labels += result.labels
        bound = max(bound, result.bound)
        if result.placement is not None:
            found = evaluate(problem, result.placement)
            if found < cost:
                best, cost = result.placement, found
        if result.exact:
            break
        width *= 8
    if best is None:
        raise PinError("no placement satisfies all pins: some node is left without a place that can run it")
    cost = evaluate(original, best)
    proven = bound >= cost * (1 - 2 * TOLERANCE)
    return Solution(
        best, cost, cost if proven else min(bound, cost), "frontier" if proven else "none", labels
    )
