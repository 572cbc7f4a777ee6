"""Networks too wide for any budget: the search ends, with a valid placement and a bound that holds."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kits.placement import placement_oracle, placement_problems

from annotated_region.placement import PlacementProblem, TargetLimits, Uses, evaluate, solve
from annotated_region.placement.elimination import narrow_order, steps_of
from annotated_region.placement.frontier import FrontierResult, FrontierSearch, SearchLimits
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.limited_search import LimitedSearch, Penalties
from annotated_region.placement.prices import Potential, Prices
from annotated_region.placement.spine import Spine
from annotated_region.placement.transitions import Transitions

BUDGET = 2_000
MOST_WORK = 8 * BUDGET


def wide(seed: int, width: int = 120) -> PlacementProblem:
    """Two layers: each node of the second reads two of the first, so that most of the first stay live."""
    rng = random.Random(seed)
    edges = [(source, width + node) for node in range(width) for source in rng.sample(range(width), 2)]
    compute = [[rng.randint(0, 4), rng.randint(0, 4), 3.0] for _node in range(2 * width)]
    table = placement_problems.uniform_table(2, 0.5, 0.0)
    return placement_problems.of_edges(2 * width, edges, (1.0, 1.5), compute, table)


def within_budget(problem: PlacementProblem) -> float:
    """The gap of a solution that is valid and took little work."""
    solution = solve(problem, BUDGET)
    assert solution.work <= MOST_WORK
    assert solution.cost == evaluate(problem, solution.placement)
    assert 0 < solution.lower_bound <= solution.cost
    return solution.gap


@pytest.mark.parametrize("seed", range(2))
def test_the_work_does_not_grow_with_the_width(seed: int) -> None:
    assert within_budget(wide(seed)) < 0.02


def test_nor_within_a_budget_of_memory() -> None:
    """One window of the first target's nodes leaves it: dropping single nodes leaves a gap of 18 %."""
    problem = wide(0)
    values = tuple(replace(value, size=1) for value in problem.values)
    limits = (TargetLimits(), TargetLimits(budget_bytes=40))
    assert within_budget(replace(problem, values=values, limits=limits)) < 0.02


def stopped(problem: PlacementProblem, most: int, *, limited: bool) -> FrontierResult:
    """The result of a search that stops after some work."""
    snapped = Incumbent(problem, []).problem
    order = narrow_order(snapped)
    prices = Prices(snapped, order)
    prices.sweep(forward=True)
    step = Incumbent(problem, []).step
    transitions = Transitions(snapped, steps_of(snapped, order), Potential(snapped, prices, step))
    if limited:
        free = Penalties((0.0,) * len(problem.units), 0.0)
        search: FrontierSearch | LimitedSearch = LimitedSearch(
            transitions, Spine(transitions), Uses(snapped), free
        )
    else:
        search = FrontierSearch(transitions)
    return search.run(SearchLimits(most=most))


@given(st.integers(0, 2**32), st.integers(0, 200), st.booleans())
def test_the_bound_of_a_search_that_stops_holds(seed: int, most: int, limited: bool) -> None:
    make = placement_problems.limited_problem if limited else placement_problems.random_problem
    problem = make(seed, 6)
    if not all(problem.units_of) or math.isinf(optimum := placement_oracle.brute_force(problem)):
        return
    result = stopped(problem, most, limited=limited)
    assert result.bound <= optimum * (1 + 1e-9) + 1e-9
    if result.placement is not None and result.exact:
        assert evaluate(problem, result.placement) == pytest.approx(optimum)
    assert result.exact or result.placement is None
