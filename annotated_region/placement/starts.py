"""The baseline placements: priorities, one target alone, all on the host.

The search starts from all of them, so its result is never worse than any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from annotated_region.graphs import contract, cyclic_core
from annotated_region.ids import UnitId
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.waves import wave_placement

__all__ = ["orders_to_try", "priority_placement", "starting_placements", "unit_cover"]

ALL_ORDERS_UP_TO = 4
"""The number of targets up to which all their orders are tried."""


def priority_placement(
    problem: PlacementProblem, order: Sequence[int], banned: Iterable[UnitId] = ()
) -> Placement | None:
    """Each node goes to the first target that claims it, as in ONNX Runtime and TVM; otherwise to the host.

    Parameters
    ----------
    problem
        The problem.
    order
        Targets in the order of preference; omitted targets get nothing.
    banned
        Units that are not used.

    Returns
    -------
    Placement or None
        None if some node can run neither on the host nor on these targets.

    Notes
    -----
    Among the units of one target the larger composite wins, then the one that starts earlier. Mutually
    dependent composites are dissolved, and their nodes assigned again. O(units log units) for each round of
    dissolving.
    """
    unused = set(banned)
    while True:
        units = unit_cover(problem, order, unused)
        if units is None:
            return None
        placement = wave_placement(problem, units)
        if placement is not None:
            return placement
        unused |= _tangled(problem, units)


def orders_to_try(targets: int) -> list[tuple[int, ...]]:
    """All orders of few targets; for many, the rotations of the natural order and of its reverse."""
    if targets <= ALL_ORDERS_UP_TO:
        return list(permutations(range(targets)))
    natural = tuple(range(targets))
    turned = [natural[first:] + natural[:first] for first in natural]
    return list(dict.fromkeys([*turned, *(order[::-1] for order in turned)]))


def starting_placements(problem: PlacementProblem) -> list[Placement]:
    """All-host, each target alone, and the priority placements, as far as they exist, without duplicates."""
    orders: list[tuple[int, ...]] = [(), *((target,) for target in range(problem.host))]
    orders += orders_to_try(problem.host)
    found = (priority_placement(problem, order) for order in orders)
    return list(dict.fromkeys(placement for placement in found if placement is not None))


def unit_cover(problem: PlacementProblem, order: Sequence[int], banned: set[UnitId]) -> list[UnitId] | None:
    """A greedy exact cover of the nodes by units, in the order of preference; None if a node
    stays uncovered.
    """
    rank = {place: position for position, place in enumerate([*order, problem.host])}
    offered = sorted({unit for units in problem.units_of for unit in units} - banned)
    offered = [unit for unit in offered if problem.units[unit].place in rank]
    offered.sort(key=lambda unit: _preference(problem, unit, rank))
    taken = [False] * problem.nodes
    chosen = []
    for unit in offered:
        nodes = problem.units[unit].nodes
        if not any(taken[node] for node in nodes):
            chosen.append(unit)
            for node in nodes:
                taken[node] = True
    return sorted(chosen) if all(taken) else None


def _preference(
    problem: PlacementProblem, unit: UnitId, rank: dict[int, int]
) -> tuple[int, int, int, float, int]:
    """The sort key: earlier place, then larger, then earlier in the program, then cheaper, then as given."""
    described = problem.units[unit]
    return rank[described.place], -len(described.nodes), described.nodes[0], described.cost, unit


def _tangled(problem: PlacementProblem, units: Iterable[UnitId]) -> set[UnitId]:
    """The composites in a cycle of units, or on a path between cycles."""
    composites = {problem.units[unit].nodes: unit for unit in units if len(problem.units[unit].nodes) > 1}
    quotient, blocks, _ = contract(problem.dag, composites)
    core = (blocks[block] for block in cyclic_core(quotient.successors))
    return {composites[block] for block in core if block in composites}
