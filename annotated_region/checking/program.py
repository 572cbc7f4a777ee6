"""The program under check: the regions of a module, the program on its targets, and on the host.

partitioned:  main -> dnnl_main_0, dnnl_main_1      on the targets, with an entry for each region
opened:       main -> dnnl_main_0, dnnl_main_1      on the host: the regions are functions of TVM
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import tvm
from tvm import relax

from annotated_region.compilation.code_generation import external_functions
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.errors import InvalidModuleError
from annotated_region.functions.body import Surroundings
from annotated_region.functions.entry import entry_function
from annotated_region.functions.external import External, computing_nodes, external_function
from annotated_region.functions.function_library import FunctionLibrary
from annotated_region.functions.inlining import is_inlinable, opened
from annotated_region.functions.modules import without_uncalled
from annotated_region.functions.region_places import place_of
from annotated_region.ids import NodeId
from annotated_region.origins import origin_of
from annotated_region.passes.partition_graph import PartitionGraph, final_regions
from annotated_region.passes.region_session import RegionSession, RegionSets
from annotated_region.regions.node_region import NodeRegion, largest_composites
from annotated_region.regions.op_names import op_name_of
from annotated_region.targets.backend import backend_of
from annotated_region.targets.composite_attributes import composite_attributes
from annotated_region.tvm_adapter.types import expect

__all__ = ["ENTRY", "MAIN", "CheckedOp", "CheckedProgram", "PlacedFunction"]

MAIN = "main"
ENTRY = "check_{}"
"""The name of the function that only calls one region."""

Nodes = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class CheckedOp:
    """One op of a region: its binding, its name and its origin, as shown in reports."""

    name: str
    op: str
    origin: str = ""

    def __str__(self) -> str:
        made = f" at {self.origin}" if self.origin not in ("", self.name) else ""
        return f"{self.name} ({self.op}{made})"


@dataclass(frozen=True)
class PlacedFunction:
    """An external function, and the region of the prepared function that it was made from.

    If several equal regions share the function, the region is the first of them.

    Attributes
    ----------
    symbol, target
        Its symbol and its target.
    source
        The prepared function.
    nodes
        The nodes that it computes, in program order.
    composites
        The composites among them, by name.
    external
        The function and its arguments.
    """

    symbol: str
    target: str
    source: Surroundings
    nodes: Nodes
    composites: Sequence[tuple[str, Nodes]]
    external: External

    @property
    def graph(self) -> DataflowGraph:
        """The dataflow graph of the prepared function."""
        return self.source.graph

    @cached_property
    def host_function(self) -> relax.Function:
        """Its computation as straight-line code for the host."""
        return opened(self.external.func) if is_inlinable(self.external.func) else self.external.func

    def ops(self, nodes: Sequence[NodeId] | None = None) -> tuple[CheckedOp, ...]:
        """The ops among some of its nodes, or among all, in program order."""
        chosen = [self.graph.nodes[node] for node in (self.nodes if nodes is None else nodes)]
        return tuple(
            CheckedOp(node.var.name, op_name_of(node.value), origin_of(node.var, node.value))
            for node in chosen
            if node.kind is NodeKind.OPERATION
        )


@dataclass(frozen=True)
class CheckedProgram:
    """A module on its targets, and the same on the host.

    Attributes
    ----------
    partitioned
        The partitioned module.
    regions
        Its external functions, by symbol.
    """

    partitioned: tvm.IRModule
    regions: Mapping[str, PlacedFunction]

    @staticmethod
    def of(mod: tvm.IRModule, placed: tvm.IRModule, session: RegionSession) -> CheckedProgram:
        """Partition a module whose regions are in a session.

        Raises
        ------
        InvalidModuleError
            It has no function called main.
        """
        if MAIN not in {name.name_hint for name in placed.get_global_vars()}:
            raise InvalidModuleError("the module has no function main to run")
        regions = _placed_functions(placed, session.take(placed))
        partitioned = session.with_annotations(session.run([PartitionGraph()], placed))
        return CheckedProgram(without_uncalled(mod, partitioned), regions)

    @property
    def main(self) -> relax.Function:
        """The function that is run."""
        return expect(relax.Function, self.partitioned[MAIN])

    def on_targets(self) -> tvm.IRModule:
        """The partitioned module, with an entry for each region."""
        result = self.partitioned.clone()
        for functions in external_functions(self.partitioned).values():
            for name, func in functions.items():
                entry = ENTRY.format(name.name_hint)
                result.update_func(tvm.ir.GlobalVar(entry), entry_function(entry, name, func))
        return result

    def on_host(self) -> tvm.IRModule:
        """The module with its regions as host functions, named by their symbols."""
        result = self.partitioned.clone()
        for functions in external_functions(self.partitioned).values():
            for name, func in functions.items():
                plain = opened(func) if is_inlinable(func) else func.without_attr("Codegen")
                result.update_func(name, plain.with_attr("global_symbol", name.name_hint))
        return result


def _placed_functions(placed: tvm.IRModule, sets: RegionSets) -> dict[str, PlacedFunction]:
    """The external functions, by the symbols that `PartitionGraph` gives them."""
    library = FunctionLibrary(placed)
    found: dict[str, PlacedFunction] = {}
    for regions in (final_regions(each) for each in sets.values()):
        source = Surroundings.of(regions.dataflow)
        for member in sorted(regions.node_regions.values(), key=lambda member: member.sort_key):
            function = _placed_function(library, source, member)
            if function is not None:
                found.setdefault(function.symbol, function)
    return found


def _placed_function(
    library: FunctionLibrary, source: Surroundings, member: NodeRegion
) -> PlacedFunction | None:
    backend = backend_of(member.target)
    composites = [(unit.name, unit.nodes) for unit in sorted(largest_composites(member))]
    nodes = computing_nodes(source.graph, member.nodes)
    external = external_function(
        source,
        nodes,
        composites,
        {"Codegen": member.target},
        backend.bind_constants,
        further=composite_attributes(source.graph, member.target),
    )
    if external is None:
        return None
    place = place_of(source.graph, nodes)
    callee = library.add(external, member.target, source.graph.name, backend.share_equal_regions, place)
    return PlacedFunction(callee.name_hint, member.target, source, nodes, composites, external)
