"""Replays a lock: ops that still exist keep their placement, and only changed ops are placed again.

    lock                    model today              held                placed by the policy
    a  dnnl/0               a                        a on dnnl, in 0
    b  dnnl/0               new                                          new: any target that claims it
    c  host                 b   (dnnl declines)                          b:   any target that claims it
                            c                        c on the host

An op is held if the lock has it (see `alignment`) and its target claims it today; an op on the host is held
if its neighbours are unchanged. The regions of the lock are kept as far as the quotient stays acyclic:

1.  Whole, if it is acyclic.
2.  Extended by the nodes that now lie between their ops, if these are on the same target.
3.  Split before and after the nodes between, if these are on another target or the host.
4.  Not at all, if the policy forms fewer regions.

If all ops are held, the policy does not run, so a lock of measured costs is replayed without measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias

from annotated_region.costs.model import HOST
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.errors import DocumentError
from annotated_region.graphs import is_acyclic
from annotated_region.ids import NodeId
from annotated_region.locking.alignment import aligned
from annotated_region.locking.fingerprints import labels_of
from annotated_region.locking.kept_regions import KeptPart, kept_acyclic, regions_of_parts
from annotated_region.locking.lock import Lock
from annotated_region.locking.lock_diff import label_of
from annotated_region.locking.locked_ops import LockedFunction, LockedOp
from annotated_region.policies.policy import Policy, Resolution
from annotated_region.regions.claims import units_of
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["LockedNodes", "Replay", "require_same_model"]

Join: TypeAlias = Callable[[AnnotatedRegionSet], AnnotatedRegionSet]


@dataclass(frozen=True, slots=True)
class LockedNodes:
    """The entries of a lock for the nodes of a function.

    Attributes
    ----------
    locked
        By node, its op in the lock.
    settled
        The nodes whose neighbours have not changed since the lock was written.
    is_whole
        Whether every op of the function is in the lock, and vice versa.
    """

    locked: Mapping[NodeId, LockedOp]
    settled: AbstractSet[NodeId]
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
        settled = {
            node
            for node, op in locked.items()
            if (op.local, op.around) == (labels[node].local, labels[node].around)
        }
        return LockedNodes(locked, settled, len(locked) == len(labels) == len(function.ops))


def require_same_model(lock: Lock, graphs: Sequence[DataflowGraph]) -> None:
    """Check that a lock was written for a similar model.

    Raises
    ------
    DocumentError
        Less than a quarter of the lock's ops, or of the model's ops, has a counterpart on the other side.
    """
    known, ops, found = sum(len(function.ops) for function in lock.functions), 0, 0
    for graph in graphs:
        ops += len(labels_of(graph))
        function = lock.function(graph.name)
        found += 0 if function is None else len(LockedNodes.of(graph, function).locked)
    if 4 * found < min(known, ops):
        raise DocumentError(
            f"the lock is one of another model: {found} of its {known} ops are among the {ops} of this one; "
            "write a lock of this model"
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """A policy that replays a lock, and delegates the other ops to a policy; see the module docstring.

    Attributes
    ----------
    policy
        The policy for ops that are not held.
    nodes
        The entries of the lock.
    function
        The function of the lock.
    join
        Merges regions as far as validity and the limits of their targets allow.
    """

    policy: Policy
    nodes: LockedNodes
    function: LockedFunction
    join: Join

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId] = ()) -> Resolution:
        """See `Policy`. O(nodes + edges) for each resolved cycle, plus the time of the policy."""
        graph = regions.dataflow
        offered = list(regions.node_regions.values())
        held = _Held.of(graph, self.nodes, offered, frozenset(pinned))
        if held.is_all:
            parts = [
                KeptPart(target, tuple(units), region) for (target, region), units in held.by_region().items()
            ]
            if self._is_in_order(graph, parts):
                return Resolution(regions_of_parts(graph, offered, parts), self._details())
        answer = self.policy.resolve(
            regions.replaced_by(held.offers(offered)), frozenset(pinned) | held.pinned
        )
        parts = kept_acyclic(graph, offered, list(_parts(graph, held, answer.regions)))
        kept = self.join(regions.replaced_by(regions_of_parts(graph, offered, parts)))
        anew = self.join(regions.replaced_by(answer.regions))
        # The targets of ops are equal in both. Keeping regions is not worth an additional region.
        chosen = kept if len(kept) <= len(anew) else anew
        return Resolution(list(chosen.node_regions.values()), answer.details)

    def _is_in_order(self, graph: DataflowGraph, parts: Sequence[KeptPart]) -> bool:
        return is_acyclic(graph.dag, [part.nodes for part in parts])

    def _details(self) -> dict[str, Any]:
        """The costs in the lock."""
        cost, bound = self.function.cost, self.function.lower_bound
        if cost is None or bound is None or not self.nodes.is_whole:
            return {}
        gap = 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost)
        return {"cost": cost, "lower_bound": bound, "gap": gap, "proof": ["lock"]}


@dataclass(frozen=True, slots=True)
class _Held:
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
    ) -> _Held:
        claimed = _claimed(graph, offered)
        place_of: dict[NodeId, tuple[str, int | None]] = {}
        for node, op in nodes.locked.items():
            stays = node in nodes.settled and node not in pinned if op.place == HOST else False
            if stays or op.place in claimed.get(node, {}):
                place_of[node] = (op.place, op.region)
        units = list(_units(graph, nodes.locked, place_of, offered))
        if not is_acyclic(graph.dag, [unit.nodes for unit, _target, _region in units]):
            units = [each for each in units if not each[0].is_composite]
        in_units = {node for unit, _target, _region in units for node in unit.nodes}
        is_all = all(node in in_units or place_of.get(node, ("",))[0] == HOST for node in claimed)
        return _Held(place_of, units, is_all)

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
        left = (self._left(member) for member in offered)
        return [member for member in left if member is not None]

    def _left(self, member: NodeRegion) -> NodeRegion | None:
        fixed = {
            node: unit
            for unit, target, _region in self.units
            if target == member.target and unit.is_composite
            for node in unit.nodes
        }
        lost = {
            node for node in member.nodes if self.place_of.get(node, (member.target,))[0] != member.target
        }
        composites = [
            unit
            for unit in member.composites
            if lost.isdisjoint(unit.nodes) and self._may_stay(unit, fixed, member.target)
        ]
        alone = [node for node in member.alone if node not in lost and node not in fixed]
        covered = {node for unit in composites for node in unit.nodes}
        marks = [ClaimedUnit((node,), "") for node in alone if node in covered]
        nodes = tuple(sorted({*alone, *covered}))
        return (
            NodeRegion(member.target, nodes, tuple(sorted([*composites, *marks])), member.label)
            if nodes
            else None
        )

    def _may_stay(self, unit: ClaimedUnit, fixed: Mapping[NodeId, ClaimedUnit], target: str) -> bool:
        """Whether a composite is in the lock, or consists of whole held units and new nodes."""
        inside = {fixed[node] for node in unit.nodes if node in fixed}
        if unit in inside:
            return True
        whole = all(set(other.nodes) <= set(unit.nodes) for other in inside)
        settled = {node for each, owner, _region in self.units if owner == target for node in each.nodes}
        return whole and not settled.issuperset(unit.nodes)


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
    matches: dict[tuple[str, str, tuple[NodeId, ...]], ClaimedUnit] = {}
    for member in offered:
        for unit in units_of(member):
            ops = tuple(node for node in unit.nodes if graph.nodes[node].kind is NodeKind.OPERATION)
            matches.setdefault((member.target, unit.name, ops), unit)
    groups: dict[tuple[str, int, str, NodeId | None], list[NodeId]] = {}
    for node, (target, region) in sorted(place_of.items()):
        if region is not None:
            composite = locked[node].composite
            # An op that is claimed alone forms its own group.
            group = (target, region, composite, None if composite else node)
            groups.setdefault(group, []).append(node)
    for (target, region, composite, _node), nodes in groups.items():
        found = matches.get((target, composite.rpartition("#")[0], tuple(nodes)))
        if found is not None:
            yield found, target, region


def _parts(graph: DataflowGraph, held: _Held, placed: Iterable[NodeRegion]) -> Iterator[KeptPart]:
    """The placed units, grouped by regions of the lock; a unit outside them is a separate part."""
    kept: dict[tuple[str, int], list[ClaimedUnit]] = {}
    new: list[KeptPart] = []
    for member in placed:
        for unit in units_of(member):
            if all(graph.nodes[node].kind is NodeKind.STRUCTURE for node in unit.nodes):
                continue
            region = _region_of(held, unit, member.target)
            if region is None:
                new.append(KeptPart(member.target, (unit,), None))
            else:
                kept.setdefault((member.target, region), []).append(unit)
    for (target, region), units in sorted(kept.items()):
        yield KeptPart(target, tuple(sorted(units)), region)
    yield from new


def _region_of(held: _Held, unit: ClaimedUnit, target: str) -> int | None:
    """The region of the lock of the first held node of a unit."""
    for node in unit.nodes:
        place, region = held.place_of.get(node, (HOST, None))
        if place == target and region is not None:
            return region
    return None
