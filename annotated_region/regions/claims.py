"""Regions as sets of claimed units: splitting a region into units, and removing nodes from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.ids import MemberIndex, NodeId, numbered
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion, largest_composites

__all__ = ["follow_the_data", "in_units", "units_of", "without"]


def units_of(member: NodeRegion) -> Iterator[ClaimedUnit]:
    """The units of a region: its composites, largest first, then single nodes.

    A node inside a composite is also a unit if its target claims it alone as well.
    """
    yield from sorted(member.composites, key=lambda unit: (-len(unit.nodes), unit.nodes, unit.name))
    yield from (ClaimedUnit.of_node(node) for node in member.alone)


def without(
    member: NodeRegion, nodes: Collection[NodeId], composites: Collection[ClaimedUnit] = ()
) -> NodeRegion | None:
    """The region without some nodes and some composites; None if no node remains.

    A composite is removed as a whole when one of its nodes is; its other nodes remain only if they are
    claimed alone or lie in a remaining composite.
    """
    kept = [
        unit
        for unit in member.units
        if unit.is_composite and unit not in composites and not any(node in nodes for node in unit.nodes)
    ]
    alone = [node for node in member.alone if node not in nodes]
    covered = {node for unit in kept for node in unit.nodes}
    marks = [ClaimedUnit.of_node(node) for node in alone if node in covered]
    left = tuple(sorted({*alone, *covered}))
    return NodeRegion(member.target, left, tuple(sorted([*kept, *marks])), member.label) if left else None


def in_units(graph: DataflowGraph, member: NodeRegion) -> list[NodeRegion]:
    """The region split into parts of one unit each, in program order; the region itself if it is one unit.

    Of composites that share nodes the largest is kept; a node claimed only by a dropped composite is in no
    part. A node that moves no data joins the part of its data (see `follow_the_data`), or no part if that is
    not unique.
    """
    chosen = [(unit.nodes, (unit,)) for unit in largest_composites(member)]
    covered = {node for nodes, _units in chosen for node in nodes}
    computing = (node for node in member.alone if graph.nodes[node].kind is not NodeKind.STRUCTURE)
    parts = sorted([*chosen, *(((node,), ()) for node in computing if node not in covered)])
    if len(parts) == 1:
        return [member]
    owner = {node: index for index, (nodes, _units) in numbered(MemberIndex, parts) for node in nodes}
    targets = {index: member.target for index, _part in numbered(MemberIndex, parts)}
    follow_the_data(graph, [member], owner, targets)
    held: dict[MemberIndex, list[NodeId]] = {}
    for node, index in sorted(owner.items()):
        held.setdefault(index, []).append(node)
    return [NodeRegion(member.target, tuple(nodes), parts[index][1]) for index, nodes in sorted(held.items())]


def follow_the_data(
    graph: DataflowGraph,
    members: Sequence[NodeRegion],
    owner: dict[NodeId, MemberIndex],
    targets: Mapping[MemberIndex, str],
) -> None:
    """Assign nodes that move no data: a field or alias to the region of its producer, a tuple to that of its
    users.

    Parameters
    ----------
    graph
        The function.
    members
        The regions before conflict resolution: a node only goes to a target that claims it.
    owner
        The region of each assigned node; changed in place.
    targets
        The target of each region that `owner` names.
    """
    offers: dict[NodeId, set[str]] = {}
    for member in members:
        inside_composites = {node for unit in member.composites for node in unit.nodes}
        for node in member.nodes:
            if graph.nodes[node].kind is NodeKind.STRUCTURE and node not in inside_composites:
                offers.setdefault(node, set()).add(member.target)
    for node in sorted(offers):
        if not isinstance(graph.nodes[node].value, relax.Tuple):
            neighbours = [edge.producer for edge in graph.into[node]]
            _follow(owner, node, neighbours, offers[node], targets)
    for node in sorted(offers, reverse=True):
        if isinstance(graph.nodes[node].value, relax.Tuple):
            neighbours = [edge.consumer for edge in graph.out_of[node]]
            _follow(owner, node, neighbours, offers[node], targets)


def _follow(
    owner: dict[NodeId, MemberIndex],
    node: NodeId,
    neighbours: Sequence[NodeId],
    offers: set[str],
    targets: Mapping[MemberIndex, str],
) -> None:
    """Assign a node to the region of its neighbours, if they share one and its target claims the node."""
    regions = {owner.get(neighbour) for neighbour in neighbours}
    region = regions.pop() if len(regions) == 1 else None
    if region is not None and targets[region] in offers:
        owner[node] = region
