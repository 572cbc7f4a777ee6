"""Builds a function from nodes of another one: the common base of external functions and composites.

Composites are local functions with the attribute ``Composite``, called inside an external function. As in
TVM, a composite has one parameter for each distinct variable that enters, tuples included, and returns the
variables with outside users. Shape variables that no parameter determines are passed in one extra parameter,
a shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax.utils import copy_with_new_vars

from annotated_region.dataflow.graph import DEAD, DataflowGraph, NodeKind
from annotated_region.dataflow.leaves import LeafTable
from annotated_region.expr_map import ExprMap
from annotated_region.functions.rewriting import replace_operands, typed
from annotated_region.functions.shape_variables import in_order_of_appearance
from annotated_region.ids import NodeId
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["CompositeFunction", "FunctionBody", "Surroundings", "composite_function"]

Nodes = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The unannotated function that nodes are taken from, with analyses shared by all its regions.

    Attributes
    ----------
    graph
        Its dataflow graph.
    leaves
        The leaves of its variables.
    is_symbolic
        Whether shapes or values depend on symbolic variables.
    """

    graph: DataflowGraph
    leaves: LeafTable
    is_symbolic: bool

    @staticmethod
    def of(graph: DataflowGraph) -> Surroundings:
        """Analyse a function. O(its structural nodes)."""
        numbers = any(isinstance(var.ty, tvm.ir.PrimType) for var in graph.externals)
        return Surroundings(graph, LeafTable(graph), graph.has_shape_vars or numbers)


class FunctionBody(ABC):
    """A function under construction.

    Parameters
    ----------
    source
        The function that its nodes are taken from.
    nodes
        The nodes.
    bind_constants
        Whether tensor constants stay inside or become parameters.
    """

    def __init__(self, source: Surroundings, nodes: Nodes, bind_constants: bool) -> None:
        self.source = source
        self.graph = source.graph
        self.nodes = nodes
        self.inside = frozenset(nodes)
        self.bind_constants = bind_constants
        self.renamed: ExprMap[relax.Var] = ExprMap()
        self.entering: list[relax.Binding] = []
        self.bindings: list[relax.Binding] = []
        self.params: list[relax.Var] = []
        self.constants: list[Constant] = []
        self.hidden: relax.ShapeExpr | None = None
        self._names: dict[str, int] = {}

    @abstractmethod
    def imported(self, expr: relax.Expr) -> relax.Expr:
        """The replacement of a variable, or an unbound constant, of the source function."""

    def var_of(self, node: NodeId) -> relax.Var:
        """The variable of a node in the source function."""
        return self.graph.nodes[node].var

    def here(self, node: NodeId) -> relax.Var:
        """The variable of a node in this function."""
        return self.renamed[self.var_of(node)]

    def used_outside(self) -> list[NodeId]:
        """The nodes with outside users, in program order."""
        not_outside = {DEAD, *self.nodes}
        return [
            node
            for node in self.nodes
            if any(edge.consumer not in not_outside for edge in self.graph.out_of[node])
        ]

    def name_nodes(self, results: Sequence[NodeId]) -> None:
        """Create a variable for every node; only those of results are visible outside the dataflow block."""
        leaving = set(results)
        for node in self.nodes:
            var = self.var_of(node)
            kind = relax.Var if node in leaving else relax.DataflowVar
            self.renamed[var] = kind(var.name, var.ty, var.span)

    def bind_node(self, node: NodeId) -> None:
        """Copy the binding of one node."""
        value = replace_operands(self.graph.nodes[node].value, self.operand)
        self.bindings.append(relax.VarBinding(self.here(node), value))

    def operand(self, expr: relax.Expr) -> relax.Expr:
        """The replacement of a variable or a constant of the source function."""
        here = self.renamed.get(expr)
        if here is not None:
            return here
        if isinstance(expr, Constant):
            return self.inner_constant(expr) if self.stays(expr) else self.imported(expr)
        number = self.graph.number_of(expr)
        if number is None:
            return expr if _is_shape_var(expr) else self.imported(expr)
        if self.graph.nodes[number].kind is NodeKind.LITERAL:
            return replace_operands(self.graph.nodes[number].value, self.operand)
        return self.imported(expr)

    def stays(self, constant: Constant) -> bool:
        """Whether a constant stays inside; only tensors can become parameters."""
        return self.bind_constants or not isinstance(constant.ty, relax.TensorType)

    def inner_constant(self, constant: Constant) -> relax.Expr:
        """A constant that stays inside."""
        if isinstance(constant.value, tvm.runtime.Tensor):
            self.constants.append(constant)
        return constant

    def new_param(self, name: str, ty: tvm.ir.Type) -> relax.Var:
        """Add a parameter; its name is made unique."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        if count:
            return self.new_param(f"{name}_{count}", ty)
        self.params.append(relax.Var(name, ty))
        return self.params[-1]

    def bind(self, name: str, value: relax.Expr, leaves: bool = False) -> relax.Var:
        """Bind a value to a fresh variable; `leaves` makes it visible outside the block."""
        var = (relax.Var if leaves else relax.DataflowVar)(name, value.ty)
        self.bindings.append(relax.VarBinding(var, value))
        return var

    def finish(self, result: relax.Expr, attributes: Mapping[str, object]) -> relax.Function:
        """The function that returns `result`; it shares no variable with the source function."""
        func = self._function(result, attributes)
        if not self.source.is_symbolic:
            return func
        types = [binding.var.ty for binding in self.bindings]
        hidden = in_order_of_appearance(relax.analysis.free_symbolic_vars(func), types)
        if hidden:
            self.hidden = relax.ShapeExpr(hidden)
            self.new_param("shape_vars", self.hidden.ty)
            func = self._function(result, attributes)
        return copy_with_new_vars(func)

    def _function(self, result: relax.Expr, attributes: Mapping[str, object]) -> relax.Function:
        blocks: list[relax.BindingBlock] = [relax.DataflowBlock(self.bindings)]
        if self.entering:
            blocks.insert(0, relax.BindingBlock(self.entering))
        body = typed(relax.SeqExpr(blocks, result), result.ty)
        attrs = tvm.ir.make_node("ir.DictAttrs", **attributes)
        return relax.Function(self.params, body, result.ty, True, attrs)


def _is_shape_var(expr: relax.Expr) -> bool:
    """Whether an unbound variable is a number that a shape parameter can pass."""
    return isinstance(expr.ty, tvm.ir.PrimType) and str(expr.ty) == "int64"


@dataclass(frozen=True, slots=True)
class CompositeFunction:
    """A composite function and its call.

    Attributes
    ----------
    func
        The local function.
    arguments
        The arguments of its call: variables and constants of the source function, and a shape if it needs
        one.
    results
        The nodes that it returns.
    constants
        The tensor constants that stay inside, in the order of their uses.
    """

    func: relax.Function
    arguments: tuple[relax.Expr, ...]
    results: tuple[NodeId, ...]
    constants: tuple[Constant, ...]


def composite_function(
    source: Surroundings, nodes: Nodes, name: str, bind_constants: bool, further: Mapping[str, object]
) -> CompositeFunction:
    """Build a composite from nodes in program order; `further` are its attributes besides the name."""
    body = _CompositeBody(source, nodes, bind_constants)
    results = body.used_outside() or [nodes[-1]]
    body.name_nodes(results)
    for node in nodes:
        body.bind_node(node)
    values = [body.here(node) for node in results]
    func = body.finish(values[0] if len(values) == 1 else relax.Tuple(values), {"Composite": name, **further})
    shape = [] if body.hidden is None else [body.hidden]
    return CompositeFunction(func, (*body.taken, *shape), tuple(results), tuple(body.constants))


class _CompositeBody(FunctionBody):
    def __init__(self, source: Surroundings, nodes: Nodes, bind_constants: bool) -> None:
        super().__init__(source, nodes, bind_constants)
        self.taken: list[relax.Expr] = []

    def imported(self, expr: relax.Expr) -> relax.Expr:
        self.taken.append(expr)
        self.renamed[expr] = self.new_param(getattr(expr, "name", "constant"), expr.ty)
        return self.renamed[expr]
