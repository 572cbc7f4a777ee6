"""What is still to be paid, at least: the bound that guides and prunes the dynamic program.

A potential splits a lower bound over nodes and values. For every value and every place of its producer
and readers there is a *price*; prices are added to what the nodes pay and subtracted from what the value
pays, so they cancel in every complete placement, and any prices whatsoever give a valid bound.
`ZeroPotential` has no prices: the bound is 0 and the search is blind. `PricedPotential` takes them from
the dual ascent of `annotated_region.placement.dual`.
"""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.placement.problem import Problem

__all__ = ["Potential", "ZeroPotential", "unit_share"]


def unit_share(problem: Problem, unit: int) -> float:
    """What each node of `unit` pays when the nodes of a composite share its cost evenly."""
    return problem.units[unit].cost / len(problem.units[unit].nodes)


class Potential:
    """A lower bound that can be asked about any partial placement.

    Attributes
    ----------
    base
        The bound for the whole problem.
    """

    base: float = 0.0

    def node(self, node: int, unit: int) -> float:
        """What the bound rises by when `unit` covers `node`, before any value is looked at."""
        raise NotImplementedError

    def made(self, value: int, place: int) -> float:
        """What the bound rises by when `value` is made at `place`, before its readers are looked at."""
        raise NotImplementedError

    def rest(self, value: int, readers: Sequence[int], source: int, charged: int) -> float:
        """What `value`, made at `source`, still costs at least.

        Parameters
        ----------
        value
            The value.
        readers
            The nodes that are still to read it.
        source
            The place that made it.
        charged
            The destinations already paid, as a bit set.
        """
        raise NotImplementedError


class ZeroPotential(Potential):
    """Nothing is known about what follows."""

    def __init__(self, problem: Problem) -> None:
        self._share = [unit_share(problem, unit) for unit in range(len(problem.units))]

    def node(self, node: int, unit: int) -> float:
        """The share of the unit's cost."""
        return self._share[unit]

    def made(self, value: int, place: int) -> float:
        """Nothing."""
        return 0.0

    def rest(self, value: int, readers: Sequence[int], source: int, charged: int) -> float:
        """Nothing."""
        return 0.0
