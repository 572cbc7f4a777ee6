"""Assignment of nodes to targets: the optimizer behind ``ResolveConflicts(LeastCost(model))``."""

from __future__ import annotations

from annotated_region.placement.evaluation import InvalidPlacementError, evaluate
from annotated_region.placement.incumbent import Solution
from annotated_region.placement.limits import NO_LIMITS, PlacementConstant, TargetLimits
from annotated_region.placement.problem import (
    PlacedRegion,
    Placement,
    PlacementProblem,
    PlacementUnit,
    PlacementValue,
)
from annotated_region.placement.solver import DEFAULT_BUDGET, solve
from annotated_region.placement.starts import priority_placement
from annotated_region.placement.uses import Uses

__all__ = [
    "DEFAULT_BUDGET",
    "NO_LIMITS",
    "InvalidPlacementError",
    "Placement",
    "PlacementConstant",
    "PlacementProblem",
    "PlacedRegion",
    "Solution",
    "PlacementUnit",
    "PlacementValue",
    "TargetLimits",
    "Uses",
    "evaluate",
    "priority_placement",
    "solve",
]
