"""Prices for memory by tangents, and mixtures of the placements next to the best price."""

from dataclasses import replace

import pytest
from kits.placement import placement_oracle
from kits.placement.placement_problems import of_edges, uniform_table

from annotated_region.ids import Place, UnitId
from annotated_region.placement import (
    Placement,
    PlacementProblem,
    PlacementUnit,
    Solution,
    TargetLimits,
    Uses,
    evaluate,
    solve,
)
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.limited_solver import without_limits
from annotated_region.placement.mixtures import fill_budgets, offer_mixtures
from annotated_region.placement.starts import unit_cover
from annotated_region.placement.tangents import PriceSearch
from annotated_region.placement.waves import wave_placement

FAST, SLOW = 0, 1


def chain(nodes: int, budget: int) -> PlacementProblem:
    """A fast target with little memory, a slow one, and a host that is much slower; a byte per value.

    Two nodes in the middle are also a composite of the fast target.
    """
    edges = [(node, node + 1) for node in range(nodes - 1)]
    pair = PlacementUnit(Place(FAST), (nodes // 2 - 1, nodes // 2), 1.5)
    costs = [[1.0, 2.0, 100.0]] * nodes
    found = of_edges(nodes, edges, (0.25, 0.25), costs, uniform_table(2, 0.5, 0.0), [pair])
    values = tuple(replace(value, size=1) for value in found.values)
    return replace(found, values=values, limits=(TargetLimits(budget_bytes=budget), TargetLimits()))


def alone(problem: PlacementProblem, target: int) -> Placement:
    units = unit_cover(problem, [target], set())
    assert units is not None
    placement = wave_placement(problem, units)
    assert placement is not None
    return placement


def mixtures(problem: PlacementProblem, inside: Placement, outside: Placement) -> list[Placement]:
    found: list[Placement] = []
    offer_mixtures(problem, Uses(problem), Place(FAST), inside, outside, found.append)
    return found


@pytest.mark.parametrize("budget", [2, 4, 5])
def test_the_best_mixture_of_a_chain_is_its_best_placement(budget: int) -> None:
    problem = chain(7, budget)
    fast, slow = alone(problem, FAST), alone(problem, SLOW)
    found = mixtures(problem, fast, slow) + mixtures(problem, slow, fast)
    assert min(evaluate(problem, each) for each in found) == placement_oracle.brute_force(problem)


@pytest.mark.parametrize("budget", [2, 4, 5])
def test_what_is_left_of_a_budget_is_filled(budget: int) -> None:
    problem = chain(7, budget)
    uses = Uses(problem)
    fast, slow = alone(problem, FAST), alone(problem, SLOW)
    little = replace(problem, limits=(TargetLimits(budget_bytes=1), TargetLimits()))
    begun = min(mixtures(little, fast, slow), key=lambda each: evaluate(little, each))
    best = Incumbent(problem, [begun])
    fill_budgets(best, uses, fast, lambda each: best.offer(each) if uses.keeps(each) else None)
    assert best.cost == placement_oracle.brute_force(problem) < evaluate(problem, begun)


def test_a_window_cuts_no_composite_and_keeps_the_budget() -> None:
    problem = chain(40, 9)
    fast, slow = alone(problem, FAST), alone(problem, SLOW)
    found = mixtures(problem, fast, slow)
    assert len(found) == 39  # one from each of 40 nodes on, but for the second of the composite
    composite = UnitId(len(problem.units) - 1)
    for each in found + mixtures(problem, slow, fast):
        evaluate(problem, each)  # every node is covered once, and the limits are kept
        assert (composite in each.units) == (
            not _is_slow(problem, each, 19) or not _is_slow(problem, each, 20)
        )


def _is_slow(problem: PlacementProblem, placement: Placement, node: int) -> bool:
    (unit,) = (unit for unit in placement.units if node in problem.units[unit].nodes)
    return problem.units[unit].place == SLOW


def dual(problem: PlacementProblem, price: float) -> float:
    """The relaxation at a price of memory, by brute force: units pay for it, and the budget is refunded."""
    uses, budget = Uses(problem), problem.limits[FAST].budget_bytes
    assert budget is not None
    units = (
        replace(unit, cost=unit.cost + price * uses.memory([UnitId(index)]) * (unit.place == FAST))
        for index, unit in enumerate(problem.units)
    )
    free = without_limits(replace(problem, units=tuple(units)))
    return placement_oracle.brute_force(free) - price * budget


@pytest.mark.parametrize("start", [0.2, 0.7, 3.0])
def test_tangents_reach_the_best_bound_and_the_optimum_of_a_chain(start: float) -> None:
    problem = chain(5, 2)
    uses = Uses(problem)
    best = Incumbent(problem, [alone(problem, SLOW)])

    def unlimited(priced: PlacementProblem, budget: int) -> Solution:
        return solve(without_limits(priced), budget)

    def offer(placement: Placement) -> None:
        if uses.keeps(placement):
            best.offer(placement)

    search = PriceSearch(best, uses, {Place(FAST): start}, unlimited, offer)
    search.adjust_all(7_000)
    search.search_again(13_000)
    highest = max(dual(problem, price) for price in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5))
    assert best.bound >= highest * (1 - 1e-6)
    assert dual(problem, search.dearest[Place(FAST)]) == pytest.approx(best.bound, rel=1e-6)
    assert best.cost == placement_oracle.brute_force(problem)
