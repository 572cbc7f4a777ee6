"""The choice among placements of an edited function, by cost and by what is kept."""

import pytest
from tvm import relax

import annotated_region as ar
from annotated_region.locking.candidates import Candidate, best_of, by_overlap
from annotated_region.policies.policy import Resolution
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.tvm_adapter.types import expect


@pytest.mark.parametrize(
    ("costs_and_losses", "anew", "chosen"),
    [
        ([(1.0, 5), (1.0, 5)], None, 0),  # the first of equals
        ([(1.01, 0), (1.0, 5)], None, 0),  # within 2 % of the cheapest
        ([(1.03, 0), (1.0, 5)], None, 1),
        ([(1.03, 0), (1.0, 5)], (1.0, 9), 1),
        ([(1.03, 0), (1.0, 5)], (1.02, 9), 0),  # the lock finds a cheaper one than is found without it
        ([(1.5, 0), (1.01, 3), (1.0, 5)], (1.0, 9), 1),
        ([(1.5, 0), (1.49, 3)], (1.0, 9), 2),  # whatever keeps ops in place costs too much
        ([(0.0, 4), (0.0, 1)], None, 1),
        ([(0.0, 4), (0.0, 1)], (0.0, 0), 2),
    ],
)
def test_of_the_affordable_the_one_that_loses_the_fewest_ops(costs_and_losses, anew, chosen):
    regions = ar.AnnotatedRegionSet(expect(relax.Function, module_of(SIX_OPS)["main"]))
    candidates = [Candidate(regions, Resolution(()), *each) for each in costs_and_losses]
    without = None if anew is None else Candidate(regions, Resolution(()), *anew)
    assert best_of(candidates, without) is [*candidates, without][chosen]


def test_the_region_that_shares_most_ops_keeps_the_id():
    assert by_overlap({(0, 7): 3, (1, 7): 5, (1, 8): 1, (2, 9): 1}) == {1: 7, 2: 9}
    # Of equal shares the first region keeps it, and the other gets what is left.
    assert by_overlap({(1, 7): 2, (0, 7): 2, (1, 8): 1}) == {0: 7, 1: 8}
