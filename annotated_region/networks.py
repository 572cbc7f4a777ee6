"""Region sets as networkx graphs, with the attributes that people draw and query."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import networkx
import tvm
from tvm import relax

from annotated_region.dataflow import DataflowGraph
from annotated_region.members import Members

__all__ = ["bytes_of", "op_name_of", "quotient_network", "scope_network"]


def bytes_of(ty: tvm.ir.Type) -> int | None:
    """The size of a value of this type in bytes; None if its shape is not known before it runs."""
    if isinstance(ty, relax.TupleType | tvm.ir.TupleType):
        sizes = [bytes_of(part) for part in ty.fields]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    if not isinstance(ty, relax.TensorType) or ty.shape is None or not hasattr(ty.shape, "values"):
        return None
    count = 1
    for extent in ty.shape.values:
        if not isinstance(extent, tvm.tirx.IntImm):
            return None
        count *= int(extent)
    return int(count * tvm.DataType(str(ty.dtype)).bits + 7) // 8


def op_name_of(value: relax.Expr) -> str:
    """What a binding computes, in one word: the name of its op, or the kind of its expression."""
    if isinstance(value, tvm.ir.Call):
        callee = value.op
        if isinstance(callee, tvm.ir.Op):
            if callee.name in ("relax.call_tir", "relax.call_tir_inplace", "relax.call_dps_packed"):
                called = value.args[0]
                return f"{callee.name}({getattr(called, 'name_hint', None) or called.global_symbol})"
            return str(callee.name)
        return str(getattr(callee, "name_hint", None) or getattr(callee, "name", None) or "call")
    return type(value).__name__


def scope_network(
    graph: DataflowGraph, holders: Mapping[int, Sequence[int]], regions: Mapping[int, Members]
) -> networkx.DiGraph:
    """The graph of the nodes; vertices are variables.

    Vertex attributes: ``op``, ``scope`` (number of the block), ``regions`` (ids), ``targets``.
    Edge attribute: ``bytes`` (None when the shape is symbolic).
    """
    network = networkx.DiGraph()
    for number, node in enumerate(graph.nodes):
        ids = tuple(holders.get(number, ()))
        network.add_node(
            node.var,
            op=op_name_of(node.value),
            scope=node.scope,
            regions=ids,
            targets=tuple(dict.fromkeys(regions[region].target for region in ids)),
        )
    for consumer, edges in enumerate(graph.into):
        for edge in edges:
            if edge.producer >= 0:
                source = graph.nodes[edge.producer].var
                network.add_edge(source, graph.nodes[consumer].var, bytes=bytes_of(source.ty))
    return network


def quotient_network(
    graph: DataflowGraph, holders: Mapping[int, Sequence[int]], regions: Mapping[int, Members]
) -> networkx.DiGraph:
    """The quotient graph; vertices are region ids, and variables for what no region holds.

    Vertex attributes: ``target`` ("host" for host nodes), ``op`` (of host nodes), ``nodes``.
    Edge attributes: ``values`` (the distinct variables that cross) and ``bytes`` (their size
    together; None when a shape is symbolic).
    """
    network = networkx.DiGraph()
    vertex: list[Hashable] = []
    for number, node in enumerate(graph.nodes):
        ids = holders.get(number, ())
        vertex.append(ids[0] if ids else node.var)
        if ids and ids[0] not in network:
            region = regions[ids[0]]
            members = tuple(graph.nodes[member].var for member in region.nodes)
            network.add_node(ids[0], target=region.target, nodes=members)
        elif not ids:
            network.add_node(node.var, target="host", op=op_name_of(node.value), nodes=(node.var,))
    for consumer, edges in enumerate(graph.into):
        for edge in edges:
            if edge.producer >= 0 and vertex[edge.producer] != vertex[consumer]:
                _add_crossing(
                    network, vertex[edge.producer], vertex[consumer], graph.nodes[edge.producer].var
                )
    return network


def _add_crossing(network: networkx.DiGraph, source: Hashable, sink: Hashable, value: relax.Var) -> None:
    if not network.has_edge(source, sink):
        network.add_edge(source, sink, values=(), bytes=0)
    crossing = network.edges[source, sink]
    if value in crossing["values"]:
        return
    crossing["values"] = (*crossing["values"], value)
    size = bytes_of(value.ty)
    known = crossing["bytes"]
    crossing["bytes"] = None if size is None or known is None else known + size
