"""Cuts regions into what their targets accept as one region: connected parts, or single units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.dataflow.pieces import pieces
from annotated_region.regions.claims import in_units
from annotated_region.regions.node_region import NodeRegion
from annotated_region.targets.backend import backend_of

__all__ = ["in_accepted_form"]


def in_accepted_form(graph: DataflowGraph, members: Iterable[NodeRegion]) -> Iterator[NodeRegion]:
    """The regions, cut where their targets do not accept them whole (`Backend.regions`).

    A cut closes no cycle that regions and composites did not hold before: connected parts exchange no value,
    and a composite that only its last node leaves needs no result of what needs its own.

    Raises
    ------
    UnknownTargetError
        A region is one of a target that is not registered.
    """
    for member in members:
        match backend_of(member.target).regions:
            case "any":
                yield member
            case "connected":
                yield from _connected(graph, member)
            case "one composite":
                yield from in_units(graph, member)


def _connected(graph: DataflowGraph, member: NodeRegion) -> Iterator[NodeRegion]:
    parts = [tuple(sorted(part)) for part in pieces(graph, member.nodes)]
    if len(parts) == 1:
        yield member
        return
    for part in parts:
        inside = set(part)
        units = tuple(unit for unit in member.units if unit.nodes[0] in inside)
        yield NodeRegion(member.target, part, units)
