"""The dynamic program within limits: what it drops is never needed, and it drops enough."""

import math
from dataclasses import replace
from random import Random

import pytest
from kits.placement.placement_milp import memory_of
from kits.placement.placement_problems import of_edges, uniform_table

from annotated_region.ids import Place
from annotated_region.placement import PlacementConstant, PlacementProblem, TargetLimits, Uses
from annotated_region.placement.fronts import Front, MemoryBudget, front_of

FAST = Place(0)


def branches(seed: int, count: int) -> PlacementProblem:
    """Branches of two nodes between a fork and a join; two targets and the host."""
    random = Random(seed)
    last = 2 * count + 1
    edges = [(0, first) for first in range(1, last, 2)]
    edges += [(first, first + 1) for first in range(1, last, 2)]
    edges += [(first + 1, last) for first in range(1, last, 2)]
    costs = [[random.choice([1.0, 2.0]), random.choice([1.0, 3.0, 4.0]), 6.0] for _ in range(last + 1)]
    found = of_edges(last + 1, sorted(edges), (1.0, 0.5), costs, uniform_table(2, 0.25, 0.25))
    constants = tuple(PlacementConstant(random.choice([1, 3, 8]), (node,)) for node in range(last + 1))
    return replace(found, constants=constants)


def front(problem: PlacementProblem) -> Front:
    memory = [memory_of(problem, unit) for unit in range(len(problem.units))]
    return front_of(problem, memory, MemoryBudget(FAST, sum(memory), 0.1, 2.0**-40), math.inf, 10**6)


@pytest.mark.parametrize("seed", range(4))
def test_labels_that_another_shape_dominates_are_not_needed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = branches(seed, 3)
    found = front(problem)
    monkeypatch.setattr(Uses, "counts_units", False)
    every = front(problem)
    assert [(point.memory, point.cost) for point in found.points] == [
        (point.memory, point.cost) for point in every.points
    ]
    assert math.isinf(found.dropped)
    assert found.work < every.work / 2


def test_regions_may_be_split_if_only_memory_without_shared_constants_is_limited() -> None:
    problem = branches(0, 2)
    memory = replace(problem, limits=(TargetLimits(budget_bytes=9), TargetLimits()))
    assert Uses(memory).counts_units
    for limits in (
        TargetLimits(ops=3, budget_bytes=9),
        TargetLimits(regions=2, budget_bytes=9),
        TargetLimits(constant_bytes=9),
        TargetLimits(workspace_bytes=9),
    ):
        assert not Uses(replace(memory, limits=(limits, TargetLimits()))).counts_units
    assert not Uses(replace(memory, accepts=lambda place, units: True)).counts_units
    shared = replace(memory, constants=(PlacementConstant(5, (1, 3)),))
    assert not Uses(shared).counts_units
