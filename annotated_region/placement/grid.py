"""Costs on a grid of binary fractions, so that sums do not depend on their order.

The searches compare sums of many costs. On a grid whose step is a power of two, and with sums below
2**53 steps, floating point addition is exact: equal sums are equal, a difference is a difference, and no
tolerance is needed inside the search.
"""

from __future__ import annotations

import math
from dataclasses import replace

from annotated_region.placement.problem import PlacementProblem, Table

__all__ = ["grid_step", "snapped", "snapped_problem"]

BITS = 50
"""The largest cost that matters is below 2**50 steps; eight of them may be added."""


def grid_step(largest: float) -> float:
    """The step of the grid for sums up to `largest`: a power of two, at most ``largest * 2**-49``."""
    return math.ldexp(1.0, math.frexp(largest)[1] - BITS)


def snapped(cost: float, step: float) -> float:
    """The multiple of `step` next to `cost`; what is too large for the grid stays."""
    steps = cost / step
    return cost if abs(steps) >= 2.0**53 else round(steps) * step


def snapped_problem(problem: PlacementProblem, step: float) -> PlacementProblem:
    """The same problem with every cost on the grid; each cost moves by half a step at most."""
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
