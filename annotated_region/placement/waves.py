"""Groups a given choice of units into regions: waves of all ready units, one place at a time.

ONNX Runtime orders its node groups in this way: all ready units of the host, then all ready units of one
target, and so on; each wave of a target is one region, so the regions are totally ordered and have no
cycles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from annotated_region.graphs import contract
from annotated_region.ids import UnitId
from annotated_region.placement.problem import Placement, PlacementProblem

__all__ = ["wave_placement"]


def wave_placement(problem: PlacementProblem, units: Sequence[UnitId]) -> Placement | None:
    """The cheapest wave placement, by launch costs, over all places for the first wave.

    Parameters
    ----------
    problem
        The problem.
    units
        Indices of units that cover each node once.

    Returns
    -------
    Placement or None
        None if composites depend on each other.

    Notes
    -----
    O(places x (nodes + edges)).
    """
    graph = _UnitGraph(problem, units)
    launch = (*problem.launch, 0.0)
    found: list[list[list[UnitId]]] = []
    for first in range(problem.host + 1):
        groups = graph.waves(first)
        if groups is None:
            return None
        found.append(groups)
    best = min(found, key=lambda groups: math.fsum([launch[problem.units[each[0]].place] for each in groups]))
    return Placement.of(problem, best)


class _UnitGraph:
    """The chosen units and the edges between them."""

    def __init__(self, problem: PlacementProblem, units: Sequence[UnitId]) -> None:
        quotient, blocks, _ = contract(problem.dag, [problem.units[unit].nodes for unit in units])
        unit_of = {problem.units[unit].nodes[0]: unit for unit in units}
        self._units = [unit_of[block[0]] for block in blocks]
        self._places = [problem.units[unit].place for unit in self._units]
        self._count = problem.host + 1
        self._after = quotient.successors
        self._waiting = [len(sources) for sources in quotient.predecessors]

    def waves(self, first: int) -> list[list[UnitId]] | None:
        """The units in waves; the first wave has place `first`, each later one the place with
        most ready units.
        """
        waiting = list(self._waiting)
        ready: list[list[int]] = [[] for _ in range(self._count)]
        for rank, count in enumerate(waiting):
            if count == 0:
                ready[self._places[rank]].append(rank)
        groups: list[list[UnitId]] = []
        done, place = 0, first
        while done < len(self._units):
            if not ready[place]:
                place = max(range(self._count), key=lambda other: len(ready[other]))
            wave = ready[place]
            if not wave:
                return None
            for rank in wave:  # grows during iteration: units that become ready join the wave
                for reader in self._after[rank]:
                    waiting[reader] -= 1
                    if waiting[reader] == 0:
                        ready[self._places[reader]].append(reader)
            done += len(wave)
            groups.append([self._units[rank] for rank in wave])
            ready[place] = []
            place = self._count - 1  # prefer the host, which has no launch
        return groups
