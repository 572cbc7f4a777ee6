"""Region sets as networkx graphs, with attributes for drawing and queries."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import networkx

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.functions.sizes import bytes_of, total_bytes
from annotated_region.ids import NodeId, RegionId
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.op_names import name_of_node

__all__ = ["quotient_network", "scope_network"]


def scope_network(
    graph: DataflowGraph, holders: Mapping[NodeId, Sequence[RegionId]], regions: Mapping[RegionId, NodeRegion]
) -> networkx.DiGraph:
    """The dataflow graph; vertices are variables. O(nodes + edges).

    Vertex attributes: ``op``, ``scope`` (number of the block), ``regions`` (ids), ``targets``.
    Edge attribute: ``bytes`` (None when the shape is symbolic). Edges of 0 bytes carry no value: they order
    effects, put a cast before the users of its shape variables, and put captured values before the `If` or
    local function that uses them.
    """
    network = networkx.DiGraph()
    for number, node in graph.numbered():
        ids = tuple(holders.get(number, ()))
        network.add_node(
            node.var,
            op=name_of_node(node),
            scope=node.scope,
            regions=ids,
            targets=tuple(dict.fromkeys(regions[region].target for region in ids)),
        )
    for before, after in graph.order_edges:
        network.add_edge(graph.nodes[before].var, graph.nodes[after].var, bytes=0)
    for producer, consumer in _value_edges(graph):
        source = graph.nodes[producer].var
        network.add_edge(source, graph.nodes[consumer].var, bytes=bytes_of(source.ty))
    return network


def quotient_network(
    graph: DataflowGraph, holders: Mapping[NodeId, Sequence[RegionId]], regions: Mapping[RegionId, NodeRegion]
) -> networkx.DiGraph:
    """The quotient graph; vertices are region ids, and the variables of host nodes. O(nodes + edges).

    Vertex attributes: ``target`` ("host" for host nodes), ``op`` (of host nodes), ``nodes``.
    Edge attributes: ``values`` (the distinct variables that cross) and ``bytes`` (their total size; None when
    a shape is symbolic). An edge without values only orders its ends, as in `scope_network`.
    """
    network = networkx.DiGraph()
    vertex: list[NodeId] = []
    labels: list[Hashable] = []
    for number, node in graph.numbered():
        region = next(iter(holders.get(number, ())), None)
        vertex.append(number if region is None else regions[region].nodes[0])
        labels.append(node.var if region is None else region)
        if region is None:
            network.add_node(node.var, target="host", op=name_of_node(node), nodes=(node.var,))
        elif vertex[number] == number:
            members = tuple(graph.nodes[member].var for member in regions[region].nodes)
            network.add_node(region, target=regions[region].target, nodes=members)
    crossing: dict[tuple[NodeId, NodeId], dict[NodeId, None]] = {}
    for producer, consumer in _value_edges(graph):
        crossing.setdefault((vertex[producer], vertex[consumer]), {})[producer] = None
    for before, after in graph.order_edges:
        crossing.setdefault((vertex[before], vertex[after]), {})
    for (source, sink), producers in crossing.items():
        if source != sink:
            values = tuple(graph.nodes[producer].var for producer in producers)
            size = total_bytes(bytes_of(value.ty) for value in values)
            network.add_edge(labels[source], labels[sink], values=values, bytes=size)
    return network


def _value_edges(graph: DataflowGraph) -> Iterator[tuple[NodeId, NodeId]]:
    for edges in graph.into:
        for edge in edges:
            if edge.producer >= 0:
                yield edge.producer, edge.consumer
