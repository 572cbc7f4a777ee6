"""Builds an external function from a region, in the form that TVM's code generators expect.

The function has the attribute ``Codegen``, one parameter for each distinct leaf that enters, and one dataflow
block; it returns a tensor or a flat tuple of distinct tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm import relax

from annotated_region.dataflow.graph import DEAD, DataflowGraph, NodeKind
from annotated_region.dataflow.leaves import Leaf, Leaves, flatten, with_paths
from annotated_region.dataflow.unit_order import in_order
from annotated_region.functions.body import CompositeFunction, FunctionBody, Surroundings, composite_function
from annotated_region.ids import NodeId
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["External", "computing_nodes", "external_function"]

Nodes = tuple[NodeId, ...]
AttributesOf: TypeAlias = Callable[[str, Nodes], Mapping[str, object]]


def _none(_name: str, _nodes: Nodes) -> Mapping[str, object]:
    return {}


@dataclass(frozen=True, slots=True)
class External:
    """An external function and its call.

    Attributes
    ----------
    func
        The function; it shares no variable with its source.
    arguments
        The arguments of its call: expressions of the caller, and leaves to be read from the caller's tuples
        first.
    results
        The caller's leaves that it computes, in the order in which it returns them.
    outputs
        The leaves of each variable of the region with outside users.
    constants
        The tensor constants that stay inside, in the order of their uses.
    """

    func: relax.Function
    arguments: tuple[relax.Expr | Leaf, ...]
    results: tuple[Leaf, ...]
    outputs: Mapping[relax.Var, Leaves]
    constants: tuple[Constant, ...]


def computing_nodes(graph: DataflowGraph, nodes: Nodes) -> Nodes:
    """The nodes of a region, in program order, without leading nodes that only pass inputs through.

    An alias, tuple or field of values from outside is not a result of the region: if it has outside users, it
    stays in the caller.
    """
    inside = set(nodes)
    for node in reversed(_lead(graph, nodes)):
        if any(edge.consumer != DEAD and edge.consumer not in inside for edge in graph.out_of[node]):
            inside.remove(node)
    return tuple(node for node in nodes if node in inside)


def _lead(graph: DataflowGraph, nodes: Nodes) -> Nodes:
    """The leading structural nodes: those that only unpack, pack or rename inputs."""
    behind: set[NodeId] = set()
    for node in nodes:
        is_structure = graph.nodes[node].kind is NodeKind.STRUCTURE
        if not is_structure or any(edge.producer in behind for edge in graph.into[node]):
            behind.add(node)
    return tuple(node for node in nodes if node not in behind)


def external_function(
    source: Surroundings | DataflowGraph,
    nodes: Nodes,
    composites: Sequence[tuple[str, Nodes]],
    attributes: Mapping[str, str],
    bind_constants: bool = True,
    *,
    further: AttributesOf = _none,
    everything: bool = False,
) -> External | None:
    """The external function of a region; None if nothing that it computes is used outside.

    Parameters
    ----------
    source
        The function of the region; pass its `Surroundings` when extracting many regions.
    nodes
        The nodes of the region, in program order.
    composites
        The composites inside, disjoint: (name, nodes).
    attributes
        The attributes of the external function.
    bind_constants
        Whether tensor constants stay inside or become parameters.
    further
        Maps the name and nodes of a composite to its attributes besides the name.
    everything
        Whether to return every computed tensor, even without outside users.
    """
    if not nodes:
        return None
    source = source if isinstance(source, Surroundings) else Surroundings.of(source)
    body = _RegionBody(source, nodes, bind_constants, further)
    used = [body.var_of(node) for node in (nodes if everything else body.used_outside())]
    outputs = {var: source.leaves.of(var, body.scope) for var in used}
    leaves = dict.fromkeys(leaf for each in outputs.values() for leaf in flatten(each))
    results = [leaf for leaf in leaves if body.makes(leaf)]
    if not results:
        return None
    func = body.function(results, composites, attributes)
    return External(func, body.arguments(), tuple(results), outputs, tuple(body.constants))


class _RegionBody(FunctionBody):
    """An external function under construction."""

    def __init__(
        self, source: Surroundings, nodes: Nodes, bind_constants: bool, further: AttributesOf
    ) -> None:
        super().__init__(source, nodes, bind_constants)
        self.further = further
        self.scope = source.graph.nodes[nodes[0]].scope
        self.param_of: dict[Leaf, relax.Var] = {}
        # The expression for a leaf in the caller, where the caller has another variable than the leaf's root.
        self.spelling: dict[Leaf, relax.Expr] = {}

    def makes(self, leaf: Leaf) -> bool:
        """Whether a node of the region computes this leaf."""
        return self.graph.number_of(leaf.root) in self.inside

    def function(
        self, results: Sequence[Leaf], composites: Sequence[tuple[str, Nodes]], attributes: Mapping[str, str]
    ) -> relax.Function:
        """Bind every unit, then return the results."""
        names = {self.without_lead(nodes): name for name, nodes in composites}
        names.pop((), None)
        covered = {node for nodes in names for node in nodes}
        alone = [(node,) for node in self.nodes if node not in covered]
        made = {nodes: self.composite(name, nodes) for nodes, name in names.items()}
        seen = sorted(node for nodes in (*alone, *(each.results for each in made.values())) for node in nodes)
        places = self.places(results, seen)
        self.name_nodes([node for node, path in places.values() if not path])
        for unit in in_order(self.graph, [*names, *alone]):
            if unit in made:
                self.bind_composite(made[unit])
            else:
                self.bind_node(unit[0])
        values = [self.projected(leaf, *places[leaf]) for leaf in results]
        return self.finish(values[0] if len(values) == 1 else relax.Tuple(values), attributes)

    def places(
        self, results: Sequence[Leaf], seen: Sequence[NodeId]
    ) -> dict[Leaf, tuple[NodeId, tuple[int, ...]]]:
        """The position of each result: a node, and the path of fields into its value.

        `seen` are the nodes outside composites and the results of composites; a node whose whole value is the
        result takes precedence.
        """
        wanted = set(results)
        whole: dict[Leaf, tuple[NodeId, tuple[int, ...]]] = {}
        inner: dict[Leaf, tuple[NodeId, tuple[int, ...]]] = {}
        for node in seen:
            for leaf, path in with_paths(self.source.leaves.of(self.var_of(node), self.scope)):
                if leaf in wanted:
                    (inner if path else whole).setdefault(leaf, (node, path))
        return {**inner, **whole}

    def arguments(self) -> tuple[relax.Expr | Leaf, ...]:
        """The arguments of the call."""
        given = [self.spelling.get(leaf, leaf) for leaf in self.param_of]
        return (*given, *([] if self.hidden is None else [self.hidden]))

    def imported(self, expr: relax.Expr) -> relax.Expr:
        """A parameter; for a tuple, a tuple rebuilt from parameters."""
        if isinstance(expr, Constant):
            return self.passed(Leaf(expr))
        var = expect(relax.Var, expr)
        leaves = self.source.leaves.of(var, self.scope)
        if isinstance(leaves, Leaf):
            self.spelling.setdefault(leaves, var)
            return self.passed(leaves)
        return self.put_together(var, leaves)

    def put_together(self, var: relax.Var, leaves: Leaves) -> relax.Var:
        """Rebuild a tuple from outside."""
        whole = self.renamed[var] = relax.Var(var.name, var.ty)
        self.entering.append(relax.VarBinding(whole, self.passed(leaves)))
        return whole

    def passed(self, leaves: Leaves) -> relax.Expr:
        """The expression for leaves of the caller."""
        if isinstance(leaves, tuple):
            return relax.Tuple([self.passed(part) for part in leaves])
        if isinstance(leaves.root, Constant) and self.stays(leaves.root):
            return self.inner_constant(leaves.root)
        if leaves not in self.param_of:
            self.param_of[leaves] = self.new_param(leaves.name, leaves.ty)
        return self.param_of[leaves]

    def bind_node(self, node: NodeId) -> None:
        """Bind one node; of a tuple from outside, only the field in use becomes a parameter."""
        value = self.graph.nodes[node].value
        if not isinstance(value, relax.TupleGetItem) or not self.comes_from_outside(value.tuple_value):
            super().bind_node(node)
            return
        var = self.var_of(node)
        leaves = self.source.leaves.of(var, self.scope)
        if isinstance(leaves, tuple):
            self.put_together(var, leaves)
        else:
            self.bindings.append(relax.VarBinding(self.here(node), self.passed(leaves)))

    def comes_from_outside(self, expr: relax.Expr) -> bool:
        return isinstance(expr, relax.Var) and expr not in self.renamed

    def without_lead(self, nodes: Nodes) -> Nodes:
        """The nodes of a composite without its leading structural nodes."""
        lead = set(_lead(self.graph, nodes))
        return tuple(node for node in nodes if node not in lead)

    def composite(self, name: str, nodes: Nodes) -> CompositeFunction:
        """Build a composite from some of the nodes."""
        further = self.further(name, nodes)
        composite = composite_function(self.source, nodes, name, self.bind_constants, further)
        self.constants += composite.constants
        return composite

    def bind_composite(self, composite: CompositeFunction) -> None:
        """Bind a composite as a local function, and the results of its call."""
        callee = self.bind("local_func", composite.func)
        arguments = [
            item if isinstance(item, relax.ShapeExpr) else self.operand(item) for item in composite.arguments
        ]
        results = [self.here(node) for node in composite.results]
        if len(results) == 1:
            call = relax.Call(callee, arguments, ret_ty=results[0].ty)
            self.bindings.append(relax.VarBinding(results[0], call))
            return
        types = relax.TupleType([var.ty for var in results])
        whole = self.bind("composite", relax.Call(callee, arguments, ret_ty=types))
        for index, var in enumerate(results):
            self.bindings.append(relax.VarBinding(var, relax.TupleGetItem(whole, index)))

    def projected(self, leaf: Leaf, node: NodeId, path: tuple[int, ...]) -> relax.Var:
        """The variable of a result, projected along a path from a node."""
        whole = self.here(node)
        for depth, index in enumerate(path, start=1):
            whole = self.bind(leaf.name, relax.TupleGetItem(whole, index), leaves=depth == len(path))
        return whole
