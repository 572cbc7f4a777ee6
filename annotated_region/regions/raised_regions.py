"""Maps region sets between a function with lowered calls and the same function with the calls raised."""

from __future__ import annotations

from collections.abc import Collection

from tvm import relax

from annotated_region.ids import NodeId
from annotated_region.op_info.raising import LoweredCalls
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["with_calls_lowered", "with_calls_raised"]


def with_calls_raised(regions: AnnotatedRegionSet, calls: LoweredCalls) -> AnnotatedRegionSet:
    """The same regions with all `calls` raised; a region with a lowered call gets all ops that replace it.

    Linear in the function and the regions, as is `with_calls_lowered`.
    """
    raised = _without_regions(regions, calls.raised())

    def places(var: relax.Var) -> list[NodeId]:
        vars_ = [binding.var for binding in calls.bindings[var]] if var in calls.bindings else [var]
        return [number for each in vars_ if (number := raised.dataflow.number_of(each)) is not None]

    new_places = [places(node.var) for node in regions.dataflow.nodes]
    return raised.replaced_by(member.expanded(new_places) for member in regions.node_regions.values())


def with_calls_lowered(
    regions: AnnotatedRegionSet, calls: LoweredCalls, raised: Collection[relax.Var]
) -> AnnotatedRegionSet:
    """The same regions with all `calls` lowered again, except those of the `raised` variables.

    No region may contain an op of a call that is lowered.
    """
    lowered = _without_regions(regions, calls.raised(raised))
    numbers = [lowered.dataflow.number_of(node.var) for node in regions.dataflow.nodes]
    return lowered.replaced_by(member.renumbered(numbers) for member in regions.node_regions.values())


def _without_regions(regions: AnnotatedRegionSet, func: relax.Function) -> AnnotatedRegionSet:
    graph = regions.dataflow
    return AnnotatedRegionSet(func, graph.name, begin=graph.begin, end=graph.end)
