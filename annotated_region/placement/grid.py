"""Costs on a grid of binary fractions, so that sums do not depend on the order of addition.

The searches compare sums of many costs. On a grid whose step is a power of two, and with sums below
2**53 steps, floating point addition is exact and associative, so the search needs no
tolerances.
"""

from __future__ import annotations

import math
from dataclasses import replace

from annotated_region.placement.problem import PlacementProblem, Table

__all__ = ["grid_step", "snapped", "snapped_problem"]

BITS = 50
"""The largest relevant cost is below 2**50 steps, so that the sum of eight such costs is exact."""


def grid_step(largest: float) -> float:
    """The step of the grid for sums up to `largest`: a power of two, at most ``largest * 2**-49``."""
    return math.ldexp(1.0, math.frexp(largest)[1] - BITS)


def snapped(cost: float, step: float) -> float:
    """The multiple of `step` nearest to `cost`; costs too large for the grid are unchanged."""
    steps = cost / step
    return cost if abs(steps) >= 2.0**53 else round(steps) * step


def snapped_problem(problem: PlacementProblem, step: float) -> PlacementProblem:
    """The same problem with every cost on the grid; each cost changes by at most half a step."""
    tables: dict[int, Table] = {}
    for value in problem.values:
        if id(value.transfer) not in tables:
            rows = (tuple(snapped(cost, step) for cost in row) for row in value.transfer)
            tables[id(value.transfer)] = tuple(rows)
    return replace(
        problem,
        launch=tuple(snapped(cost, step) for cost in problem.launch),
        values=tuple(replace(value, transfer=tables[id(value.transfer)]) for value in problem.values),
        units=tuple(replace(unit, cost=snapped(unit.cost, step)) for unit in problem.units),
    )
