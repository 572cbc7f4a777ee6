"""Families of regions: the sets of regions that are verified with one common order.

Overlapping regions cannot appear in one order, so a set that is not disjoint has several orders:

1. A disjoint set is one family.
2. Otherwise, for each target, its regions that overlap no other region of the target are one family.
3. Each remaining region is valid by itself if no path leaves and re-enters it. An order names every node, so
   one order for each of these regions would take quadratic time; instead, regions that do not overlap share
   an order where they have one. Contracting more regions can only close more cycles, so an order of many
   proves each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.graphs import CycleError, program_order
from annotated_region.ids import NodeId, RegionId
from annotated_region.regions.node_region import NodeRegion

__all__ = ["FamilyCycleError", "family_of", "order_of", "orders"]

Order = list[NodeId]
"""Vertices of a quotient graph: the first node of each region, and each node in no region."""


class FamilyCycleError(Exception):
    """The regions of `family` depend on each other in a cycle; `cycle` holds vertices of their quotient."""

    def __init__(self, family: Sequence[RegionId], cycle: Order) -> None:
        super().__init__(family, cycle)
        self.family, self.cycle = family, cycle


def family_of(members: Mapping[RegionId, NodeRegion], region: RegionId) -> list[RegionId]:
    """The family of `region`, itself included. O(nodes of all regions)."""
    if not _crowded(members, by_target=False):
        return list(members)
    crowded = _crowded(members, by_target=True)
    if region in crowded:
        return [region]
    target = members[region].target
    return [index for index, member in members.items() if member.target == target and index not in crowded]


def orders(
    graph: DataflowGraph, members: Mapping[RegionId, NodeRegion]
) -> Iterator[tuple[list[RegionId], Order]]:
    """Families that together cover all regions, each with an order.

    Raises
    ------
    FamilyCycleError
        A family of case 1 or 2, or a region of case 3, has no order.

    Notes
    -----
    O((V + E) log V) for each order. There is one order for each target, and as many more as regions of one
    target share a node; beyond that only where regions of case 3 have no common order.
    """
    if not _crowded(members, by_target=False):
        yield list(members), order_of(graph, members, list(members))
        return
    crowded = _crowded(members, by_target=True)
    families: dict[str, list[RegionId]] = {}
    for index, member in members.items():
        if index not in crowded:
            families.setdefault(member.target, []).append(index)
    for family in families.values():
        yield family, order_of(graph, members, family)
    for layer in _layers(members, list(crowded)):
        yield from _orders_of_layer(graph, members, layer)


def order_of(
    graph: DataflowGraph, members: Mapping[RegionId, NodeRegion], family: Sequence[RegionId]
) -> Order:
    """An order of one family. Raises `FamilyCycleError` if there is none. O((V + E) log V)."""
    try:
        blocks = program_order(graph.dag, [members[index].nodes for index in family])
    except CycleError as error:
        raise FamilyCycleError(family, [NodeId(block[0]) for block in error.cycle]) from error
    return [NodeId(block[0]) for block in blocks]


def _orders_of_layer(
    graph: DataflowGraph, members: Mapping[RegionId, NodeRegion], layer: list[RegionId]
) -> Iterator[tuple[list[RegionId], Order]]:
    """An order of the whole layer; if it has none, the orders of its halves, recursively."""
    try:
        yield layer, order_of(graph, members, layer)
    except FamilyCycleError:
        if len(layer) == 1:
            raise
        middle = len(layer) // 2
        yield from _orders_of_layer(graph, members, layer[:middle])
        yield from _orders_of_layer(graph, members, layer[middle:])


def _layers(members: Mapping[RegionId, NodeRegion], regions: Sequence[RegionId]) -> list[list[RegionId]]:
    """The regions in disjoint layers, assigned by first fit."""
    layers: list[list[RegionId]] = []
    taken: dict[NodeId, set[int]] = {}
    for index in regions:
        nodes = members[index].nodes
        full = set().union(*(taken.get(node, ()) for node in nodes))
        layer = next(number for number in range(len(layers) + 1) if number not in full)
        if layer == len(layers):
            layers.append([])
        layers[layer].append(index)
        for node in nodes:
            taken.setdefault(node, set()).add(layer)
    return layers


def _crowded(members: Mapping[RegionId, NodeRegion], by_target: bool) -> dict[RegionId, None]:
    """The regions that share a node with another region (with `by_target`: of the same target)."""
    first: dict[tuple[str, NodeId], RegionId] = {}
    crowded: dict[RegionId, None] = {}
    for index, member in members.items():
        for node in member.nodes:
            other = first.setdefault((member.target if by_target else "", node), index)
            if other != index:
                crowded[other] = crowded[index] = None
    return dict(sorted(crowded.items()))
