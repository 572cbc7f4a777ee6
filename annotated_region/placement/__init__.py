"""Choosing who runs what: the optimisation engine behind ``ResolveConflicts(LeastCost(model))``."""

from __future__ import annotations

from annotated_region.placement.evaluation import InvalidPlacementError, evaluate
from annotated_region.placement.problem import (
    PlacedRegion,
    Placement,
    PlacementProblem,
    PlacementUnit,
    PlacementValue,
)
from annotated_region.placement.solver import DEFAULT_BUDGET, Solution, solve
from annotated_region.placement.starts import priority_placement

__all__ = [
    "DEFAULT_BUDGET",
    "InvalidPlacementError",
    "Placement",
    "PlacementProblem",
    "PlacedRegion",
    "Solution",
    "PlacementUnit",
    "PlacementValue",
    "evaluate",
    "priority_placement",
    "solve",
]
