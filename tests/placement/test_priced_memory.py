"""Prices for memory by sweeps: the best of those tried, and none where none helps."""

import math
from dataclasses import replace

import pytest
from kits.placement.placement_milp import network, with_budget

from annotated_region.ids import Place
from annotated_region.placement import PlacementProblem, Uses
from annotated_region.placement.elimination import narrow_order
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.penalties import SWEEPS, priced_memory
from annotated_region.placement.prices import Potential, Prices


def swept(problem: PlacementProblem) -> Prices:
    """The prices without any for memory."""
    prices = Prices(problem, narrow_order(problem))
    for _ in range(SWEEPS):
        prices.sweep(forward=True)
        prices.sweep(forward=False)
    return prices


def indifferent(seed: int = 0, nodes: int = 60) -> PlacementProblem:
    """A network whose ops cost as much at the second target as at the first, which has little memory."""
    found = network(seed, nodes)
    units = tuple(
        replace(unit, cost=1.0 if unit.place < found.host else 4.0)
        for unit in found.units
        if len(unit.nodes) == 1
    )
    return with_budget(replace(found, units=units), 0.2)


def priced(problem: PlacementProblem) -> tuple[float, dict[Place, float]]:
    """The bound at the best prices, as the searches use it, and these prices."""
    best = Incumbent(problem, [])
    order = narrow_order(best.problem)
    found = priced_memory(best.problem, Uses(best.problem), order, best.step, 400.0)
    bound = found.prices.bound()
    assert Potential(found.problem, found.prices, best.step).base == pytest.approx(bound, abs=1e-6)
    for unit, shares in zip(found.problem.units, found.prices.shares, strict=True):
        assert math.isinf(unit.cost) or math.fsum(shares.values()) == pytest.approx(unit.cost)
    return bound - found.penalties.most, dict(found.per_byte)


@pytest.mark.parametrize("seed", range(8))
def test_where_no_price_helps_the_bound_is_that_without_prices(seed: int) -> None:
    problem = indifferent(seed)
    bound, per_byte = priced(problem)
    assert bound == swept(Incumbent(problem, []).problem).bound()
    assert per_byte == {0: 0.0}


@pytest.mark.parametrize("seed", range(3))
def test_where_memory_is_scarce_its_price_raises_the_bound(seed: int) -> None:
    problem = with_budget(network(seed, 60), 0.2)
    bound, per_byte = priced(problem)
    assert bound > swept(problem).bound() * 1.005
    assert per_byte[Place(0)] > 0


def test_a_state_comes_back() -> None:
    """Sweeps go on as if those at other costs had not been."""
    problem = network(3, 40, launch=0.5)
    dearer = replace(problem, units=tuple(replace(unit, cost=3 * unit.cost) for unit in problem.units))
    expected, prices = swept(problem), swept(problem)
    state = prices.state()
    expected.sweep(forward=True)
    for _ in range(2):
        prices.reprice(dearer)
        prices.sweep(forward=True)
        assert prices.leaning != state.leaning
        prices.reprice(problem)
        prices.restore(state)
        assert prices.leaning == state.leaning
        prices.sweep(forward=True)
        assert prices.bound() == expected.bound()
        assert prices.leaning == expected.leaning
        assert all(prices.unit_costs(node) == expected.unit_costs(node) for node in range(problem.nodes))
