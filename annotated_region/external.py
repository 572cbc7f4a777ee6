"""Makes an external function out of a region, in the form that TVM's code generators take.

The function has the attribute ``Codegen``, one parameter for each distinct single value that enters,
one dataflow block, and returns a tensor or a flat tuple of distinct tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.dataflow import DataflowGraph
from annotated_region.function_body import FunctionBody, Surroundings, composite_function
from annotated_region.leaves import Leaf, Leaves, flatten
from annotated_region.unit_order import in_order

__all__ = ["External", "external_function"]

Nodes = tuple[int, ...]


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
    constants: tuple[tvm.ir.GenericConst, ...]


def external_function(
    source: Surroundings | DataflowGraph,
    nodes: Nodes,
    composites: Sequence[tuple[str, Nodes]],
    attributes: Mapping[str, str],
    bind_constants: bool = True,
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
    """
    source = source if isinstance(source, Surroundings) else Surroundings.of(source)
    body = _RegionBody(source, nodes, bind_constants)
    used = [body.var_of(node) for node in body.used_outside()]
    outputs = {var: source.leaves.of(var, body.scope) for var in used}
    leaves = dict.fromkeys(leaf for each in outputs.values() for leaf in flatten(each))
    results = [leaf for leaf in leaves if body.makes(leaf)]
    if not results:
        return None
    func = body.function(results, composites, attributes)
    return External(func, body.arguments(), tuple(results), outputs, tuple(body.constants))


class _RegionBody(FunctionBody):
    """An external function under construction."""

    def __init__(self, source: Surroundings, nodes: Nodes, bind_constants: bool) -> None:
        super().__init__(source, nodes, bind_constants)
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
        carriers = self.carriers(results)
        self.name_nodes(list(carriers.values()))
        names = {nodes: name for name, nodes in composites}
        covered = {node for nodes in names for node in nodes}
        alone = [(node,) for node in self.nodes if node not in covered]
        for unit in in_order(self.graph, [*names, *alone]):
            if unit in names:
                self.bind_composite(names[unit], unit)
            else:
                self.bind_node(unit[0])
        values = [self.here(carriers[leaf]) if leaf in carriers else self.projected(leaf) for leaf in results]
        return self.finish(values[0] if len(values) == 1 else relax.Tuple(values), attributes)

    def carriers(self, results: Sequence[Leaf]) -> dict[Leaf, int]:
        """For each result that a node is bound to, that node; the others are fields of tuples."""
        wanted = set(results)
        found: dict[Leaf, int] = {}
        for node in self.nodes:
            leaf = self.source.leaves.of(self.var_of(node), self.scope)
            if isinstance(leaf, Leaf) and leaf in wanted:
                found.setdefault(leaf, node)
        return found

    def arguments(self) -> tuple[relax.Expr | Leaf, ...]:
        """What the function is called with."""
        given = [self.spelling.get(leaf, leaf) for leaf in self.param_of]
        return (*given, *([] if self.hidden is None else [self.hidden]))

    def imported(self, expr: relax.Expr) -> relax.Expr:
        """A parameter; for a tuple, a tuple put together from parameters."""
        if isinstance(expr, tvm.ir.GenericConst):
            return self.passed(Leaf(expr))
        leaves = self.source.leaves.of(expr, self.scope)
        if isinstance(leaves, Leaf):
            self.spelling.setdefault(leaves, expr)
            return self.passed(leaves)
        whole = self.renamed[hash(expr)] = self.bind(expr.name, self.passed(leaves))
        return whole

    def passed(self, leaves: Leaves) -> relax.Expr:
        """What stands here for leaves of the other function."""
        if isinstance(leaves, tuple):
            return relax.Tuple([self.passed(part) for part in leaves])
        if isinstance(leaves.root, tvm.ir.GenericConst) and self.stays(leaves.root):
            return self.inner_constant(leaves.root)
        if leaves not in self.param_of:
            self.param_of[leaves] = self.new_param(leaves.name, leaves.ty)
        return self.param_of[leaves]

    def bind_node(self, node: int) -> None:
        """Bind one node; of a tuple from outside, only the field that is wanted comes in."""
        value = self.graph.nodes[node].value
        if isinstance(value, tvm.ir.TupleGetItem) and self.comes_from_outside(value.tuple_value):
            field_value = self.passed(self.source.leaves.of(self.var_of(node), self.scope))
            self.bindings.append(relax.VarBinding(self.here(node), field_value))
            return
        super().bind_node(node)

    def comes_from_outside(self, expr: relax.Expr) -> bool:
        return isinstance(expr, tvm.ir.Var) and hash(expr) not in self.renamed

    def bind_composite(self, name: str, nodes: Nodes) -> None:
        """Bind a composite as a local function, and what a call of it returns."""
        composite = composite_function(self.source, nodes, name, self.bind_constants)
        self.constants += composite.constants
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

    def projected(self, leaf: Leaf) -> relax.Var:
        """Bind a field of a tuple-valued node."""
        whole = self.renamed[hash(leaf.root)]
        for index in leaf.path[:-1]:
            whole = self.bind(leaf.name, relax.TupleGetItem(whole, index))
        return self.bind(leaf.name, relax.TupleGetItem(whole, leaf.path[-1]), leaves=True)
