"""Cuts and drops placed regions until every backend takes what it gets.

A region that is too large, or that its backend does not accept, is cut along a topological order of its
units, each time behind the longest beginning that is accepted, so its target keeps what it can. What it
refuses even alone, and the smallest regions where there are too many, are given back; others may have them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.dataflow.unit_order import in_order
from annotated_region.ids import Colour, MemberIndex, NodeId, numbered
from annotated_region.notes import DissolveNote, DissolveReason
from annotated_region.placement.cutting import cut
from annotated_region.policies.region_forms import in_accepted_form
from annotated_region.policies.region_limits import RegionLimits, joining_limits
from annotated_region.regions.claims import follow_the_data, in_units, without
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.regrouping import regroup
from annotated_region.targets.backend import backend_of

__all__ = ["GivenBack", "KeptRegions", "within_backend_limits", "without_given_back"]


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A region, or a unit of one, that its target does not take, and why."""

    member: NodeRegion
    note: DissolveNote

    @property
    def is_composite(self) -> bool:
        """Whether it is a composite that is refused as such: its ops may be accepted."""
        return self.note.reason is DissolveReason.REFUSED and bool(self.member.composites)


def without_given_back(offered: Iterable[NodeRegion], back: Sequence[GivenBack]) -> list[NodeRegion]:
    """The offers of targets without what these gave back."""
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
    """What is left of placed regions.

    Attributes
    ----------
    regions
        Regions that their backends take.
    given_back
        What they do not take. Of a composite that is refused, the target may still have those ops that it
        claims alone.
    """

    regions: list[NodeRegion] = field(default_factory=list)
    given_back: list[GivenBack] = field(default_factory=list)


def within_backend_limits(
    graph: DataflowGraph, asked: RegionLimits, members: Sequence[NodeRegion], pinned: Collection[NodeId]
) -> KeptRegions:
    """Disjoint regions, cut and dropped until their backends take them.

    Parameters
    ----------
    graph
        The function.
    asked
        Asks the backends.
    members
        Disjoint regions with an acyclic quotient, in the forms that their backends take; that stays so.
    pinned
        Nodes whose regions are the last to go where there are too many.

    Raises
    ------
    RuleError
        What a backend says of regions failed.
    """
    kept = KeptRegions()
    for member in members:
        refusal = asked.refusal(member)
        if refusal:
            _cut_down(graph, asked, member, kept)
        else:
            kept.regions.append(member)
    if any(backend_of(target).max_regions is not None for target in {m.target for m in members}):
        kept.regions = _joined(graph, asked, kept.regions)
        _drop_smallest(graph, kept, pinned)
    return kept


def _cut_down(graph: DataflowGraph, asked: RegionLimits, member: NodeRegion, kept: KeptRegions) -> None:
    """Keep the largest parts of a region that its backend takes, give back the units that it does not."""
    unit_of = {_computing(graph, unit): unit for unit in in_units(graph, member)}
    covered = {node for block in unit_of for node in block}
    # What moves no data takes part, because units may depend on each other through it.
    others = [(node,) for node in member.nodes if node not in covered]
    blocks = [block for block in in_order(graph, [*unit_of, *others]) if block in unit_of]

    def pieces(units: Sequence[tuple[NodeId, ...]]) -> Iterator[NodeRegion]:
        composites = [composite for unit in units for composite in unit_of[unit].composites]
        part = _part(graph, member, [node for unit in units for node in unit])
        whole = NodeRegion(member.target, part, tuple(sorted(composites)))
        yield from in_accepted_form(graph, [whole])

    found = cut(blocks, lambda units: not any(map(asked.refusal, pieces(units))))
    kept.regions += [piece for part in found.parts for piece in pieces(part)]
    for unit in found.refused:
        refused = unit_of[unit]
        note = _note(graph, refused, DissolveReason.REFUSED, answer=asked.refusal(refused))
        kept.given_back.append(GivenBack(refused, note))


def _computing(graph: DataflowGraph, unit: NodeRegion) -> tuple[NodeId, ...]:
    """The nodes of a composite, or the one node of another unit that computes."""
    if unit.units:
        return unit.units[0].nodes
    return tuple(node for node in unit.nodes if graph.nodes[node].kind is not NodeKind.STRUCTURE)


def _part(graph: DataflowGraph, member: NodeRegion, nodes: Sequence[NodeId]) -> tuple[NodeId, ...]:
    """Some nodes of a region with what moves no data and belongs to them."""
    owner = dict.fromkeys(nodes, MemberIndex(0))
    follow_the_data(graph, [member], owner, {MemberIndex(0): member.target})
    return tuple(sorted(owner))


def _joined(graph: DataflowGraph, asked: RegionLimits, members: Sequence[NodeRegion]) -> list[NodeRegion]:
    """The regions, joined as merging will join them, so that they are not too many before that."""
    colour_of = {
        target: colour for colour, target in numbered(Colour, dict.fromkeys(each.target for each in members))
    }
    limits = {colour: joining_limits(asked, target) for target, colour in colour_of.items()}
    merged = regroup(graph, members, [colour_of[member.target] for member in members], limits)
    return [*merged.regions, *merged.left_out, *(member for member, _why in merged.given_back)]


def _drop_smallest(graph: DataflowGraph, kept: KeptRegions, pinned: Collection[NodeId]) -> None:
    """Give back the smallest regions of targets that have too many."""

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
    graph: DataflowGraph, member: NodeRegion, reason: DissolveReason, *, limit: float = 0.0, answer: str = ""
) -> DissolveNote:
    nodes = tuple(graph.nodes[node].var for node in member.nodes)
    return DissolveNote(member.target, nodes, reason, limit, answer)
