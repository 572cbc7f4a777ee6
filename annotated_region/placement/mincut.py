"""One target against the host: the cheapest assignment is a minimum cut.

A node on the source side runs on the target, one on the sink side on the host; the capacity of the cut is the
cost (Stone 1977, "Multiprocessor scheduling with the aid of network flow algorithms"). A value gets an
auxiliary vertex for each direction, so that its transfer is paid once for all readers:

        source --host--> node --target--> sink        the cost of the node at its place
        producer --down--> b, b --inf--> readers      defined on the target, read on the host
        readers --inf--> a, a --up--> producer        defined on the host, read on the target

Launches, convexity and transfers between two regions of the target are ignored, so the cut is a lower
bound: every placement that uses the target costs at least the cut plus one launch.
"""

from __future__ import annotations

import math

from annotated_region.graphs import FlowNetwork
from annotated_region.ids import UnitId
from annotated_region.placement.problem import PlacementProblem

__all__ = ["minimum_cut"]


def minimum_cut(problem: PlacementProblem) -> tuple[float, list[UnitId]] | None:
    """The minimum cost without launches, and units that attain it.

    Parameters
    ----------
    problem
        A problem with one target and costs on a grid, so that sums of flows are exact.

    Returns
    -------
    tuple or None
        None if there is more than one target, or composites, or no finite cut.

    Notes
    -----
    The complexity of `annotated_region.graphs.FlowNetwork`, for one vertex per node and two per value.
    """
    if problem.host != 1 or any(len(unit.nodes) > 1 for unit in problem.units):
        return None
    costs = _node_costs(problem)
    network = _network(problem, costs)
    flow = network.saturate()
    if math.isinf(flow):
        return None
    on_target = network.reached_from_source()
    units = []
    for node in range(problem.nodes):
        place = 0 if on_target[node] else 1
        options = [unit for unit in problem.units_of[node] if problem.units[unit].place == place]
        units.append(min(options, key=lambda unit: problem.units[unit].cost))
    return flow, units


def _node_costs(problem: PlacementProblem) -> list[tuple[float, float]]:
    """For each node, the minimum cost on the target and on the host; infinite if it cannot run there."""
    costs = []
    for units in problem.units_of:
        offered = [problem.units[unit] for unit in units]
        target, host = (
            min((unit.cost for unit in offered if unit.place == place), default=math.inf) for place in (0, 1)
        )
        costs.append((target, host))
    return costs


def _network(problem: PlacementProblem, costs: list[tuple[float, float]]) -> FlowNetwork:
    """The flow network of the module docstring; the vertices of nodes come first."""
    network = FlowNetwork(problem.nodes)
    for node, (target, host) in enumerate(costs):
        network.join(network.source, node, host)
        network.join(node, network.sink, target)
    for value in problem.values:
        down, up = value.transfer[0][1], value.transfer[1][0]
        origin = network.sink if value.producer is None else value.producer
        if value.host_reads and value.producer is not None:
            network.join(origin, network.sink, down)
        elif value.producer is not None and down > 0 and value.consumers:
            network.fan_out(origin, value.consumers, down)
        if up > 0 and value.consumers:
            network.fan_in(value.consumers, origin, up)
    return network
