"""The bound of a value: its minimum over destinations, and tables of minima that sweeps keep up to date."""

from itertools import product

import pytest
from kits.placement.placement_milp import network

from annotated_region.placement import PlacementProblem
from annotated_region.placement.elimination import narrow_order
from annotated_region.placement.prices import Prices
from annotated_region.placement.stars import Star


@pytest.fixture(scope="module")
def swept() -> tuple[PlacementProblem, Prices]:
    problem = network(5, 40, launch=0.7, reach=8)
    prices = Prices(problem, narrow_order(problem))
    for forward in (True, False, True):
        prices.sweep(forward)
    return problem, prices


def cost(problem: PlacementProblem, prices: Prices, star: Star, places: tuple[int, ...]) -> float:
    """The cost of a value whose members are at these places, from its definition."""
    (value,) = (v for v in problem.values if (v.producer, *v.consumers) == star.members)
    source, *readers = places
    reached = set(readers) | ({problem.host} if value.host_reads else set())
    moves = sum(value.transfer[source][place] for place in reached if place != source)
    after = dict(zip(prices.spine, prices.spine[1:], strict=False)).get(star.members[0])
    launches = [
        problem.launch[place]
        for node, place in zip(star.members[1:], readers, strict=True)
        if node == after and place not in (source, problem.host)
    ]
    return moves + sum(launches) - sum(price[at] for price, at in zip(star.price, places, strict=True))


def test_marginals_after_sweeps_are_minima_over_all_places(swept: tuple[PlacementProblem, Prices]) -> None:
    problem, prices = swept
    choices = [sorted({problem.units[unit].place for unit in units}) for units in problem.units_of]
    shared = [star for star in prices.stars if len(star.members) > 2]
    assert len(shared) > 5
    for star in shared:
        possible = list(product(*(choices[node] for node in star.members)))
        for member, node in enumerate(star.members):
            expected = [
                min(cost(problem, prices, star, places) for places in possible if places[member] == place)
                for place in choices[node]
            ]
            assert star.marginals(member) == pytest.approx(expected, abs=1e-9)
