"""Holds the placement of least cost against the obvious ones, by what whole regions take when they run.

Costs of units add up only roughly: inside a large region a library keeps its own layouts and memory from
unit to unit, and none of that shows when units are timed one by one. A model that can time whole regions
is therefore asked about a few complete placements before one is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from annotated_region.cost_units import CostUnit
from annotated_region.costs.model import HOST, ConfirmingCostModel
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.ids import NodeId
from annotated_region.policies.policy import Priority, Resolution
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["confirmed"]

# Differences below this share of a time are noise, and no reason for more regions.
_NOISE = 0.03


def confirmed(
    regions: AnnotatedRegionSet,
    found: Resolution,
    model: ConfirmingCostModel,
    pinned: Collection[NodeId],
    keeps: Callable[[Resolution], bool],
) -> Resolution:
    """The best of the placement that was found, `Priority` with each target first, and each target alone.

    Parameters
    ----------
    regions
        What the targets offer.
    found
        The placement that the costs of single units lead to.
    model
        Times whole regions.
    pinned
        Nodes that may not go to the host; a target alone is no candidate then.
    keeps
        Whether a placement keeps the limits of its targets; others are no candidates.

    Returns
    -------
    Of the placements that are as fast as the fastest one, up to what timing can tell apart, the one with
    the fewest regions, and of those the first in the order above. Its details say under ``"measured"``
    what each candidate takes in seconds, and which was taken.
    """
    obvious = {name: each for name, each in _obvious(regions, pinned) if keeps(each)}
    candidates = {"least cost": found, **obvious}
    seconds = _seconds(regions, {name: each.regions for name, each in candidates.items()}, model)
    near = (1 + _NOISE) * min(seconds.values())
    taken = min(
        (name for name in candidates if seconds[name] <= near), key=lambda name: len(candidates[name].regions)
    )
    details = {**found.details, "measured": {"taken": taken, "seconds": seconds}}
    return replace(candidates[taken], details=details)


def _obvious(regions: AnnotatedRegionSet, pinned: Collection[NodeId]) -> Iterator[tuple[str, Resolution]]:
    for target in regions.targets:
        yield f"{target} first", Priority([target]).resolve(regions, pinned)
        if not pinned and len(regions.targets) > 1:
            own = [member for member in regions.node_regions.values() if member.target == target]
            yield f"{target} alone", Priority([target]).resolve(regions.replaced_by(own), pinned)


def _seconds(
    regions: AnnotatedRegionSet, placements: Mapping[str, Collection[NodeRegion]], model: ConfirmingCostModel
) -> dict[str, float]:
    """What each placement takes: its regions as wholes, and the ops that stay on the host one by one."""
    graph = regions.dataflow
    distinct = {member.sort_key: member for placed in placements.values() for member in placed}
    times = dict(zip(distinct, model.time_regions(graph, list(distinct.values())), strict=True))
    return {
        name: math.fsum(
            (*_host_seconds(graph, placed, model), *(times[member.sort_key] for member in placed))
        )
        for name, placed in placements.items()
    }


def _host_seconds(
    graph: DataflowGraph, placed: Collection[NodeRegion], model: ConfirmingCostModel
) -> Iterator[float]:
    held = {node for member in placed for node in member.nodes}
    for number, node in graph.numbered():
        if node.kind is NodeKind.OPERATION and number not in held:
            yield model.compute(HOST, CostUnit.of(graph, (number,)))
