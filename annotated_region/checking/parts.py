"""Parts of a region as separate regions, whose inputs are values computed by the host."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax

from annotated_region.checking.program import ENTRY, MAIN, PlacedFunction
from annotated_region.checking.reference import built_reference
from annotated_region.checking.region_values import RegionValues
from annotated_region.checking.running import arrays_of
from annotated_region.compilation.executable import machine_of
from annotated_region.dataflow.graph import NodeKind
from annotated_region.functions.entry import entry_function
from annotated_region.functions.external import External, external_function
from annotated_region.ids import NodeId
from annotated_region.targets.backend import backend_of
from annotated_region.targets.composite_attributes import composite_attributes
from annotated_region.tvm_adapter.types import set_type

__all__ = ["Nodes", "host_values", "is_op", "part_function", "parts_module", "units_of", "with_structure"]

Nodes = tuple[NodeId, ...]


def is_op(function: PlacedFunction, node: NodeId) -> bool:
    """Whether a node is an op; other nodes move no data."""
    return function.graph.nodes[node].kind is NodeKind.OPERATION


def units_of(function: PlacedFunction) -> list[Nodes]:
    """Composites and single ops, in program order; other nodes belong to adjacent ops."""
    covered = {node for _name, nodes in function.composites for node in nodes}
    alone = [(node,) for node in function.nodes if node not in covered and is_op(function, node)]
    return sorted([*(nodes for _name, nodes in function.composites), *alone])


def with_structure(function: PlacedFunction, chosen: set[NodeId]) -> Nodes:
    """The nodes, and the tuples and fields of the region that depend only on them."""
    graph = function.graph
    held: set[NodeId] = set()
    for node in function.nodes:
        is_between = not is_op(function, node) and graph.into[node]
        if node in chosen or (is_between and all(edge.producer in held for edge in graph.into[node])):
            held.add(node)
    return tuple(sorted(held))


def part_function(function: PlacedFunction, nodes: Nodes, symbol: str) -> External | None:
    """The external function of some nodes of a region; None if none of their results is used."""
    backend = backend_of(function.target)
    composites = [(name, inner) for name, inner in function.composites if set(inner) <= set(nodes)]
    attributes = {"Codegen": function.target, "global_symbol": symbol}
    further = composite_attributes(function.source.graph, function.target)
    return external_function(
        function.source, nodes, composites, attributes, backend.bind_constants, further=further
    )


def parts_module(functions: Mapping[str, relax.Function]) -> tvm.IRModule:
    """External functions by symbol, each with an entry that calls it."""
    members: dict[tvm.ir.GlobalVar, relax.Function] = {}
    for symbol, func in functions.items():
        name, entry = tvm.ir.GlobalVar(symbol), ENTRY.format(symbol)
        set_type(name, func.ty)
        members[name] = func
        members[tvm.ir.GlobalVar(entry)] = entry_function(entry, name, func)
    return tvm.IRModule(members)


def host_values(function: PlacedFunction, values: RegionValues, reference: str) -> RegionValues:
    """Every input and intermediate value of a region, as computed by the reference."""
    everything = external_function(
        function.source, function.nodes, (), {"global_symbol": MAIN}, True, everything=True
    )
    assert everything is not None, "a region computes something"
    host = built_reference(tvm.IRModule({MAIN: everything.func}), reference)
    with machine_of(host) as machine:
        answers = arrays_of(machine[MAIN](*values.arguments(everything)))
    return values.with_results(dict(zip(everything.results, answers, strict=True)))
