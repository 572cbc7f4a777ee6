"""How conflicts between targets are resolved: the policies, and what every policy answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from annotated_region.dataflow import DataflowGraph, NodeKind
from annotated_region.grouping import ColourLimits
from annotated_region.members import Members, Unit
from annotated_region.region_set import AnnotatedRegionSet
from annotated_region.regrouping import regroup

__all__ = ["Policy", "Priority", "Resolution", "units_of"]


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

    def resolve(self, regions: AnnotatedRegionSet) -> Resolution:
        """Choose a target, or the host, for each node that a region holds."""


def units_of(member: Members) -> Iterator[Unit]:
    """What the target of a region can run as one unit: its composites, largest first, then single nodes.

    A node inside a composite is a unit of its own only if its target claims it alone as well.
    """
    composites = [unit for unit in member.units if unit.name]
    yield from sorted(composites, key=lambda unit: (-len(unit.nodes), unit.nodes, unit.name))
    covered = {node for unit in composites for node in unit.nodes}
    alone = {node for unit in member.units if not unit.name for node in unit.nodes}
    for node in member.nodes:
        if node not in covered or node in alone:
            yield Unit((node,), "")


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

    def resolve(self, regions: AnnotatedRegionSet) -> Resolution:
        """See `Policy`. O(n log n) in the nodes and edges, for each composite that has to be dropped."""
        members = self._by_preference(regions)
        dropped: set[tuple[str, Unit]] = set()
        while True:
            atoms, colours = _assigned(regions.dataflow, members, dropped)
            result = regroup(regions.dataflow, atoms, colours, dict.fromkeys(colours, ColourLimits()))
            if not result.left_out:
                return Resolution(result.regions)
            dropped |= {(member.target, member.units[0]) for member in result.left_out}

    def _by_preference(self, regions: AnnotatedRegionSet) -> list[Members]:
        rank = {target: place for place, target in enumerate(dict.fromkeys((*self.order, *regions.targets)))}
        return sorted(regions.members.values(), key=lambda member: (rank[member.target], member.sort_key))


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
    covered = {node for unit, _index in composites for node in unit.nodes}
    _follow_the_data(graph, members, owner, covered)
    atoms = [Members(members[index].target, unit.nodes, (unit,)) for unit, index in composites]
    colours = [index for _unit, index in composites]
    for node, index in sorted(owner.items()):
        if node not in covered:
            atoms.append(Members(members[index].target, (node,)))
            colours.append(index)
    return atoms, colours


def _follow_the_data(
    graph: DataflowGraph, members: Sequence[Members], owner: dict[int, int], covered: set[int]
) -> None:
    """Let what moves no data go where its data goes: a field or name to its maker, a tuple to its users."""
    offers: dict[int, list[int]] = {}
    for index, member in enumerate(members):
        for node in member.nodes:
            if graph.nodes[node].kind is NodeKind.STRUCTURE and node not in covered:
                offers.setdefault(node, []).append(index)
    is_tuple = {node: len(graph.into[node]) != 1 or _is_tuple(graph, node) for node in offers}
    for node in sorted(offers):
        if not is_tuple[node]:
            _move(owner, node, offers[node], [graph.into[node][0].producer])
    for node in sorted(offers, reverse=True):
        if is_tuple[node]:
            _move(owner, node, offers[node], [edge.consumer for edge in graph.out_of[node]])


def _is_tuple(graph: DataflowGraph, node: int) -> bool:
    return type(graph.nodes[node].value).__name__ == "Tuple"


def _move(owner: dict[int, int], node: int, offers: Sequence[int], neighbours: Sequence[int]) -> None:
    places = {owner.get(neighbour) for neighbour in neighbours}
    place = places.pop() if len(places) == 1 else None
    if place is not None and place in offers:
        owner[node] = place
    else:
        owner.pop(node, None)
