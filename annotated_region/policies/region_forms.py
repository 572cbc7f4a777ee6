"""Splits regions into the forms that their targets accept: connected parts, or single units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.dataflow.pieces import pieces
from annotated_region.regions.claims import in_units
from annotated_region.regions.node_region import NodeRegion
from annotated_region.targets.backend import backend_of

__all__ = ["in_accepted_form"]


def in_accepted_form(graph: DataflowGraph, members: Iterable[NodeRegion]) -> Iterator[NodeRegion]:
    """The regions, split where their targets do not accept them whole (`Backend.regions`).

    Splitting creates no new cycle: connected parts exchange no values, and a composite whose only exit is its
    last node cannot depend on a node that depends on it.

    Raises
    ------
    UnknownTargetError
        The target of a region is not registered.
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
