"""At 30 to 200 nodes: placements are valid, and their costs and bounds agree with an independent solver."""

import pytest
from kits.placement.placement_milp import milp_optimum, network, with_budget

from annotated_region.placement import Uses, evaluate, solve
from annotated_region.placement.greedy import within_limits
from annotated_region.placement.waves import wave_placement

CLOSE = 1e-6


@pytest.fixture(scope="module")
def highspy():
    return pytest.importorskip("highspy", reason="the independent solver is HiGHS")


@pytest.mark.parametrize("nodes", [30, 80, 200])
@pytest.mark.parametrize("seed", range(4))
def test_without_launches_the_program_is_the_problem(nodes, seed, highspy):
    problem = network(seed, nodes)
    expected = milp_optimum(problem, highspy).cost
    solution = solve(problem, 60_000)
    assert solution.cost == evaluate(problem, solution.placement)
    assert solution.lower_bound * (1 - CLOSE) <= expected <= solution.cost * (1 + CLOSE)
    assert solution.gap < 0.02


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
@pytest.mark.parametrize(("nodes", "seed"), [(30, 0), (30, 1), (60, 2), (120, 3)])
def test_with_a_budget(nodes, seed, share, highspy):
    problem = with_budget(network(seed, nodes), share)
    expected = milp_optimum(problem, highspy).cost
    solution = solve(problem, 60_000)
    assert solution.cost == evaluate(problem, solution.placement)
    assert solution.lower_bound * (1 - CLOSE) <= expected <= solution.cost * (1 + CLOSE)
    assert solution.gap < 0.2


@pytest.mark.parametrize("nodes", [30, 100, 200])
@pytest.mark.parametrize("share", [None, 0.3])
def test_with_launches_the_program_is_a_bound(nodes, share, highspy):
    """What the program chooses, in waves, is a placement too, so the bound may not be above it."""
    problem = network(nodes, nodes, launch=0.7)
    if share is not None:
        problem = with_budget(problem, share)
    found = milp_optimum(problem, highspy)
    waves = wave_placement(problem, found.units)
    assert waves is not None
    waves = within_limits(problem, Uses(problem), waves)
    assert waves is not None
    reached = evaluate(problem, waves)
    solution = solve(problem, 30_000)
    assert solution.cost == evaluate(problem, solution.placement)
    assert found.cost * (1 - CLOSE) <= solution.cost
    assert solution.lower_bound <= reached * (1 + CLOSE)
    assert solution.cost <= 1.01 * reached
    # Handed in as a start, it is the least that the answer has to be.
    assert solve(problem, 30_000, [waves]).cost <= reached
