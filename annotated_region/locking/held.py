"""The ops of a function that keep their placement in a lock.

An op is held if the lock has it (see `alignment`) and its target claims it today; an op on the host is held
if its neighbours are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from annotated_region.costs.model import HOST
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.graphs import is_acyclic
from annotated_region.ids import NodeId
from annotated_region.locking.alignment import aligned
from annotated_region.locking.fingerprints import labels_of
from annotated_region.locking.lock_diff import label_of
from annotated_region.locking.locked_ops import LockedFunction, LockedOp
from annotated_region.regions.claims import units_of
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion

__all__ = ["Held", "LockedNodes"]


@dataclass(frozen=True, slots=True)
class LockedNodes:
    """The entries of a lock for the nodes of a function.

    Attributes
    ----------
    locked
        By node, its op in the lock.
    unchanged
        The nodes whose neighbours have not changed since the lock was written.
    is_whole
        Whether every op of the function is in the lock, and vice versa.
    """

    locked: Mapping[NodeId, LockedOp]
    unchanged: AbstractSet[NodeId]
    is_whole: bool

    @staticmethod
    def of(graph: DataflowGraph, function: LockedFunction) -> LockedNodes:
        """The ops of a lock in a function. O(nodes + edges)."""
        labels = labels_of(graph)
        positions = aligned([label_of(op) for op in function.ops], list(labels.values()))
        locked = {
            node: function.ops[position]
            for node, position in zip(labels, positions, strict=True)
            if position is not None
        }
        unchanged = {
            node
            for node, op in locked.items()
            if (op.local, op.around) == (labels[node].local, labels[node].around)
        }
        return LockedNodes(locked, unchanged, len(locked) == len(labels) == len(function.ops))


@dataclass(frozen=True, slots=True)
class Held:
    """The part of a function that keeps its placement.

    Attributes
    ----------
    place_of
        By node, the target and the region, or the host and None.
    units
        The units of the lock that are claimed today, each with its target and its region.
    is_all
        Whether every node that a target claims is held, each target's in one of `units`.
    """

    place_of: Mapping[NodeId, tuple[str, int | None]]
    units: Sequence[tuple[ClaimedUnit, str, int]]
    is_all: bool

    @staticmethod
    def of(
        graph: DataflowGraph,
        nodes: LockedNodes,
        offered: Sequence[NodeRegion],
        pinned: AbstractSet[NodeId],
    ) -> Held:
        claimed = _claimed(graph, offered)
        place_of: dict[NodeId, tuple[str, int | None]] = {}
        for node, op in nodes.locked.items():
            stays = node in nodes.unchanged and node not in pinned if op.place == HOST else False
            if stays or op.place in claimed.get(node, {}):
                place_of[node] = (op.place, op.region)
        units = list(_units(graph, nodes.locked, place_of, offered))
        if not is_acyclic(graph.dag, [unit.nodes for unit, _target, _region in units]):
            units = [each for each in units if not each[0].is_composite]
        in_units = {node for unit, _target, _region in units for node in unit.nodes}
        is_all = all(node in in_units or place_of.get(node, ("",))[0] == HOST for node in claimed)
        return Held(place_of, units, is_all)

    def without(self, regions: Collection[tuple[str, int]]) -> Held:
        """The same without the ops of some regions, each given by its target and its id."""
        place_of = {node: place for node, place in self.place_of.items() if place not in regions}
        units = [each for each in self.units if each[1:] not in regions]
        return Held(place_of, units, is_all=False)

    @property
    def pinned(self) -> frozenset[NodeId]:
        """The nodes of all units; they may not go to the host."""
        return frozenset(node for unit, _target, _region in self.units for node in unit.nodes)

    def by_region(self) -> dict[tuple[str, int], list[ClaimedUnit]]:
        """The units by target and region."""
        found: dict[tuple[str, int], list[ClaimedUnit]] = {}
        for unit, target, region in self.units:
            found.setdefault((target, region), []).append(unit)
        return found

    def offers(self, offered: Sequence[NodeRegion]) -> list[NodeRegion]:
        """The claims that are compatible with the held units."""
        units: dict[str, dict[NodeId, ClaimedUnit]] = {member.target: {} for member in offered}
        for unit, target, _region in self.units:
            units.setdefault(target, {}).update(dict.fromkeys(unit.nodes, unit))
        left = (self._left(member, units[member.target]) for member in offered)
        return [member for member in left if member is not None]

    def _left(self, member: NodeRegion, unit_of: Mapping[NodeId, ClaimedUnit]) -> NodeRegion | None:
        """What is left of a claim; `unit_of` has the held units of its target by node."""
        lost = {
            node for node in member.nodes if self.place_of.get(node, (member.target,))[0] != member.target
        }
        composites = [
            unit for unit in member.composites if lost.isdisjoint(unit.nodes) and _may_stay(unit, unit_of)
        ]
        alone = [
            node
            for node in member.alone
            if node not in lost and not (node in unit_of and unit_of[node].is_composite)
        ]
        covered = {node for unit in composites for node in unit.nodes}
        marks = [ClaimedUnit.of_node(node) for node in alone if node in covered]
        nodes = tuple(sorted({*alone, *covered}))
        return (
            NodeRegion(member.target, nodes, tuple(sorted([*composites, *marks])), member.label)
            if nodes
            else None
        )


def _may_stay(composite: ClaimedUnit, unit_of: Mapping[NodeId, ClaimedUnit]) -> bool:
    """Whether a composite is in the lock, or consists of whole held composites and of new nodes."""
    inside = {unit_of[node] for node in composite.nodes if node in unit_of}
    if composite in inside:
        return True
    whole = all(set(unit.nodes) <= set(composite.nodes) for unit in inside if unit.is_composite)
    return whole and any(node not in unit_of for node in composite.nodes)


def _claimed(graph: DataflowGraph, offered: Iterable[NodeRegion]) -> dict[NodeId, dict[str, None]]:
    """For each operation node, the targets that claim it."""
    claimed: dict[NodeId, dict[str, None]] = {}
    for member in offered:
        for node in member.nodes:
            if graph.nodes[node].kind is NodeKind.OPERATION:
                claimed.setdefault(node, {})[member.target] = None
    return claimed


def _units(
    graph: DataflowGraph,
    locked: Mapping[NodeId, LockedOp],
    place_of: Mapping[NodeId, tuple[str, int | None]],
    offered: Sequence[NodeRegion],
) -> Iterator[tuple[ClaimedUnit, str, int]]:
    """The units of the lock that are offered today, in program order."""
    matches: dict[tuple[str, str | None, tuple[NodeId, ...]], ClaimedUnit] = {}
    for member in offered:
        for unit in units_of(member):
            ops = tuple(node for node in unit.nodes if graph.nodes[node].kind is NodeKind.OPERATION)
            matches.setdefault((member.target, unit.composite, ops), unit)
    groups: dict[tuple[str, int, str, NodeId | None], list[NodeId]] = {}
    for node, (target, region) in sorted(place_of.items()):
        if region is not None:
            composite = locked[node].composite
            # An op that is claimed alone forms its own group.
            group = (target, region, composite, None if composite else node)
            groups.setdefault(group, []).append(node)
    for (target, region, composite, _node), nodes in groups.items():
        found = matches.get((target, composite.rpartition("#")[0] or None, tuple(nodes)))
        if found is not None:
            yield found, target, region
