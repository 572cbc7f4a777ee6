r"""PartitionGraph: turns each region into an external function for its target's code generator.

It runs last, on disjoint regions whose quotient graph is acyclic:

    a = conv2d(x, w)      \                          y, b = dnnl_main_0(x)
    b = relu(a)           | region of dnnl   ==>     c = softmax(b)
    y = max_pool2d(b)     /                          d = add(c, y)
    c = softmax(b)
    d = add(c, y)

External functions have TVM's standard form, so any ``relax.ext.<target>`` accepts them: attributes
``Codegen`` and ``global_symbol``, composites as local functions with the attribute ``Composite``, single
tensors as parameters, a tensor or a flat tuple of distinct tensors as the result. Tuples are unpacked
before the call and rebuilt after it; unused outputs are dropped. Bindings keep their order where
possible: the call of a region is placed as soon as all its inputs are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.collector import paused_collector
from annotated_region.dataflow.graph import DataflowGraph, NodeKind, Scope
from annotated_region.dataflow.unit_order import in_order
from annotated_region.errors import OverlappingRegionsError
from annotated_region.expr_map import ExprMap
from annotated_region.functions.body import Surroundings
from annotated_region.functions.call_site import CallSites
from annotated_region.functions.external import External, computing_nodes, external_function
from annotated_region.functions.function_library import FunctionLibrary
from annotated_region.functions.region_places import place_of
from annotated_region.functions.rewriting import FunctionRewriter, rebind
from annotated_region.ids import NodeId
from annotated_region.origins import described
from annotated_region.passes.module_pass import module_pass
from annotated_region.passes.region_session import RegionSession, RegionSets
from annotated_region.passes.session_pass import SessionPass
from annotated_region.policies.region_forms import in_accepted_form
from annotated_region.regions.node_region import NodeRegion, largest_composites
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.backend import backend_of
from annotated_region.targets.composite_attributes import AttributesOf, composite_attributes

__all__ = ["MadeRegion", "NamesOfRegions", "PartitionGraph", "Partitioner", "final_regions"]

NamesOfRegions: TypeAlias = Literal["places", "numbers"]
"""How external functions are named."""

Nodes = tuple[NodeId, ...]


@module_pass
@checked_class
@dataclass(frozen=True)
class PartitionGraph(SessionPass):
    """Replace each region by a call to an external function.

    Takes an annotated module whose regions are disjoint; the result has no annotations.

    Parameters
    ----------
    names
        How external functions are named. ``"places"``: after the common path of their ops in the imported
        model, such as ``dnnl_layer3_attention``, which does not change when other parts of the model are
        edited. ``"numbers"``, and ``"places"`` where the ops have no common path: after the calling
        function, with a number, such as ``dnnl_main_0``.

    Raises
    ------
    UsageError
        `names` is neither of the two.
    OverlappingRegionsError
        Two regions share a node, or overlapping composites leave a node of a region uncovered.
    RegionCycleError
        Two regions depend on each other's results.
    MalformedAnnotationError
        The annotations do not describe regions.
    UnknownTargetError
        A region is annotated for a target that is not registered.

    Notes
    -----
    O(n log n) in the number of bindings. Types are inferred only for new expressions.
    """

    names: NamesOfRegions = "places"

    def run(
        self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext, session: RegionSession
    ) -> tvm.IRModule:
        """Partition all functions; called by TVM's pass manager, within a session or standalone."""
        regions = session.take(mod)
        session.consume()
        return _partitioned(mod, regions, self.names == "places")


@paused_collector()
def _partitioned(mod: tvm.IRModule, regions: RegionSets, by_place: bool) -> tvm.IRModule:
    library = FunctionLibrary(mod)
    for global_var, each in regions.items():
        library.replace(global_var, _partition(each, library, by_place))
    return library.module()


def _partition(regions: AnnotatedRegionSet, library: FunctionLibrary, by_place: bool) -> relax.Function:
    if not len(regions):
        return regions.func
    partitioner = Partitioner(final_regions(regions), by_place)
    return partitioner.function(partitioner.named(library))


def final_regions(regions: AnnotatedRegionSet) -> AnnotatedRegionSet:
    """The regions that become external functions, cut to the form their targets accept.

    Raises the errors listed for `PartitionGraph`.
    """
    regions.require_disjoint()
    for member in regions.node_regions.values():
        require_no_orphans(regions.dataflow, member)
    cut = regions.replaced_by(in_accepted_form(regions.dataflow, regions.node_regions.values()))
    cut.verify()
    return cut


@dataclass(frozen=True, slots=True)
class MadeRegion:
    """A region as an external function, before it has a name."""

    nodes: Nodes
    external: External
    target: str
    shares: bool
    place: str


class Partitioner:
    """Rewrites one function.

    Parameters
    ----------
    regions
        The regions, as `final_regions` gives them.
    by_place
        Whether external functions are named after their places in the imported model.
    """

    def __init__(self, regions: AnnotatedRegionSet, by_place: bool) -> None:
        self.graph = regions.dataflow
        self.source = Surroundings.of(self.graph)
        self.by_place = by_place
        self.region_at: dict[NodeId, Nodes] = {}
        self.made: dict[Nodes, MadeRegion] = {}
        self.attributes: dict[str, AttributesOf] = {}
        # Ordered by first node, so that names do not depend on the order of the calls.
        for member in sorted(regions.node_regions.values(), key=lambda member: member.sort_key):
            self.make(member)

    def make(self, member: NodeRegion) -> None:
        """Make the external function of a region, unless it has nothing to compute."""
        backend = backend_of(member.target)
        composites = [(unit.name, unit.nodes) for unit in sorted(largest_composites(member))]
        nodes = computing_nodes(self.graph, member.nodes)
        attributes = {"Codegen": member.target}
        external = external_function(
            self.source,
            nodes,
            composites,
            attributes,
            backend.bind_constants,
            further=self.attributes_of(member.target),
        )
        if external is None:
            return
        self.region_at[nodes[0]] = nodes
        place = place_of(self.graph, nodes) if self.by_place else ""
        self.made[nodes] = MadeRegion(nodes, external, member.target, backend.share_equal_regions, place)

    def named(self, library: FunctionLibrary) -> dict[Nodes, tvm.ir.GlobalVar]:
        """What each external function is called in a library, which gets them all."""
        caller = self.graph.name
        return {
            nodes: library.add(each.external, each.target, caller, each.shares, each.place)
            for nodes, each in self.made.items()
        }

    def attributes_of(self, target: str) -> AttributesOf:
        """The function that computes the extra attributes of a target's composites."""
        if target not in self.attributes:
            self.attributes[target] = composite_attributes(self.graph, target)
        return self.attributes[target]

    def function(self, callee_of: Mapping[Nodes, tvm.ir.GlobalVar]) -> relax.Function:
        """The function with each region replaced by a call."""
        scope_of_block = ExprMap((scope.block, scope) for scope in self.graph.scopes)

        def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
            scope = scope_of_block[block]
            return self.bindings(self.units(scope.nodes), scope, callee_of, rewriter.nested)

        return FunctionRewriter(bindings, lambda var: var).function(self.graph.func)

    def bindings(
        self,
        units: Sequence[Nodes],
        scope: Scope,
        callee_of: Mapping[Nodes, tvm.ir.GlobalVar],
        nested: Callable[[relax.Expr], relax.Expr],
    ) -> Iterator[relax.Binding]:
        """The new bindings of some units of a block, whose fields of tuples no other units read."""
        call_sites = CallSites(scope.is_dataflow, self.source.leaves.fields[scope.index])
        for unit in units:
            made = self.made.get(unit)
            if made is None:
                yield from self.host(unit, call_sites, nested)
            else:
                yield from call_sites.bindings(callee_of[unit], made.external)

    def units(self, nodes: Sequence[NodeId]) -> list[Nodes]:
        """The regions in a block and its remaining nodes as singletons, in topological order."""
        regions = [self.region_at[node] for node in nodes if node in self.region_at]
        if not regions:
            return [(node,) for node in nodes]
        held = {node for region in regions for node in region}
        return in_order(self.graph, [*regions, *((node,) for node in nodes if node not in held)])

    def host(
        self,
        nodes: Sequence[NodeId],
        call_sites: CallSites,
        nested: Callable[[relax.Expr], relax.Expr],
    ) -> Iterator[relax.Binding]:
        """Bindings that stay on the host, with their nested bodies rewritten."""
        for number in nodes:
            node = self.graph.nodes[number]
            is_structure = node.kind is NodeKind.STRUCTURE
            leaves = self.source.leaves.of(node.var, node.scope) if is_structure else ()
            if call_sites.bind_host(node.var, leaves):
                yield rebind(node.binding, nested(node.value))


def require_no_orphans(graph: DataflowGraph, member: NodeRegion) -> None:
    """Check that choosing the largest disjoint composites leaves no node of a region uncovered.

    Raises
    ------
    OverlappingRegionsError
        A node is claimed only as part of a composite that was not chosen.
    """
    taken = {node for unit in largest_composites(member) for node in unit.nodes}
    lost = {node for unit in member.composites for node in unit.nodes}
    alone = {node for unit in member.units if not unit.is_composite for node in unit.nodes}
    orphans = sorted(lost - taken - alone)
    if orphans:
        orphan = described(graph.nodes[orphans[0]].var)
        raise OverlappingRegionsError(
            f"{graph.name}: composites of {member.target!r} overlap, and {orphan} is claimed only as part "
            "of a composite that was not chosen; run ResolveConflicts first"
        )
