r"""PartitionGraph: turns each region into an external function for its target's code generator.

It runs last, on disjoint regions whose quotient graph is acyclic:

    a = conv2d(x, w)      \                          y, b = dnnl_main_0(x)
    b = relu(a)           | region of dnnl   ==>     c = softmax(b)
    y = max_pool2d(b)     /                          d = add(c, y)
    c = softmax(b)
    d = add(c, y)

The form is TVM's own, so that any ``relax.ext.<target>`` takes it: attributes ``Codegen`` and
``global_symbol``, composites as local functions with the attribute ``Composite``, single tensors in,
a tensor or a flat tuple of distinct tensors out. Tuples are taken apart before the call and put
together behind it; outputs that nobody uses are not made. Bindings keep their order where that is
possible: a region's call stands as soon as all that it needs is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm
from tvm import relax

from annotated_region.backend import backend_of
from annotated_region.dataflow import DataflowGraph
from annotated_region.errors import OverlappingRegionsError
from annotated_region.external import External, external_function, in_order
from annotated_region.leaves import Leaf, Leaves
from annotated_region.library import FunctionLibrary
from annotated_region.members import Members, Unit
from annotated_region.modules import functions_to_partition, require_well_formed
from annotated_region.record import note
from annotated_region.region_set import AnnotatedRegionSet
from annotated_region.rewriting import FunctionRewriter

__all__ = ["PartitionGraph"]

Nodes = tuple[int, ...]


@tvm.ir.transform.module_pass(opt_level=0, name="PartitionGraph")
class PartitionGraph:
    """Replace each region by a call to an external function.

    Takes an annotated module whose regions are disjoint; leaves no annotation.

    Raises
    ------
    OverlappingRegionsError
        Two regions share a node, or the composites of a region cannot all be taken.
    RegionCycleError
        Two regions need each other's results.
    MalformedAnnotationError
        The annotations do not describe regions.
    UnknownTargetError
        A region is annotated for a target that nobody registered.

    Notes
    -----
    O(n log n) in the bindings. Types are derived only for what is new.
    """

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        require_well_formed(mod)
        library = FunctionLibrary(mod)
        for global_var, func in list(functions_to_partition(mod)):
            library.replace(global_var, _partition(global_var.name_hint, func, library))
        return library.module()


def _partition(name: str, func: relax.Function, library: FunctionLibrary) -> relax.Function:
    regions = AnnotatedRegionSet(func, name)
    if not len(regions):
        return regions.func
    regions = regions.plain()
    regions.require_disjoint()
    regions.verify()
    note(name).regions = regions
    return _Partitioner(regions, library).function()


class _Partitioner:
    """Rewrites one function."""

    def __init__(self, regions: AnnotatedRegionSet, library: FunctionLibrary) -> None:
        self.graph = regions.dataflow
        self.library = library
        self.scope_of_block = {hash(scope.block): scope for scope in self.graph.scopes}
        self.member_at = {member.nodes[0]: member for member in regions.members.values()}

    def function(self) -> relax.Function:
        return FunctionRewriter(self.bindings, lambda var: var).function(self.graph.func)

    def bindings(self, block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        scope = self.scope_of_block[hash(block)]
        members = [self.member_at[node] for node in scope.nodes if node in self.member_at]
        if not members:
            yield from self.host(scope.nodes, rewriter)
            return
        held = {node for member in members for node in member.nodes}
        alone = [(node,) for node in scope.nodes if node not in held]
        for unit in in_order(self.graph, [*(member.nodes for member in members), *alone]):
            member = self.member_at.get(unit[0])
            call = self.call(member, scope.is_dataflow) if member is not None else None
            yield from self.host(unit, rewriter) if call is None else call

    def host(self, nodes: Sequence[int], rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        """Bindings that stay, with the bodies inside them rewritten."""
        for node in nodes:
            binding = self.graph.nodes[node].binding
            value = rewriter.nested(binding.value)
            yield binding if value.same_as(binding.value) else relax.VarBinding(binding.var, value)

    def call(self, member: Members, in_dataflow: bool) -> list[relax.Binding] | None:
        """The bindings that call the external function of a region; None if it has nothing to compute."""
        backend = backend_of(member.target)
        external = external_function(
            self.graph,
            member.nodes,
            chosen_composites(self.graph, member),
            {"Codegen": member.target},
            backend.bind_constants,
        )
        if external is None:
            return None
        callee = self.library.add(external.func, member.target, self.graph.name, backend.share_equal_regions)
        return _CallSite(callee, external, in_dataflow).bindings()


class _CallSite:
    """The bindings around one call: fields of tuples before it, results and tuples behind it."""

    def __init__(self, callee: tvm.ir.GlobalVar, external: External, in_dataflow: bool) -> None:
        self.callee = callee
        self.external = external
        self.kind = relax.DataflowVar if in_dataflow else relax.Var
        self.made: list[relax.Binding] = []
        self.value_of: dict[Leaf, relax.Expr] = {}

    def bindings(self) -> list[relax.Binding]:
        arguments = [
            item if isinstance(item, relax.ShapeExpr) else self.read(item) for item in self.external.arguments
        ]
        call = relax.Call(self.callee, arguments, ret_ty=self.result_type())
        self.bind_results(call)
        for var, leaves in self.external.outputs.items():
            value = self.value(leaves)
            if not value.same_as(var):
                self.made.append(relax.VarBinding(var, value))
        return self.made

    def result_type(self) -> tvm.ir.Type:
        types = [leaf.ty for leaf in self.external.results]
        return types[0] if len(types) == 1 else relax.TupleType(types)

    def bind_results(self, call: relax.Call) -> None:
        """Bind each result to the first variable that stands for it, or to a fresh one."""
        owners = {
            leaves: var
            for var, leaves in reversed(list(self.external.outputs.items()))
            if isinstance(leaves, Leaf)
        }
        results = self.external.results
        if len(results) == 1:
            self.take(results[0], owners.get(results[0]), call)
            return
        whole = self.bind(f"{self.callee.name_hint}_out", call)
        for index, leaf in enumerate(results):
            self.take(leaf, owners.get(leaf), relax.TupleGetItem(whole, index))

    def take(self, leaf: Leaf, owner: relax.Var | None, value: relax.Expr) -> None:
        if owner is None:
            self.value_of[leaf] = self.bind(leaf.name, value)
        else:
            self.made.append(relax.VarBinding(owner, value))
            self.value_of[leaf] = owner

    def value(self, leaves: Leaves) -> relax.Expr:
        """The expression that stands for leaves behind the call."""
        if isinstance(leaves, Leaf):
            return self.read(leaves)
        return relax.Tuple([self.value(part) for part in leaves])

    def read(self, leaf: Leaf) -> relax.Expr:
        """The value of a leaf, bound once."""
        if leaf not in self.value_of:
            value = leaf.root
            for index in leaf.path:
                value = self.bind(leaf.name, relax.TupleGetItem(value, index))
            self.value_of[leaf] = value
        return self.value_of[leaf]

    def bind(self, name: str, value: relax.Expr) -> relax.Var:
        var = self.kind(name, value.ty)
        self.made.append(relax.VarBinding(var, value))
        return var


def chosen_composites(graph: DataflowGraph, member: Members) -> list[tuple[str, Nodes]]:
    """The composites of a region, disjoint: of candidates that share nodes the largest wins.

    Raises
    ------
    OverlappingRegionsError
        A node would be left that its target claims only as part of a composite.
    """
    chosen: list[Unit] = []
    taken: set[int] = set()
    lost: set[int] = set()
    for unit in sorted(member.units, key=lambda unit: (-len(unit.nodes), unit.nodes, unit.name)):
        if not unit.name:
            continue
        if taken.isdisjoint(unit.nodes):
            chosen.append(unit)
            taken.update(unit.nodes)
        else:
            lost.update(unit.nodes)
    alone = {node for unit in member.units if not unit.name for node in unit.nodes}
    orphans = sorted(lost - taken - alone)
    if orphans:
        orphan = graph.nodes[orphans[0]].var.name
        raise OverlappingRegionsError(
            f"{graph.name}: composites of {member.target!r} overlap, and {orphan!r} is claimed only as part "
            "of one that another excludes; run ResolveConflicts before this"
        )
    return [(unit.name, unit.nodes) for unit in sorted(chosen)]
