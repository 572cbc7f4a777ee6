"""Splits and drops placed regions until all satisfy the limits of their backends.

A region that exceeds a limit, or that its backend rejects, is split along a topological order of its units,
each time after the longest accepted prefix, so its target keeps as much as possible. Units that are rejected
even alone are given back, and so are the smallest regions of a target with too many; other targets may claim
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from annotated_region.cutting import cut
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.dataflow.unit_order import in_order
from annotated_region.ids import Colour, MemberIndex, NodeId, numbered
from annotated_region.notes import DissolveNote, DissolveReason
from annotated_region.policies.region_forms import in_accepted_form
from annotated_region.policies.region_limits import RegionLimits, joining_limits
from annotated_region.regions.claims import follow_the_data, in_units, without
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.regrouping import regroup
from annotated_region.targets.backend import backend_of

__all__ = ["GivenBack", "KeptRegions", "within_backend_limits", "without_given_back"]


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A region, or a unit of one, that its target gives back, and why."""

    member: NodeRegion
    note: DissolveNote

    @property
    def is_composite(self) -> bool:
        """Whether only the composite is rejected; its ops may still be accepted individually."""
        return self.note.reason is DissolveReason.REFUSED and bool(self.member.composites)


def without_given_back(offered: Iterable[NodeRegion], back: Sequence[GivenBack]) -> list[NodeRegion]:
    """The offered regions without what their targets gave back."""
    nodes: dict[str, set[NodeId]] = {}
    composites: dict[str, set[ClaimedUnit]] = {}
    for each in back:
        lost = set(each.member.nodes)
        if each.is_composite:
            composites.setdefault(each.member.target, set()).update(each.member.composites)
            lost.difference_update(*(unit.nodes for unit in each.member.composites))
        nodes.setdefault(each.member.target, set()).update(lost)
    kept = (
        without(member, nodes.get(member.target, ()), composites.get(member.target, ())) for member in offered
    )
    return [member for member in kept if member is not None]


@dataclass(slots=True)
class KeptRegions:
    """The result of enforcing the limits.

    Attributes
    ----------
    regions
        Regions that satisfy the limits of their backends.
    given_back
        Regions and units that were given back. For a rejected composite, the target may still have the ops
        that it claims alone.
    """

    regions: list[NodeRegion] = field(default_factory=list)
    given_back: list[GivenBack] = field(default_factory=list)


def within_backend_limits(
    graph: DataflowGraph, asked: RegionLimits, members: Sequence[NodeRegion], pinned: Collection[NodeId]
) -> KeptRegions:
    """Split and drop disjoint regions until they satisfy the limits of their backends.

    Parameters
    ----------
    graph
        The function.
    asked
        Evaluates the limits of backends.
    members
        Disjoint regions with an acyclic quotient, in forms that their backends accept; the result has these
        properties, too.
    pinned
        Nodes whose regions are dropped last if a target has too many.

    Raises
    ------
    RuleError
        The predicate of a backend raised.
    """
    kept = KeptRegions()
    for member in members:
        if asked.refusal(member) is not None:
            _cut_down(graph, asked, member, kept)
        else:
            kept.regions.append(member)
    if any(backend_of(target).max_regions is not None for target in {m.target for m in members}):
        kept.regions = _joined(graph, asked, kept.regions)
        _drop_smallest(graph, kept, pinned)
    return kept


def _cut_down(graph: DataflowGraph, asked: RegionLimits, member: NodeRegion, kept: KeptRegions) -> None:
    """Keep the largest accepted parts of a region, and give back the rejected units."""
    unit_of = {_computing(graph, unit): unit for unit in in_units(graph, member)}
    covered = {node for block in unit_of for node in block}
    # Structural nodes are ordered, too, because units may depend on each other through them.
    others = [(node,) for node in member.nodes if node not in covered]
    blocks = [block for block in in_order(graph, [*unit_of, *others]) if block in unit_of]

    def pieces(units: Sequence[tuple[NodeId, ...]]) -> Iterator[NodeRegion]:
        composites = [composite for unit in units for composite in unit_of[unit].composites]
        part = _part(graph, member, [node for unit in units for node in unit])
        whole = NodeRegion(member.target, part, tuple(sorted(composites)))
        yield from in_accepted_form(graph, [whole])

    found = cut(blocks, lambda units: all(asked.refusal(piece) is None for piece in pieces(units)))
    kept.regions += [piece for part in found.parts for piece in pieces(part)]
    for unit in found.refused:
        refused = unit_of[unit]
        note = _note(graph, refused, DissolveReason.REFUSED, answer=asked.refusal(refused))
        kept.given_back.append(GivenBack(refused, note))


def _computing(graph: DataflowGraph, unit: NodeRegion) -> tuple[NodeId, ...]:
    """The nodes of a composite, or the single computing node of another unit."""
    if unit.units:
        return unit.units[0].nodes
    return tuple(node for node in unit.nodes if graph.nodes[node].kind is not NodeKind.STRUCTURE)


def _part(graph: DataflowGraph, member: NodeRegion, nodes: Sequence[NodeId]) -> tuple[NodeId, ...]:
    """Some nodes of a region, with the structural nodes that follow them."""
    owner = dict.fromkeys(nodes, MemberIndex(0))
    follow_the_data(graph, [member], owner, {MemberIndex(0): member.target})
    return tuple(sorted(owner))


def _joined(graph: DataflowGraph, asked: RegionLimits, members: Sequence[NodeRegion]) -> list[NodeRegion]:
    """The regions joined as merging will join them, so that only the joined ones are counted."""
    colour_of = {
        target: colour for colour, target in numbered(Colour, dict.fromkeys(each.target for each in members))
    }
    limits = {colour: joining_limits(asked, target) for target, colour in colour_of.items()}
    merged = regroup(graph, members, [colour_of[member.target] for member in members], limits)
    return [*merged.regions, *merged.left_out, *(member for member, _why in merged.given_back)]


def _drop_smallest(graph: DataflowGraph, kept: KeptRegions, pinned: Collection[NodeId]) -> None:
    """Give back the smallest regions of targets with too many."""

    def worth(member: NodeRegion) -> tuple[bool, int]:
        ops = sum(graph.nodes[node].kind is NodeKind.OPERATION for node in member.nodes)
        return any(node in pinned for node in member.nodes), ops

    count: dict[str, int] = {}
    staying: set[tuple[object, ...]] = set()
    for member in sorted(kept.regions, key=worth, reverse=True):
        most = backend_of(member.target).max_regions
        if most is None or count.get(member.target, 0) < most:
            count[member.target] = count.get(member.target, 0) + 1
            staying.add(member.sort_key)
            continue
        note = _note(graph, member, DissolveReason.MANY_REGIONS, limit=most)
        kept.given_back.append(GivenBack(member, note))
    kept.regions = [member for member in kept.regions if member.sort_key in staying]


def _note(
    graph: DataflowGraph,
    member: NodeRegion,
    reason: DissolveReason,
    *,
    limit: float = 0.0,
    answer: str | None = None,
) -> DissolveNote:
    nodes = tuple(graph.nodes[node].var for node in member.nodes)
    return DissolveNote(member.target, nodes, reason, limit, answer)
