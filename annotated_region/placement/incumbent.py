"""The best placement known so far, the best bound, and what a search answers in the end."""

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
"""Relative difference below which the bound has met the cost; it covers putting costs on a grid."""


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
        Where the bound comes from: ``"trivial"``, ``"minimum cut"``, ``"prices"``, ``"look-ahead"``,
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
        """How much of the cost could be saved at most: ``(cost - lower_bound) / cost``; 0 is proven best."""
        return 0.0 if self.cost <= 0 else (self.cost - self.lower_bound) / self.cost


class Incumbent:
    """The best placement known, and the best bound, on the grid and off it."""

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
            if cost <= scale * (1 + TOLERANCE):  # on the grid, too, the others are dearer
                self.offer(placement)

    @property
    def placement(self) -> Placement | None:
        """The best placement known."""
        return self._placement

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
