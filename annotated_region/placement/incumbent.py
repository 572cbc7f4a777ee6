"""The best placement and the best bound found so far, and the final solution of a search."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from annotated_region.errors import PinError
from annotated_region.placement.evaluation import evaluate
from annotated_region.placement.grid import grid_step, snapped_problem
from annotated_region.placement.problem import Placement, PlacementProblem

__all__ = ["TOLERANCE", "Incumbent", "Solution"]

TOLERANCE = 1e-9
"""Relative difference below which the bound meets the cost; it covers the rounding to the grid."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A placement with its cost and a lower bound.

    Attributes
    ----------
    placement
        The placement.
    cost
        Its cost by `evaluate`, in seconds.
    lower_bound
        A lower bound on all placements. It equals the cost if they agree within `TOLERANCE`.
    proof
        The source of the bound: ``"trivial"``, ``"minimum cut"``, ``"prices"``, ``"look-ahead"``,
        ``"frontier"`` (dynamic programming) or ``"segments"`` (equal segments solved once).
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
        """The relative optimality gap ``(cost - lower_bound) / cost``; 0 if proven optimal."""
        return 0.0 if self.cost <= 0 else (self.cost - self.lower_bound) / self.cost


class Incumbent:
    """The best known placement and bound, on the grid and in the original costs."""

    def __init__(self, problem: PlacementProblem, candidates: Iterable[Placement]) -> None:
        self._original = problem
        self._placement: Placement | None = None
        self.cost = math.inf
        self.bound, self._proof = 0.0, "trivial"
        self.work = 0
        known = [(evaluate(problem, placement), placement) for placement in dict.fromkeys(candidates)]
        finite = [unit.cost for unit in problem.units if math.isfinite(unit.cost)]
        scale = min([cost for cost, _ in known], default=math.fsum(finite))
        self.step = grid_step(scale or 1.0)
        self.problem = snapped_problem(problem, self.step)
        for cost, placement in known:
            if cost <= scale * (1 + TOLERANCE):  # the others are worse on the grid, too
                self.offer(placement)

    @property
    def placement(self) -> Placement | None:
        """The best known placement."""
        return self._placement

    def offer(self, placement: Placement) -> None:
        """Accept `placement` if it is cheaper than the best known one."""
        cost = evaluate(self.problem, placement)
        if cost < self.cost:
            self._placement, self.cost = placement, cost

    def offer_parts(self, placement: Placement) -> None:
        """Split the regions of a placement as its targets require, and accept the result if it is cheaper."""
        parts = placement.split(self.problem)
        if parts is not None:
            self.offer(parts)

    def raise_bound(self, bound: float, proof: str) -> None:
        """Accept `bound` if it is higher than the best known one."""
        if bound > self.bound:
            self.bound, self._proof = bound, proof

    @property
    def proven(self) -> bool:
        """Whether the best known placement is proven optimal."""
        return self.bound >= self.cost * (1 - TOLERANCE)

    def solution(self) -> Solution:
        """The solution in the original costs."""
        if self._placement is None:
            raise PinError("no placement satisfies all pins at once: composites or pins exclude each other")
        cost = evaluate(self._original, self._placement)
        rounding = self.step * (
            self._original.nodes + len(self._original.values) * len(self._original.launch)
        )
        bound = max(0.0, self.bound - rounding)
        met = self.proven or bound >= cost * (1 - TOLERANCE)
        return Solution(self._placement, cost, cost if met else bound, self._proof, self.work)
