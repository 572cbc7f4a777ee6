"""One op that needs much of a memory budget: the problem with it at the target, and without."""

from dataclasses import replace

import pytest
from kits.placement import placement_oracle
from kits.placement.placement_problems import of_edges, uniform_table

from annotated_region.ids import Place
from annotated_region.placement import (
    PlacementConstant,
    PlacementProblem,
    Solution,
    TargetLimits,
    Uses,
    solve,
)
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.limited_solver import without_limits
from annotated_region.placement.splitting import split_by_ops
from annotated_region.placement.starts import unit_cover
from annotated_region.placement.tangents import PriceSearch
from annotated_region.placement.waves import wave_placement

FAST, SLOW = Place(0), Place(1)


def embedding(large: int, budget: int, slow: float = 1.5) -> PlacementProblem:
    """A chain whose first op reads a large constant: a fast target with little memory, and a slow one."""
    nodes = 6
    costs = [[1.0, slow if node == 0 else 2.0 + node / 8, 100.0] for node in range(nodes)]
    edges = [(node, node + 1) for node in range(nodes - 1)]
    found = of_edges(nodes, edges, (0.25, 0.25), costs, uniform_table(2, 0.5, 0.0))
    constants = tuple(PlacementConstant(large if node == 0 else 2, (node,)) for node in range(nodes))
    return replace(found, constants=constants, limits=(TargetLimits(budget_bytes=budget), TargetLimits()))


def prices_of(problem: PlacementProblem) -> tuple[Incumbent, PriceSearch]:
    """The incumbent of a problem of two targets, all at the slow one, and the search for prices, after it."""
    uses = Uses(problem)
    units = unit_cover(problem, [SLOW], set())
    assert units is not None
    start = wave_placement(problem, units)
    assert start is not None
    best = Incumbent(problem, [start])

    def unlimited(priced: PlacementProblem, ration: int) -> Solution:
        return solve(without_limits(priced), ration)

    def offer(placement):
        if uses.keeps(placement):
            best.offer(placement)

    search = PriceSearch(best, uses, {FAST: 0.1}, unlimited, offer)
    search.adjust_all(20_000)
    return best, search


@pytest.mark.parametrize(("large", "budget", "slow"), [(10, 17, 1.5), (10, 13, 1.5), (10, 13, 4.0)])
def test_the_bound_is_the_optimum_where_no_price_reaches_it(large: int, budget: int, slow: float) -> None:
    problem = embedding(large, budget, slow)
    optimum = placement_oracle.brute_force(problem)
    best, search = prices_of(problem)
    assert best.bound < optimum * (1 - 1e-3)
    split_by_ops(best, search.uses, search, 20_000, search.solver, search.offer)
    assert optimum * (1 - 1e-6) <= best.bound <= optimum * (1 + 1e-9)
    assert best.cost == optimum


@pytest.mark.parametrize("move", [0.5, 1.0])
@pytest.mark.parametrize("budget", [11, 13])
@pytest.mark.parametrize("sizes", [(3, 3, 3, 3, 3, 3), (4, 3, 5, 3, 4, 3)])
def test_ops_that_need_little_are_split_by_on_demand(
    sizes: tuple[int, ...], budget: int, move: float
) -> None:
    """A chain that is at the fast target as a whole, or not at all: no op needs half of that."""
    costs = [[1.0, 2.0 + node / 8, 100.0] for node in range(len(sizes))]
    edges = [(node, node + 1) for node in range(len(sizes) - 1)]
    chain = of_edges(len(sizes), edges, (0.25, 0.25), costs, uniform_table(2, move, 0.0))
    constants = tuple(PlacementConstant(size, (node,)) for node, size in enumerate(sizes))
    problem = replace(chain, constants=constants, limits=(TargetLimits(budget_bytes=budget), TargetLimits()))
    optimum = placement_oracle.brute_force(problem)
    best, search = prices_of(problem)
    bound = best.bound
    assert bound < optimum * (1 - 1e-2)
    split_by_ops(best, search.uses, search, 20_000, search.solver, search.offer)
    assert best.bound == bound
    split_by_ops(best, search.uses, search, 20_000, search.solver, search.offer, needs_large=False)
    assert optimum * (1 - 1e-6) <= best.bound <= optimum * (1 + 1e-9)
    assert best.cost == optimum
