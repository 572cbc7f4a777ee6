"""Families of regions: which regions of a set must have a common order.

Regions that overlap cannot stand in one order, so a set that is not disjoint has several:

1. A disjoint set is one family.
2. Else, for each target, the regions that overlap none of its others are one family.
3. Each of the others is valid by itself, if no path leaves it and comes back. Those that do not
   overlap are still put into one order as far as they have one, because an order names every node:
   one for each region would take quadratic time. Contracting more can only close more cycles, so an
   order of many proves each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.graphs import CycleError, program_order
from annotated_region.ids import NodeId, RegionId
from annotated_region.regions.node_region import NodeRegion

__all__ = ["FamilyCycleError", "family_of", "order_of", "orders"]

Order = list[NodeId]
"""Vertices of a quotient graph: the first node of each region, and each node of no region."""


class FamilyCycleError(Exception):
    """The regions of `family` need each other's results; `cycle` holds vertices of their quotient."""

    def __init__(self, family: Sequence[RegionId], cycle: Order) -> None:
        super().__init__(family, cycle)
        self.family, self.cycle = family, cycle


def family_of(members: Mapping[RegionId, NodeRegion], region: RegionId) -> list[RegionId]:
    """The regions that must have a common order with `region`, itself included. O(nodes of all regions)."""
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
    """Families of regions that hold each region at least once, each with an order.

    Raises
    ------
    FamilyCycleError
        A family of case 1 or 2, or a region of case 3, has none.

    Notes
    -----
    O((V + E) log V) for each order. There are as many as targets, and as regions of one target lie
    on one node; more only where regions that overlap others of their target have no common order.
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
    """An order of one family; raises `FamilyCycleError` if there is none. O((V + E) log V)."""
    try:
        blocks = program_order(graph.dag, [members[index].nodes for index in family])
    except CycleError as error:
        raise FamilyCycleError(family, [NodeId(block[0]) for block in error.cycle]) from error
    return [NodeId(block[0]) for block in blocks]


def _orders_of_layer(
    graph: DataflowGraph, members: Mapping[RegionId, NodeRegion], layer: list[RegionId]
) -> Iterator[tuple[list[RegionId], Order]]:
    """An order of the whole layer; where there is none, orders of its halves."""
    try:
        yield layer, order_of(graph, members, layer)
    except FamilyCycleError:
        if len(layer) == 1:
            raise
        middle = len(layer) // 2
        yield from _orders_of_layer(graph, members, layer[:middle])
        yield from _orders_of_layer(graph, members, layer[middle:])


def _layers(members: Mapping[RegionId, NodeRegion], regions: Sequence[RegionId]) -> list[list[RegionId]]:
    """The regions in as few disjoint layers as first fit finds."""
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
    """The regions that share a node with another one (of their target)."""
    first: dict[tuple[str, NodeId], RegionId] = {}
    crowded: dict[RegionId, None] = {}
    for index, member in members.items():
        for node in member.nodes:
            other = first.setdefault((member.target if by_target else "", node), index)
            if other != index:
                crowded[other] = crowded[index] = None
    return dict(sorted(crowded.items()))
