"""The outcome of a placement: regions, host ops, crossing values, and seconds under a cost model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from annotated_region.cost_units import CostUnit
from annotated_region.costs.model import HOST, CostModel
from annotated_region.dataflow.graph import RESULT, DataflowGraph, NodeKind
from annotated_region.dataflow.leaves import Leaf, readers_of_leaves
from annotated_region.ids import NodeId, RegionId
from annotated_region.regions.claims import units_of
from annotated_region.regions.node_region import NodeRegion, largest_composites
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.extents import size_of

__all__ = ["Outcome", "boundary_cost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a placement."""

    regions: int
    host: int
    crossings: int
    seconds: float

    @staticmethod
    def of(regions: AnnotatedRegionSet, model: CostModel) -> Outcome:
        """The outcome of the regions of one function, by the objective of ``docs/resolving-conflicts.md``.

        O(nodes + edges), and one query of the model for each unit.
        """
        graph = regions.dataflow
        region_of = _region_of(regions)
        host = [
            number
            for number, node in graph.numbered()
            if node.kind is NodeKind.OPERATION and number not in region_of
        ]
        crossings = list(_crossings(regions, region_of, model))
        seconds = [model.compute(HOST, CostUnit.of(graph, (number,))) for number in host]
        for member in regions.node_regions.values():
            seconds.append(model.launch(member.target))
            seconds += _unit_seconds(graph, member, model)
        return Outcome(len(regions), len(host), len(crossings), math.fsum([*seconds, *crossings]))

    @staticmethod
    def total(outcomes: Sequence[Outcome]) -> Outcome:
        """The sum of outcomes."""
        return Outcome(
            sum(each.regions for each in outcomes),
            sum(each.host for each in outcomes),
            sum(each.crossings for each in outcomes),
            math.fsum(each.seconds for each in outcomes),
        )


def boundary_cost(regions: AnnotatedRegionSet, model: CostModel) -> float:
    """The seconds for launches and crossings: all that differs between placements with equal units.

    O(nodes + edges).
    """
    launches = [model.launch(member.target) for member in regions.node_regions.values()]
    return math.fsum([*launches, *_crossings(regions, _region_of(regions), model)])


def _region_of(regions: AnnotatedRegionSet) -> dict[NodeId, RegionId]:
    return {node: region for region, held in regions.node_regions.items() for node in held.nodes}


def _unit_seconds(graph: DataflowGraph, member: NodeRegion, model: CostModel) -> list[float]:
    chosen = largest_composites(member)
    covered = {node for unit in chosen for node in unit.nodes}
    alone = (unit for unit in units_of(member) if not unit.is_composite and unit.nodes[0] not in covered)
    seconds = []
    for unit in (*chosen, *alone):
        ops = tuple(node for node in unit.nodes if graph.nodes[node].kind is NodeKind.OPERATION)
        if ops:
            seconds.append(model.compute(member.target, CostUnit.of(graph, ops, unit.composite)))
    return seconds


def _crossings(
    regions: AnnotatedRegionSet, region_of: dict[NodeId, RegionId], model: CostModel
) -> Iterator[float]:
    """The transfer cost of each value to each other place that reads it."""
    graph = regions.dataflow
    readers = readers_of_leaves(
        graph, lambda node: node == RESULT or graph.nodes[node].kind is not NodeKind.STRUCTURE
    )
    for leaf, consumers in readers.items():
        source, made_in = _place(regions, region_of, _maker(graph, leaf))
        read_in = {_place(regions, region_of, node)[::-1] for node in consumers}
        for destination in sorted(
            {place for region, place in read_in if region is None or region != made_in}
        ):
            if not source == destination == HOST:
                yield model.transfer(size_of(leaf.ty), source, destination)


def _maker(graph: DataflowGraph, leaf: Leaf) -> NodeId:
    number = graph.number_of(leaf.root)
    return RESULT if number is None else number


def _place(
    regions: AnnotatedRegionSet, region_of: dict[NodeId, RegionId], node: NodeId
) -> tuple[str, RegionId | None]:
    """The place of a node, and its region; parameters and the result belong to the host."""
    region = region_of.get(node)
    return (HOST, None) if region is None else (regions.node_regions[region].target, region)
