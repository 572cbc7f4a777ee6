"""A row of segments within one memory budget: the placement is the best one, and the bound proves it."""

import math
from dataclasses import replace
from random import Random

import pytest
from kits.placement import placement_oracle
from kits.placement.placement_milp import memory_of
from kits.placement.placement_problems import of_edges, uniform_table

from annotated_region.ids import Place
from annotated_region.placement import (
    Placement,
    PlacementConstant,
    PlacementProblem,
    PlacementUnit,
    Solution,
    TargetLimits,
    Uses,
    evaluate,
    solve,
)
from annotated_region.placement.budgeted_row import row_within_budget, solve_budgeted_row
from annotated_region.placement.fronts import MemoryBudget, front_of
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.limited_solver import without_limits
from annotated_region.placement.starts import unit_cover
from annotated_region.placement.waves import wave_placement

FAST, SLOW = Place(0), Place(1)


def blocks(seed: int, count: int) -> PlacementProblem:
    """Diamonds in a row: a fast target with little memory, a slow one, and a host that is slower still."""
    random = Random(seed)
    edges, nodes = [], 3 * count
    for first in range(0, nodes, 3):
        edges += [(first, first + 1), (first, first + 2), (first + 1, first + 2), (first + 2, first + 3)]
    work = [random.choice([1.0, 1.25, 2.0, 5.0]) for _ in range(nodes)]
    costs = [[each, 2 * each, 3.5 * each] for each in work]
    pair = [PlacementUnit(FAST, (first + 1, first + 2), 1.5) for first in range(0, nodes, 6)]
    found = of_edges(
        nodes,
        [edge for edge in edges if edge[1] < nodes],
        (1.0, 0.5),
        costs,
        uniform_table(2, 0.25, 0.0),
        pair,
    )
    values = tuple(replace(value, size=random.randint(1, 4)) for value in found.values)
    constants = tuple(PlacementConstant(random.choice([1, 8, 40]), (node,)) for node in range(nodes))
    return replace(found, values=values, constants=constants)


def wide_blocks(seed: int, count: int) -> PlacementProblem:
    """Blocks of two branches: the front of one takes ten times the work of one of `blocks`."""
    random = Random(seed)
    edges, nodes = [], 6 * count
    for first in range(0, nodes, 6):
        edges += [(first, first + 1), (first + 1, first + 2), (first, first + 3), (first + 3, first + 4)]
        edges += [(first + 2, first + 5), (first + 4, first + 5), (first + 5, first + 6)]
    work = [random.choice([1.0, 1.25, 2.0, 5.0]) for _ in range(nodes)]
    found = of_edges(
        nodes,
        [edge for edge in edges if edge[1] < nodes],
        (1.0, 0.5),
        [[each, 2 * each, 3.5 * each] for each in work],
        uniform_table(2, 0.25, 0.0),
    )
    values = tuple(replace(value, size=random.randint(1, 4)) for value in found.values)
    constants = tuple(PlacementConstant(random.choice([1, 8, 40]), (node,)) for node in range(nodes))
    return replace(found, values=values, constants=constants)


def with_budget(problem: PlacementProblem, share: float) -> PlacementProblem:
    total = sum(value.size for value in problem.values) + sum(each.size for each in problem.constants)
    return replace(problem, limits=(TargetLimits(budget_bytes=int(share * total)), TargetLimits()))


def all_slow(problem: PlacementProblem) -> Placement:
    units = unit_cover(problem, [SLOW], set())
    assert units is not None
    placement = wave_placement(problem, units)
    assert placement is not None
    return placement


def row_answer(
    problem: PlacementProblem, price: float, budget: int = 100_000, start: Placement | None = None
) -> Incumbent:
    """What the search over the row alone finds."""
    uses = Uses(problem)
    start = all_slow(problem) if start is None else start
    best = Incumbent(problem, [start])

    def unlimited(small: PlacementProblem, ration: int) -> Solution:
        return solve(without_limits(small), ration)

    row = row_within_budget(best.problem, uses, {FAST: price}, 100_000)
    assert row is not None
    assert len(row.units) > 1
    solve_budgeted_row(
        best,
        row,
        {FAST: price},
        budget,
        unlimited,
        lambda placement: best.offer(placement) if uses.keeps(placement) else None,
    )
    return best


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_the_placement_is_the_optimum_and_the_bound_meets_it_at_any_price(seed: int, share: float) -> None:
    problem = with_budget(blocks(seed, 2), share)
    optimum = placement_oracle.brute_force(problem)
    for price in (0.01, 0.1, 1.0):
        best = row_answer(problem, price)
        assert best.placement is not None
        assert best.cost == optimum == evaluate(problem, best.placement)
        assert best.proven
        assert best.bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("price", [0.05, 0.2])
def test_a_placement_that_is_slightly_cheaper_than_a_known_one_is_found(price: float) -> None:
    problem = with_budget(blocks(5, 12), 0.4)
    tighter = row_answer(with_budget(problem, 0.395), price)
    best = row_answer(problem, price, start=tighter.placement)
    assert best.proven
    assert best.cost == row_answer(problem, price).cost
    assert 0.97 * tighter.cost < best.cost < tighter.cost


@pytest.mark.parametrize("seed", range(3))
def test_fronts_that_the_first_search_leaves_incomplete_are_searched_further(seed: int) -> None:
    best = row_answer(with_budget(wide_blocks(seed, 8), 0.4), 0.2)
    assert best.proven
    assert best.work < 60_000


@pytest.mark.parametrize("budget", [300, 900])
def test_a_search_that_ends_early_has_a_bound(budget: int) -> None:
    problem = with_budget(blocks(5, 12), 0.4)
    optimum = row_answer(problem, 0.2)
    assert optimum.proven
    early = row_answer(problem, 0.2, budget)
    assert 0 < early.bound <= optimum.cost * (1 + 1e-9)
    assert early.work < optimum.work
    assert not early.proven


@pytest.mark.parametrize("seed", range(3))
def test_a_front_holds_the_best_placement_for_each_budget(seed: int) -> None:
    problem = blocks(seed, 2)
    memory = [memory_of(problem, unit) for unit in range(len(problem.units))]
    budget = MemoryBudget(FAST, sum(memory), 0.1, 2.0**-40)
    front = front_of(problem, memory, budget, math.inf, 10**6)
    assert math.isinf(front.dropped)
    for point in front.points:
        for room in {point.memory, max(0, point.memory - 1)}:
            limited = replace(problem, limits=(TargetLimits(budget_bytes=room), TargetLimits()))
            known = [other.cost for other in front.points if other.memory <= room]
            assert min(known, default=math.inf) == placement_oracle.brute_force(limited)
        assert evaluate(problem, front.placement(point)) == point.cost


def test_several_scarce_budgets_and_none_are_left_to_others() -> None:
    problem = blocks(0, 8)
    limits = (TargetLimits(budget_bytes=50), TargetLimits(budget_bytes=50))
    uses = Uses(replace(problem, limits=limits))
    assert row_within_budget(problem, uses, {FAST: 0.1, SLOW: 0.1}, 10**6) is None
    assert row_within_budget(problem, uses, {FAST: 0.0}, 10**6) is None
    assert row_within_budget(problem, uses, {FAST: 0.1}, 10**6) is not None
