"""Within limits, and where targets may refuse a region, the engine's answer equals the optimum."""

import math
import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.placement import placement_oracle, placement_problems

from annotated_region.errors import PinError
from annotated_region.placement import PlacementProblem, evaluate, solve

IN_CAMPAIGN = settings.get_current_profile_name() == "campaign"
MOST_NODES = 8 if IN_CAMPAIGN else 6


def check(problem: PlacementProblem) -> None:
    """The cost is the optimum, and the bound proves it."""
    optimum = placement_oracle.brute_force(problem)
    if math.isinf(optimum):
        with pytest.raises(PinError, match=r"no placement|no unit of finite cost"):
            solve(problem)
        return
    solution = solve(problem)
    assert solution.cost == pytest.approx(optimum, rel=1e-9, abs=0)
    assert solution.cost == evaluate(problem, solution.placement)
    assert solution.lower_bound <= optimum * (1 + 1e-9)
    assert solution.gap == 0


@pytest.mark.campaign
@settings(max_examples=int(os.environ["AR_CAMPAIGN_EXAMPLES"]) if IN_CAMPAIGN else 200)
@given(st.integers(0, 2**32))
def test_all_limits_at_once(seed: int) -> None:
    check(placement_problems.limited_problem(seed, MOST_NODES))


def test_launches_and_transfers_that_cost_more_than_all_units() -> None:
    """The price of memory, which begins with the difference, was negative."""
    check(placement_problems.limited_problem(607303, 8))


@pytest.mark.campaign
@settings(max_examples=int(os.environ["AR_CAMPAIGN_EXAMPLES"]) if IN_CAMPAIGN else 100)
@given(st.integers(0, 2**32), st.booleans())
def test_targets_that_refuse_some_regions(seed: int, limited: bool) -> None:
    make = placement_problems.limited_problem if limited else placement_problems.random_problem
    problem = make(seed, MOST_NODES)
    check(replace(problem, accepts=placement_problems.random_predicate(seed, problem)))
