"""The units that are best at the prices, grouped into waves: a placement without a search."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from annotated_region.placement.prices import Prices
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.starts import priority_placement

__all__ = ["offer_leaning"]


def offer_leaning(problem: PlacementProblem, prices: Prices, offer: Callable[[Placement], None]) -> None:
    """Offer the placement whose units are at the best places of their nodes, if those cover the nodes.

    Parameters
    ----------
    problem
        The problem.
    prices
        Its prices, after some sweeps.
    offer
        Receives the placement, which may violate limits.
    """
    place = [problem.units[unit].place for unit in prices.leaning]
    offered = dict.fromkeys(chain.from_iterable(problem.units_of))
    banned = {
        unit
        for unit in offered
        if any(place[node] != problem.units[unit].place for node in problem.units[unit].nodes)
    }
    found = priority_placement(problem, range(problem.host), banned)
    if found is not None:
        offer(found)
