"""One window of a placement that exceeds a memory budget goes to other places."""

from dataclasses import replace

import pytest
from kits.placement import placement_oracle
from kits.placement.placement_milp import network, with_budget
from kits.placement.placement_problems import of_edges, uniform_table

from annotated_region.placement import PlacementProblem, TargetLimits, Uses, evaluate, solve
from annotated_region.placement.greedy import within_limits
from annotated_region.placement.limited_solver import without_limits
from annotated_region.placement.windows import offer_windows

BUDGET = 6_000


def chain(nodes: int, budget: int) -> PlacementProblem:
    """A fast target with little memory, a slow one, and a host that is much slower; a byte per value."""
    edges = [(node, node + 1) for node in range(nodes - 1)]
    found = of_edges(nodes, edges, (0.25, 0.25), [[1.0, 2.0, 100.0]] * nodes, uniform_table(2, 0.5, 0.0))
    values = tuple(replace(value, size=1) for value in found.values)
    return replace(found, values=values, limits=(TargetLimits(budget_bytes=budget), TargetLimits()))


def costs_of_windows(problem: PlacementProblem) -> list[float]:
    """The costs of the offered placements that respect the limits."""
    uses, found = Uses(problem), []

    def offer(placement):
        kept = within_limits(problem, uses, placement)
        found.extend([] if kept is None else [evaluate(problem, kept)])

    offer_windows(problem, uses, solve(without_limits(problem), BUDGET).placement, offer)
    return found


@pytest.mark.parametrize("budget", [2, 4, 6])
def test_the_best_window_of_a_chain_is_its_best_placement(budget: int) -> None:
    problem = chain(7, budget)
    assert min(costs_of_windows(problem)) == placement_oracle.brute_force(problem)


def test_a_placement_within_the_budget_has_no_windows() -> None:
    assert costs_of_windows(chain(7, 7)) == []


def test_no_window_is_cheaper_than_the_solution() -> None:
    problem = with_budget(network(0, 40, launch=2.0), 0.3)
    assert solve(problem, 4 * BUDGET).cost <= min(costs_of_windows(problem)) * (1 + 1e-9)
