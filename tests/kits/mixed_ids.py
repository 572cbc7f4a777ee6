"""Numbers of two meanings, mixed up: mypy must refuse each line, or it reports that an ignore is not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.ids import Colour, MemberIndex, NodeId, RegionId, ScopeId, UnitId, Vertex
from annotated_region.placement import Placement, PlacementProblem, PlacementUnit
from annotated_region.regions.claims import without
from annotated_region.regions.families import family_of
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.regrouping import regroup

__all__ = ["mix_up"]


def mix_up(
    graph: DataflowGraph,
    regions: Mapping[RegionId, NodeRegion],
    node: NodeId,
    scope: ScopeId,
    vertices: Sequence[Vertex],
    members: Sequence[MemberIndex],
    unit: UnitId,
    problem: PlacementProblem,
) -> None:
    """Never called."""
    region = next(iter(regions))
    graph.is_literal(region)  # type: ignore[arg-type]
    graph.producer_var(scope)  # type: ignore[arg-type]
    family_of(regions, node)  # type: ignore[arg-type]
    regions[node]  # type: ignore[index]
    without(regions[region], [region])  # type: ignore[list-item]
    ClaimedUnit(tuple(vertices), None)  # type: ignore[arg-type]
    colours: Sequence[Colour] = members  # type: ignore[assignment]
    regroup(graph, list(regions.values()), colours, {})
    PlacementUnit(unit, (0,), 1.0)  # type: ignore[arg-type]
    Placement.of(problem, problem.reads)  # type: ignore[arg-type]
