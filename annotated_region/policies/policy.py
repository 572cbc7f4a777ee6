"""The protocol of policies, which resolve conflicts between targets, and `Priority`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from annotated_region.checked import checked_class
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.dataflow.pieces import pieces
from annotated_region.graphs import is_acyclic
from annotated_region.grouping import ColourLimits
from annotated_region.ids import Colour, MemberIndex, NodeId, numbered
from annotated_region.regions.claims import follow_the_data, units_of
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.regions.regrouping import Regrouped, regroup

__all__ = ["Policy", "Priority", "Resolution"]


@checked_class
@dataclass(frozen=True, slots=True)
class Resolution:
    """The result of a policy: disjoint regions, and details for the report.

    Attributes
    ----------
    regions
        Disjoint regions whose quotient graph is acyclic.
    details
        Details for the report, such as the cost, the lower bound and the gap.
    local
        Whether the choices before and behind a separating node are independent of each other. Only then are
        the edited parts of a function placed anew without the rest.
    """

    regions: Sequence[NodeRegion]
    details: Mapping[str, Any] = field(default_factory=dict)
    local: bool = False


class Policy(Protocol):
    """The protocol that `ResolveConflicts` requires of a policy."""

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId]) -> Resolution:
        """Choose a target, or the host, for each node in a region.

        Parameters
        ----------
        regions
            The candidate regions, which may overlap.
        pinned
            Nodes that must not go to the host. All claims on them but those of their pinned target are
            removed already.
        """


@checked_class
@dataclass(frozen=True, slots=True, init=False)
class Priority:
    """The first target that claims a node gets it, as in ONNX Runtime.

    Of the composites of one target that share nodes, the largest wins, then the first. A region that loses
    nodes to another target is split into connected parts, which MergeCompilerRegions joins again where that
    is valid. If the parts depend on each other in a cycle, the block is regrouped from its units.

    Parameters
    ----------
    order
        The targets, the most preferred first; other targets follow in the order of their first region.
    """

    order: tuple[str, ...]

    def __init__(self, order: str | Sequence[str]) -> None:
        object.__setattr__(self, "order", (order,) if isinstance(order, str) else tuple(order))

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId] = ()) -> Resolution:  # noqa: ARG002
        """See `Policy`. O(n log n) in the nodes and edges, for each composite that is dropped."""
        graph = regions.dataflow
        rank = {target: place for place, target in enumerate(dict.fromkeys((*self.order, *regions.targets)))}
        members = sorted(
            regions.node_regions.values(), key=lambda member: (rank[member.target], member.sort_key)
        )
        dropped: set[tuple[str, ClaimedUnit]] = set()
        while True:
            winners = _Winners(graph, members, dropped)
            parts = list(winners.parts())
            if is_acyclic(graph.dag, [part.nodes for part in parts]):
                return Resolution(parts, local=not dropped)
            anew = winners.grouped_anew()
            if not anew.left_out:
                return Resolution(anew.regions)
            dropped |= {(member.target, member.units[0]) for member in anew.left_out}


class _Winners:
    """Assigns each node to the region whose claim wins it, and selects composites."""

    def __init__(
        self,
        graph: DataflowGraph,
        members: Sequence[NodeRegion],
        dropped: Collection[tuple[str, ClaimedUnit]],
    ) -> None:
        self.graph = graph
        self.members = members
        self.owner: dict[NodeId, MemberIndex] = {}
        self.composites: dict[MemberIndex, list[ClaimedUnit]] = {}
        for index, unit in _by_preference(members):
            target = members[index].target
            if (target, unit) not in dropped and self.owner.keys().isdisjoint(unit.nodes):
                self.owner.update(dict.fromkeys(unit.nodes, index))
                if unit.is_composite:
                    self.composites.setdefault(index, []).append(unit)
        _drop_orphans(graph, members, self.owner)
        targets = {index: member.target for index, member in numbered(MemberIndex, members)}
        follow_the_data(graph, members, self.owner, targets)

    def parts(self) -> Iterator[NodeRegion]:
        """The remaining nodes of each region: the region itself, or its connected parts."""
        held: dict[MemberIndex, list[NodeId]] = {}
        for node, index in sorted(self.owner.items()):
            held.setdefault(index, []).append(node)
        for index, nodes in held.items():
            member = self.members[index]
            composites = self.composites.get(index, [])
            if tuple(nodes) == member.nodes:
                yield NodeRegion(member.target, member.nodes, tuple(sorted(composites)), member.label)
                continue
            for part in pieces(self.graph, nodes):
                inside = set(part)
                units = tuple(sorted(unit for unit in composites if unit.nodes[0] in inside))
                yield NodeRegion(member.target, tuple(sorted(part)), units)

    def grouped_anew(self) -> Regrouped:
        """The winning units of all regions, regrouped by target regardless of the original regions."""
        units = [(index, unit) for index, chosen in self.composites.items() for unit in chosen]
        covered = {node for _index, unit in units for node in unit.nodes}
        atoms = [NodeRegion(self.members[index].target, unit.nodes, (unit,)) for index, unit in units]
        for node, index in sorted(self.owner.items()):
            if node not in covered:
                atoms.append(NodeRegion(self.members[index].target, (node,)))
        colour_of = {
            target: colour for colour, target in numbered(Colour, dict.fromkeys(a.target for a in atoms))
        }
        colours = [colour_of[atom.target] for atom in atoms]
        return regroup(self.graph, atoms, colours, dict.fromkeys(colours, ColourLimits()))


def _by_preference(members: Sequence[NodeRegion]) -> Iterator[tuple[MemberIndex, ClaimedUnit]]:
    """The units in order of preference: by target, then composites before single nodes, large ones first.

    Expects the regions grouped by target, in the order of preference.
    """
    for _target, group in groupby(numbered(MemberIndex, members), key=lambda each: each[1].target):
        offers = [(index, unit) for index, member in group for unit in units_of(member)]
        yield from sorted(
            offers, key=lambda offer: (not offer[1].is_composite, -len(offer[1].nodes), offer[1], offer[0])
        )


def _drop_orphans(
    graph: DataflowGraph, members: Sequence[NodeRegion], owner: dict[NodeId, MemberIndex]
) -> None:
    """Remove structural nodes from regions that lost all of the nodes' neighbours."""
    inside = [set(member.nodes) for member in members]
    for node, index in list(owner.items()):
        if graph.nodes[node].kind is not NodeKind.STRUCTURE:
            continue
        around = [edge.producer for edge in graph.into[node]] + [edge.consumer for edge in graph.out_of[node]]
        beside = [other for other in around if other in inside[index]]
        if beside and all(owner.get(other) != index for other in beside):
            del owner[node]
