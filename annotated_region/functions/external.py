"""Makes an external function out of a region, in the form that TVM's code generators take.

The function has the attribute ``Codegen``, one parameter for each distinct single value that enters,
one dataflow block, and returns a tensor or a flat tuple of distinct tensors.
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
    """An external function and how it is called.

    Attributes
    ----------
    func
        The function; it shares no variable with the function that it was taken from.
    arguments
        What it is called with: expressions of the calling function, and leaves that have to be read
        from tuples of it first.
    results
        The leaves of the calling function that it computes, in the order in which it returns them.
    outputs
        For each variable of the region that is used outside of it, the leaves that it stands for.
    constants
        The tensor constants that stay inside, in the order of their uses.
    """

    func: relax.Function
    arguments: tuple[relax.Expr | Leaf, ...]
    results: tuple[Leaf, ...]
    outputs: Mapping[relax.Var, Leaves]
    constants: tuple[Constant, ...]


def computing_nodes(graph: DataflowGraph, nodes: Nodes) -> Nodes:
    """The nodes of a region, given in program order, without those that only hand on what enters it.

    A name, tuple or field of values from outside is no result of the region: where something outside
    uses it, it stays where it is.
    """
    inside = set(nodes)
    for node in reversed(_lead(graph, nodes)):
        if any(edge.consumer != DEAD and edge.consumer not in inside for edge in graph.out_of[node]):
            inside.remove(node)
    return tuple(node for node in nodes if node in inside)


def _lead(graph: DataflowGraph, nodes: Nodes) -> Nodes:
    """The nodes that only take apart, put together or rename what enters."""
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
        The function that the region lies in; its `Surroundings` where many regions of it are asked for.
    nodes
        The nodes of the region, in program order.
    composites
        The composites inside, disjoint: (name, nodes).
    attributes
        The attributes of the external function.
    bind_constants
        Whether tensor constants stay inside or become parameters.
    further
        From the name and the nodes of a composite to its attributes besides the name.
    everything
        Whether to return every tensor that the region computes, used outside or not.
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
        # Under which name a leaf is used here, where it is not that of its root.
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
        """Where each result is found: at a node, or at the end of a path into one.

        `seen` are the nodes that no composite hides; a node that is the result itself comes first.
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
        """What the function is called with."""
        given = [self.spelling.get(leaf, leaf) for leaf in self.param_of]
        return (*given, *([] if self.hidden is None else [self.hidden]))

    def imported(self, expr: relax.Expr) -> relax.Expr:
        """A parameter; for a tuple, a tuple put together from parameters."""
        if isinstance(expr, Constant):
            return self.passed(Leaf(expr))
        var = expect(relax.Var, expr)
        leaves = self.source.leaves.of(var, self.scope)
        if isinstance(leaves, Leaf):
            self.spelling.setdefault(leaves, var)
            return self.passed(leaves)
        return self.put_together(var, leaves)

    def put_together(self, var: relax.Var, leaves: Leaves) -> relax.Var:
        """Bind what stands here for a tuple from outside."""
        whole = self.renamed[var] = relax.Var(var.name, var.ty)
        self.entering.append(relax.VarBinding(whole, self.passed(leaves)))
        return whole

    def passed(self, leaves: Leaves) -> relax.Expr:
        """What stands here for leaves of the other function."""
        if isinstance(leaves, tuple):
            return relax.Tuple([self.passed(part) for part in leaves])
        if isinstance(leaves.root, Constant) and self.stays(leaves.root):
            return self.inner_constant(leaves.root)
        if leaves not in self.param_of:
            self.param_of[leaves] = self.new_param(leaves.name, leaves.ty)
        return self.param_of[leaves]

    def bind_node(self, node: NodeId) -> None:
        """Bind one node; of a tuple from outside, only the field that is wanted comes in."""
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
        """The nodes of a composite without those that only take apart, or put together, what enters it."""
        lead = set(_lead(self.graph, nodes))
        return tuple(node for node in nodes if node not in lead)

    def composite(self, name: str, nodes: Nodes) -> CompositeFunction:
        """Make a composite of some of the nodes."""
        further = self.further(name, nodes)
        composite = composite_function(self.source, nodes, name, self.bind_constants, further)
        self.constants += composite.constants
        return composite

    def bind_composite(self, composite: CompositeFunction) -> None:
        """Bind a composite as a local function, and what a call of it returns."""
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
        """The variable of a result, which is found at the end of a path into a node."""
        whole = self.here(node)
        for depth, index in enumerate(path, start=1):
            whole = self.bind(leaf.name, relax.TupleGetItem(whole, index), leaves=depth == len(path))
        return whole
