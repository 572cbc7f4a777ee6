"""The engine's answer equals the optimum over all assignments and all groupings."""

import math
import os

import placement_oracle
import placement_problems
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_region.errors import PinError
from annotated_region.placement import evaluate, solve

IN_CAMPAIGN = settings.get_current_profile_name() == "campaign"


@pytest.mark.campaign
@settings(max_examples=int(os.environ["AR_CAMPAIGN_EXAMPLES"]) if IN_CAMPAIGN else 300)
@given(st.integers(0, 2**32))
def test_the_cost_is_the_optimum_and_the_bound_proves_it(seed: int) -> None:
    problem = placement_problems.random_problem(seed, most_nodes=8 if IN_CAMPAIGN else 7)
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
