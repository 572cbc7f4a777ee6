"""Greedy placements within limits, as starting points of the search.

Targets take units in the order of preference. When the memory of a target is used up, it takes no more units,
like ONNX Runtime's partitioner at its budget, or only units that still fit. Regions that are too large are
cut along their topological order; if there are too many, the smallest are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from annotated_region.cutting import Cut, cut
from annotated_region.graphs import contract, cyclic_core
from annotated_region.ids import Place, UnitId
from annotated_region.placement.problem import PlacedRegion, Placement, PlacementProblem
from annotated_region.placement.starts import orders_to_try, unit_cover
from annotated_region.placement.uses import Uses
from annotated_region.placement.waves import wave_placement

__all__ = ["greedy_placements", "within_limits"]


def greedy_placements(problem: PlacementProblem, uses: Uses) -> Iterator[Placement]:
    """For each order of the targets, the placement that stops at the budgets, and the one that continues."""
    orders = dict.fromkeys([(), *((target,) for target in range(problem.host)), *orders_to_try(problem.host)])
    for order in orders:
        for stops in (True, False) if order else (True,):
            found = _greedy(problem, uses, order, stops=stops)
            if found is not None:
                yield found


def _greedy(problem: PlacementProblem, uses: Uses, order: Sequence[int], *, stops: bool) -> Placement | None:
    banned: set[UnitId] = set()
    units = _affordable(problem, uses, order, banned, stops=stops)
    placement = None if units is None else wave_placement(problem, units)
    return None if placement is None else within_limits(problem, uses, placement)


def _affordable(
    problem: PlacementProblem, uses: Uses, order: Sequence[int], banned: set[UnitId], *, stops: bool
) -> list[UnitId] | None:
    """A cover of the nodes whose units fit into the budgets if no constants are shared."""
    while True:
        units = unit_cover(problem, order, banned)
        if units is None:
            return None
        over = list(_over_budget(problem, uses, units, stops=stops))
        if not over:
            return units
        banned.update(over)


def _over_budget(
    problem: PlacementProblem, uses: Uses, units: Sequence[UnitId], *, stops: bool
) -> Iterator[UnitId]:
    """The units that exceed the budget of their target, in program order."""
    left = [uses.limits(Place(place)).budget_bytes for place in range(problem.host + 1)]
    for unit in sorted(units, key=lambda unit: problem.units[unit].nodes):
        place = problem.units[unit].place
        room = left[place]
        if room is None:
            continue
        needed = uses.memory([unit])
        if needed <= room:
            left[place] = room - needed
            continue
        yield unit
        if stops:
            left[place] = -1


def within_limits(problem: PlacementProblem, uses: Uses, placement: Placement) -> Placement | None:
    """A placement with regions cut and dropped until it respects all limits; None if that fails.

    Dropped units go to the host.
    """
    hosted = {
        problem.units[unit].nodes[0]: unit
        for unit in dict.fromkeys(chain.from_iterable(problem.units_of))
        if problem.units[unit].place == problem.host
    }
    regions: list[PlacedRegion] = []
    dropped: list[UnitId] = []
    for region in placement.regions:
        parts = _parts(problem, uses, region)
        regions += [PlacedRegion(region.place, tuple(sorted(part))) for part in parts.parts]
        dropped += parts.refused
    kept = dict.fromkeys(_few_and_small(problem, uses, regions))
    dropped += [unit for region in regions if region not in kept for unit in region.units]
    nodes = [node for unit in dropped for node in problem.units[unit].nodes]
    if any(node not in hosted for node in nodes):
        return None
    host = [*placement.host_units, *(hosted[node] for node in nodes)]
    groups = [[unit] for unit in host] + [list(region.units) for region in kept]
    answer = Placement.of(problem, groups).split(problem)
    return answer if answer is not None and uses.keeps(answer) else None


def _few_and_small(
    problem: PlacementProblem, uses: Uses, regions: Sequence[PlacedRegion]
) -> Iterator[PlacedRegion]:
    """The regions with the most nodes, as many as the limits of each target allow."""
    count = [0] * problem.host
    memory = [0] * problem.host
    for region in sorted(regions, key=lambda region: -sum(uses.of[unit].ops for unit in region.units)):
        place, limits = region.place, uses.limits(region.place)
        needed = memory[place] + uses.memory(region.units)
        if limits.regions is not None and count[place] >= limits.regions:
            continue
        if limits.budget_bytes is not None and needed > limits.budget_bytes:
            continue
        count[place] += 1
        memory[place] = needed
        yield region


def _parts(problem: PlacementProblem, uses: Uses, region: PlacedRegion) -> Cut[UnitId]:
    """The region, cut into parts that its target accepts; mutually dependent composites are not separated."""
    if uses.fits(region.place, region.units):
        return Cut([list(region.units)], [])
    order = _topological(problem, region)
    if order is None:
        return Cut([], list(region.units))
    return cut(order, lambda units: uses.fits(region.place, sorted(units)))


def _topological(problem: PlacementProblem, region: PlacedRegion) -> list[UnitId] | None:
    """The units of a region in topological order; None if they have a cycle."""
    blocks = [problem.units[unit].nodes for unit in region.units]
    nodes = sorted(node for block in blocks for node in block)
    local = {node: index for index, node in enumerate(nodes)}
    inside = problem.dag.induced(nodes)
    quotient, parts, _ = contract(inside, [tuple(local[node] for node in block) for block in blocks])
    if cyclic_core(quotient.successors):
        return None
    unit_of = {local[block[0]]: unit for block, unit in zip(blocks, region.units, strict=True)}
    return [unit_of[parts[vertex][0]] for vertex in quotient.topological()]
