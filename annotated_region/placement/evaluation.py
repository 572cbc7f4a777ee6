"""The cost and the validity of a placement: the plain definition, which shares no code with the searches.

The searches only call this to report the cost of their result, so that an error in their
bookkeeping is detected.
"""

from __future__ import annotations

import math

from annotated_region.placement.limits import NO_LIMITS
from annotated_region.placement.problem import PlacedRegion, Placement, PlacementProblem

__all__ = ["InvalidPlacementError", "evaluate"]


class InvalidPlacementError(ValueError):
    """A placement omits a node, covers one twice, mixes places, violates a limit or has a cycle."""


def evaluate(problem: PlacementProblem, placement: Placement) -> float:
    """The time of `placement` in seconds: launches, compute and transfers.

    Parameters
    ----------
    problem
        The problem, with its costs.
    placement
        The placement to evaluate.

    Returns
    -------
    float
        ``sum(launch) + sum(compute) + sum(transfer over distinct (value, destination) that cross)``.

    Raises
    ------
    InvalidPlacementError
        If a node is not covered or covered twice, a region mixes places, is disconnected or holds several
        units although its target does not allow it, a limit is violated, or the quotient graph has a cycle.

    Notes
    -----
    O(nodes + edges + units).
    """
    vertex_of, place_of = _vertices(problem, placement)
    _check_acyclic(problem, vertex_of)
    for region in placement.regions:
        if region.place in problem.single and len(region.units) > 1:
            raise InvalidPlacementError(f"{region} holds several units, but its target accepts only one")
        if region.place in problem.connected:
            _check_connected(problem, [node for unit in region.units for node in problem.units[unit].nodes])
    _check_limits(problem, placement)
    parts = [problem.launch[region.place] for region in placement.regions]
    parts += [problem.units[unit].cost for unit in placement.units]
    for value in problem.values:
        source = problem.host if value.producer is None else place_of[value.producer]
        home = None if value.producer is None else vertex_of[value.producer]
        destinations = {place_of[reader] for reader in value.consumers if vertex_of[reader] != home}
        if value.host_reads:
            destinations.add(problem.host)
        for destination in sorted(destinations):
            if source != problem.host or destination != problem.host:
                parts.append(value.transfer[source][destination])
    return math.fsum(parts)


def _vertices(problem: PlacementProblem, placement: Placement) -> tuple[list[int], list[int]]:
    """For each node its vertex of the quotient graph, and its place."""
    groups = [(region.place, region.units) for region in placement.regions]
    groups += [(problem.host, (unit,)) for unit in placement.host_units]
    vertex_of = [-1] * problem.nodes
    place_of = [-1] * problem.nodes
    for vertex, (place, units) in enumerate(groups):
        if not units:
            raise InvalidPlacementError(f"region {vertex} is empty")
        for index in units:
            unit = problem.units[index]
            if unit.place != place:
                raise InvalidPlacementError(f"{unit} is in a region of place {place}")
            for node in unit.nodes:
                if vertex_of[node] != -1:
                    raise InvalidPlacementError(f"node {node} is covered twice")
                vertex_of[node], place_of[node] = vertex, place
    if -1 in vertex_of:
        raise InvalidPlacementError(f"node {vertex_of.index(-1)} is not covered")
    return vertex_of, place_of


def _check_acyclic(problem: PlacementProblem, vertex_of: list[int]) -> None:
    """Kahn's algorithm on the quotient graph."""
    arrows: dict[int, set[int]] = {vertex: set() for vertex in vertex_of}
    waiting = dict.fromkeys(vertex_of, 0)
    for node, readers in enumerate(problem.successors):
        for reader in readers:
            left, right = vertex_of[node], vertex_of[reader]
            if left != right and right not in arrows[left]:
                arrows[left].add(right)
                waiting[right] += 1
    ready = [vertex for vertex, count in waiting.items() if count == 0]
    for vertex in ready:
        for other in sorted(arrows[vertex]):
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    if len(ready) < len(waiting):
        raise InvalidPlacementError("the regions depend on each other: the quotient graph has a cycle")


def _check_connected(problem: PlacementProblem, nodes: list[int]) -> None:
    """Traverse the edges inside the region in both directions."""
    inside = set(nodes)
    seen = {nodes[0]}
    stack = [nodes[0]]
    while stack:
        node = stack.pop()
        for other in (*problem.successors[node], *problem.predecessors[node]):
            if other in inside and other not in seen:
                seen.add(other)
                stack.append(other)
    if len(seen) < len(inside):
        raise InvalidPlacementError(f"the region of nodes {sorted(inside)} is not connected")


def _check_limits(problem: PlacementProblem, placement: Placement) -> None:
    """Sum the resource use of each region and each target, node by node."""
    counts, memory = [0] * problem.host, [0] * problem.host
    for region in placement.regions if problem.is_limited else ():
        limits = problem.limits[region.place] if problem.limits else NO_LIMITS
        nodes, constants, made, workspace = _used(problem, region)
        too_much = [
            limit is not None and amount > limit
            for amount, limit in (
                (nodes, limits.ops),
                (constants, limits.constant_bytes),
                (workspace, limits.workspace_bytes),
            )
        ]
        if any(too_much):
            raise InvalidPlacementError(f"{region} is too large for its target: {limits}")
        if problem.accepts is not None and not problem.accepts(region.place, region.units):
            raise InvalidPlacementError(f"{region} is rejected by its target")
        counts[region.place] += 1
        memory[region.place] += constants + made
    for place, limits in enumerate(problem.limits):
        if limits.regions is not None and counts[place] > limits.regions:
            raise InvalidPlacementError(f"{counts[place]} regions of place {place}, which has {limits}")
        if limits.budget_bytes is not None and memory[place] > limits.budget_bytes:
            raise InvalidPlacementError(f"{memory[place]} bytes at place {place}, which has {limits}")


def _used(problem: PlacementProblem, region: PlacedRegion) -> tuple[int, int, int, int]:
    """Nodes of a region; bytes of its constants, of the results of its units, and of those used
    only inside.
    """
    units = [problem.units[unit].nodes for unit in region.units]
    inside = {node for unit in units for node in unit}
    held = {constant for node in inside for constant in problem.constants_of[node]}
    made, workspace = 0, 0
    for unit in units:
        for value in [problem.values[value] for node in unit for value in problem.makes[node]]:
            readers = set(value.consumers)
            if value.host_reads or not readers <= set(unit):
                made += value.size
                workspace += 0 if value.host_reads or not readers <= inside else value.size
    return len(inside), sum(problem.constants[constant].size for constant in held), made, workspace
