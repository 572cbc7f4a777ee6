"""Every Hypothesis strategy of the project in one place: functions, modules, claims, region sets."""

from annotated_region.testing.claim_strategies import (
    TARGETS,
    annotated_functions,
    claimable,
    claims,
    region_sets,
)
from annotated_region.testing.function_strategies import IDENTITY, Ingredients, functions, modules

__all__ = [
    "IDENTITY",
    "TARGETS",
    "Ingredients",
    "annotated_functions",
    "claimable",
    "claims",
    "functions",
    "modules",
    "region_sets",
]
