"""Holds the placement of least cost against the obvious ones, by what whole regions take when they run.

Costs of units add up only roughly: inside a large region a library keeps its own layouts and memory from
unit to unit, and none of that shows when units are timed one by one. A model that can time whole regions
is therefore asked about a few complete placements before one is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from annotated_region.costs.model import HOST, ConfirmingCostModel, CostUnit
from annotated_region.dataflow import NodeKind
from annotated_region.members import Members
from annotated_region.policies import Priority, Resolution
from annotated_region.region_set import AnnotatedRegionSet

__all__ = ["confirmed"]


def confirmed(
    regions: AnnotatedRegionSet, found: Resolution, model: ConfirmingCostModel, pinned: Collection[int]
) -> Resolution:
    """The fastest of the placement that was found, `Priority` with each target first, and each target alone.

    Parameters
    ----------
    regions
        What the targets offer.
    found
        The placement that the costs of single units lead to; it is taken unless another one is faster.
    model
        Times whole regions.
    pinned
        Nodes that may not go to the host; a target alone is no candidate then.

    Returns
    -------
    A resolution whose details say under ``"measured"`` what each candidate takes in seconds, and which
    was taken.
    """
    candidates = {"least cost": found, **dict(_obvious(regions, pinned))}
    seconds = {name: _seconds(regions, each.regions, model) for name, each in candidates.items()}
    taken = min(seconds, key=seconds.__getitem__)
    details = {**found.details, "measured": {"taken": taken, "seconds": seconds}}
    return replace(candidates[taken], details=details)


def _obvious(regions: AnnotatedRegionSet, pinned: Collection[int]) -> Iterator[tuple[str, Resolution]]:
    for target in regions.targets:
        yield f"{target} first", Priority([target]).resolve(regions, pinned)
        if not pinned and len(regions.targets) > 1:
            own = [member for member in regions.members.values() if member.target == target]
            yield f"{target} alone", Priority([target]).resolve(regions.replaced_by(own), pinned)


def _seconds(regions: AnnotatedRegionSet, placed: Collection[Members], model: ConfirmingCostModel) -> float:
    """What a placement takes: its regions as wholes, and the ops that stay on the host one by one."""
    graph = regions.dataflow
    held = {node for member in placed for node in member.nodes}
    left = (
        number
        for number, node in enumerate(graph.nodes)
        if node.kind is NodeKind.OPERATION and number not in held
    )
    host = sum(model.compute(HOST, CostUnit.of(graph, (number,))) for number in left)
    return host + sum(model.time_region(graph, member) for member in placed)
