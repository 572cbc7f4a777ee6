"""Converts annotated functions to plain dataflow graphs with regions, and back."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax

from annotated_region.annotations import BEGIN, END
from annotated_region.collector import paused_collector
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.dataflow.unannotated import without_annotations
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.ids import RegionId
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.normal_form import in_canonical_order, regions_from_reading
from annotated_region.regions.reading import read_regions
from annotated_region.regions.writing import strip_annotations, write_annotations

__all__ = ["read_annotated", "write_annotated"]


@paused_collector()
def read_annotated(
    func: relax.Function, name: str | None = None, begin: str = BEGIN, end: str = END
) -> tuple[DataflowGraph, dict[RegionId, NodeRegion]]:
    """The dataflow graph of `func` without its annotations, and the regions that they describe.

    Parameters
    ----------
    func
        The function.
    name
        Its name, for messages; by default its ``global_symbol``.
    begin, end
        The names of the annotation ops.

    Raises
    ------
    MalformedAnnotationError
        The annotations do not describe regions. The message names function, target and edge.

    Notes
    -----
    Linear in the edges of the function plus the sizes of its regions.
    """
    graph = read_dataflow(func, name, begin, end)
    if not graph.is_annotated:
        return graph, {}
    node_regions = regions_from_reading(read_regions(graph))
    return without_annotations(graph, strip_annotations(graph)), node_regions


def write_annotated(graph: DataflowGraph, node_regions: Mapping[RegionId, NodeRegion]) -> relax.Function:
    """The function of an unannotated graph with the regions written into it as annotations.

    Linear in the edges, each times the number of regions and composites around its ends.
    """
    return write_annotations(graph, in_canonical_order(node_regions.values()))
