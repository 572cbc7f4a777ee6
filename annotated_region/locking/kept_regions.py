"""Keeps regions whole in a changed graph, as far as the quotient stays acyclic.

A part is a region of a lock, or a new unit. Contracting the parts may close cycles:

    a1 -> x -> a2        a1 and a2 were one region A, x is new
                         x on A's target:  x joins A
                         x elsewhere:      A is split, before and after x

Cycles are resolved one at a time. Each step leaves fewer or smaller parts, so this terminates; if it takes
too many steps, as for an adversarial lock, every part is split into its units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.graphs import Contraction, contract, find_cycle, reached
from annotated_region.ids import MemberIndex, NodeId, numbered
from annotated_region.regions.claims import follow_the_data
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion

__all__ = ["KeptPart", "kept_acyclic", "regions_of_parts"]

_MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class KeptPart:
    """Units of one target that stay together; `region` is their id in the lock, None for new units."""

    target: str
    units: tuple[ClaimedUnit, ...]
    region: int | None

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """The nodes of all units, in program order."""
        return tuple(sorted(node for unit in self.units for node in unit.nodes))


def regions_of_parts(
    graph: DataflowGraph, offered: Sequence[NodeRegion], parts: Sequence[KeptPart]
) -> list[NodeRegion]:
    """The parts as regions, with structure nodes added to the regions of their data. O(nodes + edges)."""
    owner = {node: index for index, part in numbered(MemberIndex, parts) for node in part.nodes}
    targets = {index: part.target for index, part in numbered(MemberIndex, parts)}
    follow_the_data(graph, offered, owner, targets)
    held: dict[MemberIndex, list[NodeId]] = {}
    for node, index in sorted(owner.items()):
        held.setdefault(index, []).append(node)
    return [
        NodeRegion(targets[index], tuple(nodes), _composites(parts[index].units))
        for index, nodes in held.items()
    ]


def _composites(units: Iterable[ClaimedUnit]) -> tuple[ClaimedUnit, ...]:
    return tuple(sorted(unit for unit in units if unit.is_composite))


def kept_acyclic(
    graph: DataflowGraph, offered: Sequence[NodeRegion], parts: Sequence[KeptPart]
) -> list[KeptPart]:
    """The parts, joined or split so that their quotient graph is acyclic.

    Parameters
    ----------
    graph
        The function.
    offered
        The claims of the targets.
    parts
        Disjoint parts; the quotient by their units must be acyclic.

    Notes
    -----
    O(nodes + edges) for each resolved cycle.
    """
    left = list(parts)
    for _step in range(_MOST_STEPS):
        members = [member.nodes for member in regions_of_parts(graph, offered, left)]
        contraction = contract(graph.dag, members)
        cycle = find_cycle(contraction.quotient.successors)
        if not cycle:
            return left
        left = _without_cycle(graph, contraction, cycle, left)
    return [KeptPart(part.target, (unit,), part.region) for part in left for unit in part.units]


def _without_cycle(
    graph: DataflowGraph, contraction: Contraction, cycle: Sequence[int], parts: Sequence[KeptPart]
) -> list[KeptPart]:
    """The parts with one cycle resolved: its parts are joined, or one is split with the smallest loss."""
    part_at = {contraction.block_of[part.units[0].nodes[0]]: part for part in parts}
    on_cycle = [part_at.get(block) for block in cycle]
    involved = [part for part in on_cycle if part is not None]
    rest = [part for part in parts if part not in involved]
    if len(involved) == len(cycle) and len({part.target for part in involved}) == 1:
        return [*rest, _joined(involved)]
    choices = [
        (part, _split(graph, contraction, cycle, place, part))
        for place, part in enumerate(on_cycle)
        if part is not None and len(part.units) > 1
    ]
    chosen, halves = min(choices, key=lambda choice: _lost(choice[1]))
    return [*(part for part in parts if part is not chosen), *halves]


def _lost(halves: Sequence[KeptPart]) -> int:
    """The number of nodes that get another region by a split: all but those of the largest piece."""
    sizes = [len(half.nodes) for half in halves]
    return sum(sizes) - max(sizes)


def _joined(parts: Sequence[KeptPart]) -> KeptPart:
    """One part, with the id of the largest that has one."""
    units = tuple(sorted(unit for part in parts for unit in part.units))
    known = [part for part in parts if part.region is not None]
    region = max(known, key=lambda part: len(part.nodes)).region if known else None
    return KeptPart(parts[0].target, units, region)


def _split(
    graph: DataflowGraph, contraction: Contraction, cycle: Sequence[int], place: int, part: KeptPart
) -> list[KeptPart]:
    """A part split in two, so that the smaller half holds only what the cycle requires.

    It is either all units that depend on the next block of the cycle, or all that the previous block depends
    on. Units that are unordered with both stay in the larger half.
    """
    blocks = contraction.blocks
    others = [block for number, block in enumerate(blocks) if number != cycle[place]]
    behind = blocks[cycle[(place + 1) % len(cycle)]][0]
    before = blocks[cycle[place - 1]][0]
    quotient, _blocks, block_of = contract(graph.dag, [*others, *(unit.nodes for unit in part.units)])
    needing = reached([block_of[behind]], quotient.successors.__getitem__)
    needed = reached([block_of[before]], quotient.predecessors.__getitem__)
    late = [unit for unit in part.units if block_of[unit.nodes[0]] in needing]
    early = [unit for unit in part.units if block_of[unit.nodes[0]] in needed]
    proper = [half for half in (late, early) if 0 < len(half) < len(part.units)]
    if not proper:
        return [KeptPart(part.target, (unit,), part.region) for unit in part.units]
    apart = min(proper, key=lambda half: sum(len(unit.nodes) for unit in half))
    inside = set(apart)
    rest = tuple(unit for unit in part.units if unit not in inside)
    return [KeptPart(part.target, half, part.region) for half in (rest, tuple(apart))]
