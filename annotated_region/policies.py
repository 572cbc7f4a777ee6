"""How conflicts between targets are resolved: what every policy answers, and `Priority`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from annotated_region.claims import follow_the_data, units_of
from annotated_region.dataflow import DataflowGraph, NodeKind
from annotated_region.grouping import ColourLimits
from annotated_region.members import Members, Unit
from annotated_region.region_set import AnnotatedRegionSet
from annotated_region.regrouping import regroup

__all__ = ["Policy", "Priority", "Resolution"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a policy answers: disjoint regions, and what it has to say of them.

    Attributes
    ----------
    regions
        Disjoint regions whose quotient graph is acyclic.
    details
        For the report, such as the cost, the lower bound and the gap.
    """

    regions: Sequence[Members]
    details: Mapping[str, Any] = field(default_factory=dict)


class Policy(Protocol):
    """What `ResolveConflicts` asks of a policy."""

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[int]) -> Resolution:
        """Choose a target, or the host, for each node that a region holds.

        Parameters
        ----------
        regions
            The regions that may win; they may overlap.
        pinned
            Nodes that may not go to the host. Whoever claims them is pinned already: no other
            region holds them.
        """


@dataclass(frozen=True, slots=True, init=False)
class Priority:
    """The first target that claims a node gets it, as in ONNX Runtime.

    Of the composites of one target that share nodes, the largest wins, then the first. A region that
    loses nodes to another target falls into as few parts as keep the quotient graph acyclic.

    Parameters
    ----------
    order
        The targets, the most preferred first; targets that are not named come last, in the order of
        their first region.
    """

    order: tuple[str, ...]

    def __init__(self, order: Sequence[str]) -> None:
        object.__setattr__(self, "order", (order,) if isinstance(order, str) else tuple(order))

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[int] = ()) -> Resolution:  # noqa: ARG002
        """See `Policy`. O(n log n) in the nodes and edges, for each composite that has to be dropped."""
        rank = {target: place for place, target in enumerate(dict.fromkeys((*self.order, *regions.targets)))}
        members = sorted(regions.members.values(), key=lambda member: (rank[member.target], member.sort_key))
        dropped: set[tuple[str, Unit]] = set()
        while True:
            atoms, colours = _assigned(regions.dataflow, members, dropped)
            result = regroup(regions.dataflow, atoms, colours, dict.fromkeys(colours, ColourLimits()))
            if not result.left_out:
                return Resolution(result.regions)
            dropped |= {(member.target, member.units[0]) for member in result.left_out}


def _assigned(
    graph: DataflowGraph, members: Sequence[Members], dropped: set[tuple[str, Unit]]
) -> tuple[list[Members], list[int]]:
    """The units that win, as regions, and for each the number of the region that it came from."""
    owner: dict[int, int] = {}
    composites: list[tuple[Unit, int]] = []
    for index, member in enumerate(members):
        for unit in units_of(member):
            if (member.target, unit) in dropped or not owner.keys().isdisjoint(unit.nodes):
                continue
            owner.update(dict.fromkeys(unit.nodes, index))
            if unit.name:
                composites.append((unit, index))
    _drop_orphans(graph, members, owner)
    follow_the_data(graph, members, owner, {index: member.target for index, member in enumerate(members)})
    covered = {node for unit, _index in composites for node in unit.nodes}
    atoms = [Members(members[index].target, unit.nodes, (unit,)) for unit, index in composites]
    colours = [index for _unit, index in composites]
    for node, index in sorted(owner.items()):
        if node not in covered:
            atoms.append(Members(members[index].target, (node,)))
            colours.append(index)
    return atoms, colours


def _drop_orphans(graph: DataflowGraph, members: Sequence[Members], owner: dict[int, int]) -> None:
    """Take what moves no data out of regions that lost all that it stood beside."""
    inside = [set(member.nodes) for member in members]
    for node, index in list(owner.items()):
        if graph.nodes[node].kind is not NodeKind.STRUCTURE:
            continue
        around = [edge.producer for edge in graph.into[node]] + [edge.consumer for edge in graph.out_of[node]]
        beside = [other for other in around if other in inside[index]]
        if beside and all(owner.get(other) != index for other in beside):
            del owner[node]
