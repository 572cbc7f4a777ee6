"""Joins regions into fewer, larger ones, scope by scope, with the grouping engine.

The input regions become the atoms of a grouping problem; overlapping regions of one colour (a composite and
the ops it covers, two composites that share an op) form one atom. If contracting these atoms closes a cycle,
composites are left out, largest first, until it does not; the caller decides what to do with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import RegionCycleError
from annotated_region.graphs import CycleError, Dag
from annotated_region.grouping import ColourLimits, Grouping, group
from annotated_region.ids import Colour, MemberIndex, NodeId, ScopeId, Vertex, numbered
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion

__all__ = ["Regrouped", "regroup"]


@dataclass(slots=True)
class Regrouped:
    """The result of regrouping.

    Attributes
    ----------
    regions
        The joined regions.
    left_out
        Composites that were left out because they would close a cycle.
    given_back
        Regions for which the limits left no room, each with the reason that the predicate gave, or None if
        the colour already has its maximum number of groups.
    groupings
        For each scope with regions: its nodes, its graph and its groups, in local numbers.
    """

    regions: list[NodeRegion] = field(default_factory=list)
    left_out: list[NodeRegion] = field(default_factory=list)
    given_back: list[tuple[NodeRegion, str | None]] = field(default_factory=list)
    groupings: list[tuple[list[NodeId], Dag, Grouping]] = field(default_factory=list)


def regroup(
    graph: DataflowGraph,
    members: Sequence[NodeRegion],
    colours: Sequence[Colour],
    limits: Mapping[Colour, ColourLimits],
) -> Regrouped:
    """Join regions of one colour as far as validity and the limits allow.

    Parameters
    ----------
    graph
        The function.
    members
        The regions.
    colours
        The colour of each region; regions of different colours do not overlap, and are never joined.
    limits
        The limits of each colour; the predicates take node numbers.

    Raises
    ------
    RegionCycleError
        Plain input regions already depend on each other in a cycle.
    """
    result = Regrouped()
    by_scope: dict[ScopeId, list[MemberIndex]] = {}
    for index, member in numbered(MemberIndex, members):
        by_scope.setdefault(graph.nodes[member.nodes[0]].scope, []).append(index)
    for scope, indices in by_scope.items():
        nodes = graph.scopes[scope].nodes
        _Scope(graph, nodes, [members[i] for i in indices], [colours[i] for i in indices]).solve(
            limits, result
        )
    return result


class _Scope:
    """The grouping problem of one scope."""

    def __init__(
        self, graph: DataflowGraph, nodes: Sequence[NodeId], members: list[NodeRegion], colours: list[Colour]
    ) -> None:
        self.graph = graph
        self.nodes = list(nodes)
        self.local = {node: vertex for vertex, node in numbered(Vertex, nodes)}
        self.members = members
        self.colours = colours
        self.dag = graph.dag.induced(nodes)

    def solve(self, limits: Mapping[Colour, ColourLimits], result: Regrouped) -> None:
        taking_part = dict.fromkeys(map(MemberIndex, range(len(self.members))))
        local_limits: dict[int, ColourLimits] = {
            colour: self.localised(limit) for colour, limit in limits.items()
        }
        while True:
            atoms = list(self.atoms(taking_part))
            colour_of: list[Colour | None] = [None] * len(self.nodes)
            for atom in atoms:
                for index in atom:
                    for node in self.members[index].nodes:
                        colour_of[self.local[node]] = self.colours[index]
            fixed = [self.vertices(atom) for atom in atoms]
            try:
                grouping = group(self.dag, colour_of, limits=local_limits, fixed=fixed)
                break
            except CycleError as error:
                self.leave_out(error, atoms, taking_part)
        self.collect(grouping, taking_part, result)

    def localised(self, limits: ColourLimits) -> ColourLimits:
        """The limits with a predicate that takes local numbers."""
        accept = limits.accept
        if accept is None:
            return limits
        return ColourLimits(
            limits.connected,
            limits.max_weight,
            limits.max_groups,
            lambda vertices: accept([self.nodes[vertex] for vertex in vertices]),
        )

    def vertices(self, atom: Sequence[MemberIndex]) -> list[Vertex]:
        return sorted({self.local[node] for index in atom for node in self.members[index].nodes})

    def atoms(self, taking_part: Mapping[MemberIndex, None]) -> Iterator[list[MemberIndex]]:
        """The participating regions; overlapping ones, which have the same colour, form one atom
        (union-find).
        """
        holder: dict[NodeId, MemberIndex] = {}
        parent = {index: index for index in taking_part}

        def root(index: MemberIndex) -> MemberIndex:
            while parent[index] != index:
                parent[index] = parent[parent[index]]
                index = parent[index]
            return index

        for index in taking_part:
            for node in self.members[index].nodes:
                parent[root(index)] = root(holder.setdefault(node, index))
        atoms: dict[MemberIndex, list[MemberIndex]] = {}
        for index in taking_part:
            atoms.setdefault(root(index), []).append(index)
        yield from atoms.values()

    def leave_out(
        self, error: CycleError, atoms: list[list[MemberIndex]], taking_part: dict[MemberIndex, None]
    ) -> None:
        """Leave out the largest composite among the atoms on a cycle; only composites are dispensable."""
        on_cycle = {vertex for block in error.cycle for vertex in block}
        candidates = [
            index
            for atom in atoms
            if len(self.vertices(atom)) > 1 and not on_cycle.isdisjoint(self.vertices(atom))
            for index in atom
            if self.members[index].is_composite and len(self.members[index].nodes) > 1
        ]
        if not candidates:
            names = ", ".join(
                repr(self.graph.nodes[self.nodes[vertex]].var.name) for vertex in sorted(on_cycle)
            )
            raise RegionCycleError(
                f"{self.graph.name}: the annotated regions over {names} depend on each other; "
                "split one of them"
            )
        del taking_part[max(candidates, key=lambda index: (len(self.members[index].nodes), index))]

    def collect(self, grouping: Grouping, taking_part: Mapping[MemberIndex, None], result: Regrouped) -> None:
        gathered: dict[int, list[NodeRegion]] = {}
        for index, member in numbered(MemberIndex, self.members):
            if index not in taking_part:
                result.left_out.append(member)
                continue
            vertex = self.local[member.nodes[0]]
            place = grouping.group_of[vertex]
            if place is None:
                result.given_back.append((member, grouping.left_over[vertex]))
            else:
                gathered.setdefault(place, []).append(member)
        result.regions += [_joined(parts) for _place, parts in sorted(gathered.items())]
        result.groupings.append((self.nodes, self.dag, grouping))


def _joined(parts: Sequence[NodeRegion]) -> NodeRegion:
    """The union of all parts; ops claimed alone beside a composite that covers them are marked as such."""
    if len(parts) == 1:
        return parts[0]
    composites = {unit for part in parts for unit in part.units}
    covered = {node for unit in composites for node in unit.nodes}
    alone = {
        ClaimedUnit(part.nodes, None)
        for part in parts
        if not part.units and not covered.isdisjoint(part.nodes)
    }
    nodes = tuple(sorted({node for part in parts for node in part.nodes}))
    return NodeRegion(parts[0].target, nodes, tuple(sorted(composites | alone)), parts[0].label)
