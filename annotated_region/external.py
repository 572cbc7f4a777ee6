"""Makes an external function out of a region, in the form that TVM's code generators take.

The function has the attributes ``Codegen`` and ``global_symbol``, one parameter for each distinct
single value that enters, one dataflow block, and returns a tensor or a flat tuple of distinct
tensors. Composites are local functions with the attribute ``Composite``, called inside. Shape
variables that no parameter reveals come in as one more parameter, a shape.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax.utils import copy_with_new_vars

from annotated_region.dataflow import DEAD, DataflowGraph, NodeKind
from annotated_region.leaves import Leaf, Leaves, flatten, leaves_of
from annotated_region.rewriting import replace_operands, typed

__all__ = ["External", "external_function", "in_order"]

Nodes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class External:
    """An external function and how it is called.

    Attributes
    ----------
    func
        The function; it shares no variable with the function that it was taken from.
    arguments
        What it is called with: leaves of the calling function, and a shape where it needs one.
    results
        The leaves of the calling function that it computes, in the order in which it returns them.
    outputs
        For each variable of the region that is used outside of it, the leaves that it stands for.
    """

    func: relax.Function
    arguments: tuple[Leaf | relax.ShapeExpr, ...]
    results: tuple[Leaf, ...]
    outputs: Mapping[relax.Var, Leaves]


def external_function(
    graph: DataflowGraph,
    nodes: Nodes,
    composites: Sequence[tuple[str, Nodes]],
    attributes: Mapping[str, str],
    bind_constants: bool = True,
) -> External | None:
    """The external function of a region; None if nothing that it computes is used outside.

    Parameters
    ----------
    graph
        The function, without annotations.
    nodes
        The nodes of the region, in program order.
    composites
        The composites inside, disjoint: (name, nodes).
    attributes
        The attributes of the external function.
    bind_constants
        Whether tensor constants stay inside or become parameters.
    """
    body = _Body(graph, nodes, bind_constants)
    outputs = {var: body.leaves(var) for var in body.used_outside()}
    leaves = dict.fromkeys(leaf for each in outputs.values() for leaf in flatten(each))
    results = tuple(leaf for leaf in leaves if body.makes(leaf))
    if not results:
        return None
    func = body.function(results, composites, attributes)
    return External(func, tuple(body.arguments()), results, outputs)


def in_order(graph: DataflowGraph, units: Iterable[Nodes]) -> list[Nodes]:
    """Units of nodes, each to run as a whole, in an order along the edges between them.

    Of those that could come next, the one with the lowest first number does. The quotient must be
    acyclic. O(n log n + edges).
    """
    listed = list(units)
    followers = _followers(graph, listed)
    waiting = [0] * len(listed)
    for each in followers:
        for follower in each:
            waiting[follower] += 1
    ready = [(unit[0], index) for index, unit in enumerate(listed) if not waiting[index]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _first, index = heapq.heappop(ready)
        ordered.append(listed[index])
        for follower in followers[index]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (listed[follower][0], follower))
    assert len(ordered) == len(listed), "the quotient is acyclic"
    return ordered


def _followers(graph: DataflowGraph, units: Sequence[Nodes]) -> list[dict[int, None]]:
    unit_of = {node: index for index, unit in enumerate(units) for node in unit}
    followers: list[dict[int, None]] = [{} for _ in units]
    for index, unit in enumerate(units):
        for node in unit:
            consumers = [edge.consumer for edge in graph.out_of[node]]
            for consumer in (*consumers, *graph.order_successors.get(node, ())):
                follower = unit_of.get(consumer, index)
                if follower != index:
                    followers[index][follower] = None
    return followers


class _Body:
    """A function under construction: of a region, or of a composite inside one."""

    def __init__(self, graph: DataflowGraph, nodes: Nodes, bind_constants: bool) -> None:
        self.graph = graph
        self.nodes = nodes
        self.inside = set(nodes)
        self.bind_constants = bind_constants
        self.params: dict[Leaf, relax.Var] = {}
        self.shape_param: tuple[relax.Var, relax.ShapeExpr] | None = None
        self.renamed: dict[int, relax.Var] = {}
        self.bindings: list[relax.Binding] = []

    # -- what the region means to its surroundings -------------------------------------------------

    def used_outside(self) -> list[relax.Var]:
        return [
            self.graph.nodes[node].var
            for node in self.nodes
            if any(
                edge.consumer not in self.inside and edge.consumer != DEAD for edge in self.graph.out_of[node]
            )
        ]

    def leaves(self, expr: relax.Expr) -> Leaves:
        """The leaves of an expression, looking through what moves no data."""
        return leaves_of(expr, self.definition)

    def definition(self, var: relax.Expr) -> relax.Expr | None:
        number = self.graph.number_of(var)
        if number is None or self.graph.nodes[number].kind is not NodeKind.STRUCTURE:
            return None
        # Outside, only whole tuples are looked through: a single value has its variable already.
        if number in self.inside or isinstance(var.ty, tvm.ir.TupleType):
            return self.graph.nodes[number].value
        return None

    def makes(self, leaf: Leaf) -> bool:
        return self.graph.number_of(leaf.root) in self.inside

    def arguments(self) -> list[Leaf | relax.ShapeExpr]:
        shape = [] if self.shape_param is None else [self.shape_param[1]]
        return [*self.params, *shape]

    # -- building ----------------------------------------------------------------------------------

    def function(
        self, results: Sequence[Leaf], composites: Sequence[tuple[str, Nodes]], attributes: Mapping[str, str]
    ) -> relax.Function:
        """Bind every unit, then the results."""
        self.name_nodes(results)
        names = {nodes: name for name, nodes in composites}
        covered = {node for _name, nodes in composites for node in nodes}
        alone = [(node,) for node in self.nodes if node not in covered]
        for unit in in_order(self.graph, [*names, *alone]):
            if unit in names:
                self.composite(names[unit], unit)
            else:
                self.plain(unit[0])
        result = self.result(results)
        symbols = self.close_shapes()
        params = [*self.params.values(), *([] if self.shape_param is None else [self.shape_param[0]])]
        block = relax.DataflowBlock(self.bindings)
        attrs = tvm.ir.make_node("ir.DictAttrs", **attributes)
        func = relax.Function(
            params, typed(relax.SeqExpr([block], result), result.ty), result.ty, True, attrs
        )
        # Shape variables belong to one function; the others are fresh already.
        return copy_with_new_vars(func) if symbols else func

    def name_nodes(self, results: Sequence[Leaf]) -> None:
        """Give every node a variable of this function; a lone result is what leaves the block."""
        lone = results[0].root if len(results) == 1 and not results[0].path else None
        for node in self.nodes:
            var = self.graph.nodes[node].var
            kind = relax.Var if lone is not None and var.same_as(lone) else relax.DataflowVar
            self.renamed[hash(var)] = kind(var.name, var.ty)

    def plain(self, node: int) -> None:
        value = self.graph.nodes[node].value
        if isinstance(value, tvm.ir.TupleGetItem):
            new = self.field(value)
        else:
            new = replace_operands(value, self.operand)
        self.bindings.append(relax.VarBinding(self.renamed[hash(self.graph.nodes[node].var)], new))

    def field(self, value: relax.TupleGetItem) -> relax.Expr:
        """A field of a tuple: directly, where the tuple is put together here."""
        whole = replace_operands(value.tuple_value, self.operand)
        if isinstance(whole, relax.Tuple):
            return whole.fields[value.index]
        return relax.TupleGetItem(whole, value.index)

    def operand(self, leaf: relax.Expr) -> relax.Expr:
        """What stands in this function for a variable or constant of the calling one."""
        inner = self.renamed.get(hash(leaf))
        if inner is not None:
            return inner
        number = self.graph.number_of(leaf)
        if number is not None and self.graph.nodes[number].kind is NodeKind.LITERAL:
            return replace_operands(self.graph.nodes[number].value, self.operand)
        return self.passed(self.leaves(leaf))

    def passed(self, leaves: Leaves) -> relax.Expr:
        """The parameter for a leaf; for a tuple, the tuple of its parameters."""
        if isinstance(leaves, tuple):
            return relax.Tuple([self.passed(part) for part in leaves])
        if isinstance(leaves.root, tvm.ir.GenericConst) and self.bind_constants:
            return leaves.root
        if leaves not in self.params:
            self.params[leaves] = relax.Var(leaves.name, leaves.ty)
        return self.params[leaves]

    def composite(self, name: str, nodes: Nodes) -> None:
        """Bind a composite as a local function and call it."""
        inner = _Body(self.graph, nodes, self.bind_constants)
        results = [Leaf(var) for var in inner.used_outside()] or [Leaf(self.graph.nodes[nodes[-1]].var)]
        func = inner.function(results, (), {"Composite": name})
        callee = relax.DataflowVar("local_func", func.ty)
        self.bindings.append(relax.VarBinding(callee, func))
        arguments = [
            self.operand(item.root) if isinstance(item, Leaf) and not item.path else self.read(item)
            for item in inner.arguments()
        ]
        call = relax.Call(callee, arguments, ret_ty=func.ret_ty)
        self.bind_results(results, call)

    def read(self, item: Leaf | relax.ShapeExpr) -> relax.Expr:
        """A field of a tuple from inside this function or from outside, or a shape."""
        if isinstance(item, relax.ShapeExpr):
            return item
        if not self.makes(item):
            return self.passed(item)
        return self.project(self.renamed[hash(item.root)], item)

    def project(self, whole: relax.Expr, leaf: Leaf) -> relax.Expr:
        for index in leaf.path:
            whole = self.bind(leaf.name, relax.TupleGetItem(whole, index))
        return whole

    def bind(self, name: str, value: relax.Expr) -> relax.Var:
        var = relax.DataflowVar(name, value.ty)
        self.bindings.append(relax.VarBinding(var, value))
        return var

    def bind_results(self, results: Sequence[Leaf], call: relax.Call) -> None:
        """Bind the results of a composite to the variables of its nodes."""
        if len(results) == 1:
            self.bindings.append(relax.VarBinding(self.renamed[hash(results[0].root)], call))
            return
        whole = self.bind("composite", call)
        for index, leaf in enumerate(results):
            field = relax.TupleGetItem(whole, index)
            self.bindings.append(relax.VarBinding(self.renamed[hash(leaf.root)], field))

    def result(self, results: Sequence[Leaf]) -> relax.Var:
        """The variable that the function returns."""
        if len(results) == 1 and not results[0].path:
            return self.renamed[hash(results[0].root)]
        known = self.known_fields() if any(leaf.path for leaf in results) else {}
        parts = [known.get(leaf) or self.project(self.renamed[hash(leaf.root)], leaf) for leaf in results]
        value = parts[0] if len(parts) == 1 else relax.Tuple(parts)
        out = relax.Var("out", value.ty)
        self.bindings.append(relax.VarBinding(out, value))
        return out

    def known_fields(self) -> dict[Leaf, relax.Var]:
        """The fields of tuple-valued ops that have a variable already."""
        known: dict[Leaf, relax.Var] = {}
        for node in self.nodes:
            var = self.graph.nodes[node].var
            if isinstance(self.graph.nodes[node].value, tvm.ir.TupleGetItem):
                leaf = self.leaves(var)
                if isinstance(leaf, Leaf) and leaf.path:
                    known.setdefault(leaf, self.renamed[hash(var)])
        return known

    # -- shape variables ---------------------------------------------------------------------------

    def close_shapes(self) -> bool:
        """Pass the shape variables that no parameter reveals; whether there are shape variables at all."""
        if not self.graph.has_shape_vars:
            return False
        used = {hash(var): var for binding in self.bindings for var in _shape_vars_of(binding)}
        revealed = {
            hash(var)
            for param in self.params.values()
            for var in relax.analysis.definable_tir_vars_in_type(param.ty)
        }
        hidden = [var for key, var in used.items() if key not in revealed]
        if hidden:
            shape = relax.ShapeExpr(hidden)
            self.shape_param = (relax.Var("shape_vars", shape.ty), shape)
        return bool(used)


def _shape_vars_of(binding: relax.Binding) -> list[relax.Var]:
    found = list(relax.analysis.tir_vars_in_type(binding.var.ty))
    if isinstance(binding.value, tvm.ir.Call):
        for argument in binding.value.args:
            if not isinstance(argument, tvm.ir.Var):
                found += relax.analysis.tir_vars_in_type(argument.ty)
    return found
