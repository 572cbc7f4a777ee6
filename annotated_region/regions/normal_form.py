"""The normal form of a region set: composites inside their regions, no duplicates, canonical order.

1. A composite belongs to every plain region of its target that contains all its nodes. If there is none, the
   composite is a region by itself (a bare composite).
2. A node that a target claims alone keeps that claim when composites cover it: every plain region of the
   target in which a composite covers the node has a mark for it (a unit of the node alone).
3. Regions of one target with equal nodes and units are merged; the first label is kept.

The form is independent of the order and origin of the regions, and is preserved by writing and reading, so a
set read from annotations equals one made from the same claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from annotated_region.annotations import Key
from annotated_region.ids import NodeId, RegionId, numbered
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion, Nodes

__all__ = ["in_canonical_order", "regions_from_reading", "normalized"]

TargetNode = tuple[str, NodeId]


def in_canonical_order(members: Iterable[NodeRegion]) -> list[NodeRegion]:
    """The regions sorted by `sort_key`, so that ids do not depend on the order in which they were found."""
    return sorted(members, key=lambda member: member.sort_key)


def normalized(members: Mapping[RegionId, NodeRegion]) -> dict[RegionId, NodeRegion]:
    """The normal form of the regions; each keeps its id.

    O(nodes of all regions and composites, times the regions of one target that share a node).
    """
    if any(member.units for member in members.values()):
        members = dict(_with_composites_in_place(members))
    distinct: dict[object, RegionId] = {}
    for index, member in members.items():
        distinct.setdefault(member.sort_key, index)
    return {index: members[index] for index in distinct.values()}


def _with_composites_in_place(
    members: Mapping[RegionId, NodeRegion],
) -> Iterator[tuple[RegionId, NodeRegion]]:
    """Cases 1 and 2."""
    plain = {index: member for index, member in members.items() if not member.is_composite}
    held_by = _holders(plain)
    alone = {(member.target, node) for member in plain.values() for node in member.alone}
    inside: dict[RegionId, dict[ClaimedUnit, None]] = {index: {} for index in plain}
    bare = {}
    for index, member in members.items():
        for unit in member.composites:
            homes = _homes(held_by, member.target, unit)
            for home in homes:
                inside[home][unit] = None
            if not homes:
                bare[index] = member
    for index, member in members.items():
        if index in bare:
            yield index, member
        elif index in plain:
            yield index, replace(member, units=_with_marks(member.target, inside[index], alone))


def _with_marks(
    target: str, composites: Iterable[ClaimedUnit], alone: set[TargetNode]
) -> tuple[ClaimedUnit, ...]:
    covered = {node for unit in composites for node in unit.nodes}
    return tuple(
        sorted([*composites, *(ClaimedUnit.of_node(node) for node in covered if (target, node) in alone)])
    )


def regions_from_reading(found: Iterable[tuple[Key, Nodes]]) -> dict[RegionId, NodeRegion]:
    """The normal form of the regions that reading found, with composites and marks moved into plain regions.

    O(nodes of all regions and composites, times the regions of one target that share a node).
    """
    plain: list[NodeRegion] = []
    units: list[tuple[str, ClaimedUnit]] = []
    for key, nodes in found:
        name, mark, count = key.label.rpartition("#")
        if mark and count.isdecimal():
            units.append((key.target, ClaimedUnit(nodes, name or None)))
        else:
            plain.append(NodeRegion(key.target, nodes, (), key.label))
    regions = dict(numbered(RegionId, _filled(plain, units)))
    return dict(numbered(RegionId, in_canonical_order(normalized(regions).values())))


def _filled(plain: list[NodeRegion], units: list[tuple[str, ClaimedUnit]]) -> Iterator[NodeRegion]:
    """The plain regions with the units that lie inside them, and the units that lie in none."""
    held_by = _holders(dict(numbered(RegionId, plain)) if units else {})
    inside: list[list[ClaimedUnit]] = [[] for _ in plain]
    for target, unit in units:
        homes = _homes(held_by, target, unit)
        for home in homes:
            inside[home].append(unit)
        if not homes:
            # A mark outside every plain region is a plain claim of its node.
            yield NodeRegion(target, unit.nodes, (unit,) if unit.is_composite else ())
    for member, held in zip(plain, inside, strict=True):
        covered = {node for unit in held if unit.is_composite for node in unit.nodes}
        kept = {unit for unit in held if unit.is_composite or not covered.isdisjoint(unit.nodes)}
        yield replace(member, units=tuple(sorted(kept)))


def _holders(regions: Mapping[RegionId, NodeRegion]) -> dict[TargetNode, list[RegionId]]:
    """By target and node, the regions of that target that contain the node."""
    holders: dict[TargetNode, list[RegionId]] = {}
    for index, member in regions.items():
        for node in member.nodes:
            holders.setdefault((member.target, node), []).append(index)
    return holders


def _homes(held_by: Mapping[TargetNode, list[RegionId]], target: str, unit: ClaimedUnit) -> list[RegionId]:
    """The regions that contain all nodes of a unit."""
    first, *rest = (held_by.get((target, node), []) for node in unit.nodes)
    return [index for index in first if all(index in others for others in rest)]
