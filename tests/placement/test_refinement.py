"""Units that move between places: what a full budget holds is replaced by what is worth more."""

from dataclasses import replace

import pytest
from kits.placement import placement_oracle
from kits.placement.placement_milp import network, with_budget
from kits.placement.placement_problems import limited_problem, of_edges, uniform_table

from annotated_region.errors import PinError
from annotated_region.ids import Place, UnitId
from annotated_region.placement import (
    PlacementConstant,
    PlacementProblem,
    PlacementUnit,
    TargetLimits,
    Uses,
    evaluate,
    solve,
)
from annotated_region.placement.greedy import greedy_placements
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.refinement import refine
from annotated_region.placement.waves import wave_placement

FAST, SLOW = Place(0), Place(1)


def knapsack(gains: list[float], sizes: list[int], budget: int) -> PlacementProblem:
    """Ops that do not read each other: each costs 10 at the slow target, less by its gain at the fast one."""
    costs = [[10.0 - gain, 10.0, 100.0] for gain in gains]
    table = uniform_table(2, 0.5, 0.0)
    found = of_edges(len(gains), [], (0.0, 0.0), costs, table)
    values = tuple(replace(value, host_reads=False) for value in found.values)
    constants = tuple(PlacementConstant(size, (node,)) for node, size in enumerate(sizes))
    limits = (TargetLimits(budget_bytes=budget), TargetLimits())
    return replace(found, values=values, constants=constants, limits=limits)


def refined(problem: PlacementProblem, at_fast: set[int]) -> Incumbent:
    """The result for a start with these nodes at the fast target, and the others at the slow one."""
    chosen = [
        UnitId(index)
        for index, unit in enumerate(problem.units)
        if len(unit.nodes) == 1 and unit.place == (FAST if unit.nodes[0] in at_fast else SLOW)
    ]
    start = wave_placement(problem, chosen)
    assert start is not None
    best, uses = Incumbent(problem, [start]), Uses(problem)

    def offer(placement):
        if uses.keeps(placement):
            best.offer(placement)

    refine(best, uses, offer)
    return best


def test_one_unit_leaves_a_full_budget_and_two_enter():
    problem = knapsack([5.0, 3.0, 3.0], [10, 5, 5], 10)
    best = refined(problem, {0})
    assert best.placement is not None
    assert sorted(node for unit in best.placement.units for node in at(problem, unit, FAST)) == [1, 2]
    assert best.cost == evaluate(problem, best.placement) == placement_oracle.brute_force(problem) == 24.0


def test_each_unit_leaves_first_in_its_turn():
    """The one that loses least leaves too little room."""
    problem = knapsack([5.0, 3.0, 3.0, 1.0], [10, 5, 5, 1], 11)
    assert refined(problem, {0, 3}).cost == placement_oracle.brute_force(problem) == 33.0


def at(problem: PlacementProblem, unit: UnitId, place: Place) -> tuple[int, ...]:
    """The nodes of a unit if it is at a place."""
    return problem.units[unit].nodes if problem.units[unit].place == place else ()


def test_the_nodes_of_a_composite_may_move_one_by_one():
    """At the slow target the two nodes are one unit, at the fast one two."""
    problem = knapsack([2.0, 2.0, 1.0], [2, 2, 3], 4)
    composite = PlacementUnit(SLOW, (0, 1), 18.0)
    problem = replace(problem, units=(*problem.units, composite))
    start = wave_placement(problem, [UnitId(len(problem.units) - 1), UnitId(6)])
    assert start is not None
    best, uses = Incumbent(problem, [start]), Uses(problem)
    refine(best, uses, best.offer)
    assert best.cost == placement_oracle.brute_force(problem) == 26.0


@pytest.mark.parametrize("same", [0.0, 0.75])
def test_what_costs_more_on_the_way_may_pay_in_the_end(same):
    """Each of two nodes that follow each other pays more to move than it gains; both together do not."""
    problem = of_edges(
        4,
        [(0, 1), (1, 2), (2, 3)],
        (0.0, 0.0),
        [[1.0, 1.5, 99.0], [1.0, 1.5, 99.0], [1.0, 1.5, 99.0], [1.0, 1.5, 99.0]],
        uniform_table(2, 0.75, same),
    )
    constants = tuple(PlacementConstant(size, (node,)) for node, size in enumerate([3, 1, 1, 1]))
    limits = (TargetLimits(budget_bytes=3), TargetLimits())
    problem = replace(problem, constants=constants, limits=limits)
    best = refined(problem, {0})
    assert best.cost == pytest.approx(placement_oracle.brute_force(problem))


def test_without_a_budget_there_is_nothing_to_refine():
    problem = replace(knapsack([5.0, 3.0], [1, 1], 9), limits=())
    best = refined(problem, {0})
    assert best.cost == 15.0


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_the_result_keeps_the_budget(seed, share):
    problem = with_budget(network(seed, 80, launch=0.2), share)
    uses = Uses(problem)
    best = Incumbent(problem, greedy_placements(problem, uses))
    before = best.cost

    def offer(placement):
        if uses.keeps(placement):
            best.offer(placement)

    refine(best, uses, offer)
    assert best.placement is not None
    assert uses.keeps(best.placement)
    assert best.cost == evaluate(best.problem, best.placement) < before


def test_the_answers_with_all_limits_are_those_of_brute_force():
    """Few labels, so that the searches prove little and the last steps decide."""
    found = 0
    for seed in range(60):
        problem = limited_problem(seed, 6)
        optimum = placement_oracle.brute_force(problem)
        try:
            solution = solve(problem, 6 * 100)
        except PinError:
            continue
        found += 1
        assert solution.cost == evaluate(problem, solution.placement)
        assert solution.lower_bound <= optimum * (1 + 1e-9) <= solution.cost * (1 + 2e-9)
    assert found > 40
