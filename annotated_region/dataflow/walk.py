"""The walk over the bindings of a function that builds its dataflow graph.

The walk distinguishes these cases:

1. an annotation: not a node; it extends the chain of its argument. Only where its variable also makes a
   dataflow variable visible outside its block does it become an alias node, as it will when annotations are
   stripped;
2. a call, a tuple, a tuple field, an alias: a node with an edge from each distinct leaf operand;
3. an `If`: its branches are separate scopes, walked first; their results are its operands;
4. a local function: as case 3, with its parameters as external values;
5. a `MatchCast`: a node that may define shape variables, whose users are ordered after it. One that defines
   none checks extents, and later users of their variables are ordered after it;
6. anything else is a literal.

Bindings with effects keep their order, and nodes that may overwrite a value keep their order relative to its
readers (see ``annotated_region.dataflow.memory_order``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import cast

import tvm
from tvm import relax

from annotated_region.annotations import BEGIN, END, Annotation, annotation_of
from annotated_region.collector import paused_collector
from annotated_region.dataflow.graph import DEAD, RESULT, DataflowGraph, DataflowNode, Edge, NodeKind, Scope
from annotated_region.dataflow.memory_order import order_around_overwriting
from annotated_region.errors import InvalidModuleError, MalformedAnnotationError
from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.ids import NodeId, ScopeId
from annotated_region.tvm_adapter.types import shape_vars_of

__all__ = ["read_dataflow"]


class _Form(Enum):
    """The syntactic form of an expression."""

    VARIABLE = auto()
    CALL = auto()
    TUPLE = auto()
    FIELD = auto()
    CONDITIONAL = auto()
    FUNCTION = auto()
    BODY = auto()
    OTHER = auto()


_FORMS: dict[type, _Form] = {
    relax.Var: _Form.VARIABLE,
    relax.Call: _Form.CALL,
    relax.Tuple: _Form.TUPLE,
    relax.TupleGetItem: _Form.FIELD,
    relax.If: _Form.CONDITIONAL,
    relax.Function: _Form.FUNCTION,
    relax.SeqExpr: _Form.BODY,
}


def _form_of(kind: type) -> _Form:
    # A failing isinstance check against a TVM class is slower than the rest of the walk over a binding, so
    # the form of each class is cached.
    form = _FORMS.get(kind)
    if form is None:
        form = next((form for known, form in _FORMS.items() if issubclass(kind, known)), _Form.OTHER)
        _FORMS[kind] = form
    return form


Origin = tuple[NodeId, int]
"""The source of a value: the numbers of its producer and of the annotation chain it came through."""


@dataclass(frozen=True, slots=True)
class _Nature:
    """The side effects of a call."""

    claimable: bool = False
    overwrites: bool = False
    has_effect: bool = False


_PURE = _Nature(claimable=True)
_IN_PLACE = _Nature(overwrites=True)
_LOOKS_ONLY = _Nature(has_effect=True)
_ANYTHING = _Nature(overwrites=True, has_effect=True)

_SPECIAL_OPS = {
    "relax.call_tir_inplace": _IN_PLACE,
    "relax.call_inplace_packed": _IN_PLACE,
    "relax.print": _LOOKS_ONLY,
    "relax.assert_op": _LOOKS_ONLY,
}


def _nature_of(op: relax.Expr) -> _Nature:
    if isinstance(op, tvm.ir.Op):
        return _SPECIAL_OPS.get(op.name, _PURE if op.get_attr("FPurity") else _ANYTHING)
    if not getattr(op.ty, "purity", False):
        return _ANYTHING
    # No code generator can compile a function held in a variable, pure or not.
    return _PURE if isinstance(op, tvm.ir.GlobalVar) else _Nature()


@dataclass(slots=True)
class _Frame:
    """The body of an `If` or a local function that is being walked."""

    first_node: NodeId
    first_scope: ScopeId
    captured: dict[NodeId, None] = field(default_factory=dict)


def read_dataflow(
    func: relax.Function, name: str | None = None, begin: str = BEGIN, end: str = END
) -> DataflowGraph:
    """The dataflow graph of `func`, annotated or not.

    Parameters
    ----------
    func
        The function to read; it is not changed.
    name
        Its name, for messages; by default what its ``global_symbol`` says.
    begin, end
        The names of the annotation ops.

    Raises
    ------
    MalformedAnnotationError
        An annotation names no target, or does not have exactly one operand.
    InvalidModuleError
        The function is not in normal form: an operand is itself a call or a conditional.

    Notes
    -----
    Time and memory are linear in the number of bindings and operands.
    """
    graph = DataflowGraph(func, name, begin, end)
    with paused_collector():
        walker = _Walker(graph)
        for param in graph.func.params:
            walker.external(param)
        results = walker.body(graph.func.body, graph.name)
        graph.result_edges += walker.edges_to(RESULT, results)
        walker.finish()
    graph.has_shape_vars = bool(walker.shape_vars)
    return graph


class _Walker:
    # TVM arrays are copied by slicing, which crosses the FFI once for the size instead of once per element.

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.origin: ExprMap[Origin] = ExprMap()
        self.annotation_ops = ExprSet(tvm.ir.Op.get(name) for name in (graph.begin, graph.end))
        self.natures: ExprMap[_Nature] = ExprMap()
        self.unused: ExprMap[Origin] = ExprMap()
        self.tokens: ExprMap[ExprMap[Annotation]] = ExprMap()
        self.frames: list[_Frame] = []
        self.shape_vars = ExprSet(var for param in graph.func.params for var in _shape_vars(param.ty))
        self.shape_makers: ExprMap[NodeId] = ExprMap()
        self.last_effect: dict[ScopeId, NodeId] = {}
        self.overwriting: list[NodeId] = []

    def external(self, var: relax.Var) -> Origin:
        """Assign a number to an external value."""
        self.graph.externals.append(var)
        self.graph.external_out.append([])
        origin = (NodeId(-len(self.graph.externals)), 0)
        self.origin[var] = origin
        return origin

    def body(self, body: relax.Expr, path: str) -> list[Origin]:
        """Walk the blocks of a body; returns the origins of its result."""
        if not isinstance(body, relax.SeqExpr):
            return self.leaves([body])
        for block in body.blocks:
            scope = Scope(ScopeId(len(self.graph.scopes)), block, path)
            self.graph.scopes.append(scope)
            for binding in block.bindings[:]:
                self.binding(binding, scope)
        return self.leaves([body.body])

    def binding(self, binding: relax.Binding, scope: Scope) -> None:
        value = binding.value
        form = _form_of(type(value))
        if type(binding) is relax.MatchCast:
            self.match_cast(binding, value, scope)
        elif form is _Form.CALL:
            call = cast(relax.Call, value)
            op = call.op
            if op in self.annotation_ops:
                self.annotation(binding.var, call, scope)
            else:
                self.call(binding, call, op, scope)
        elif form is _Form.CONDITIONAL:
            self.conditional(binding, cast(relax.If, value), scope)
        elif form is _Form.FUNCTION:
            self.local_function(binding, cast(relax.Function, value), scope)
        elif form in (_Form.TUPLE, _Form.FIELD, _Form.VARIABLE):
            self.node(binding, value, NodeKind.STRUCTURE, scope, self.leaves([value]))
        else:
            self.node(binding, value, NodeKind.LITERAL, scope, [])

    def annotation(self, var: relax.Var, call: relax.Call, scope: Scope) -> None:
        """Case 1."""
        args = call.args[:]
        token = self.token_of(var, call, len(args))
        argument = args[0]
        origins = self.leaves(args)
        if _form_of(type(argument)) is not _Form.VARIABLE or not origins:
            self.refuse_tuple(var, argument)
            origins = [self.external(var)]
            self.graph.bare_externals.add(origins[0][0])
        producer, chain = origins[0]
        if scope.is_dataflow and self.carries_out(var, producer):
            name = relax.VarBinding(var, self.graph.nodes[producer].var)
            producer = self.node(name, name.value, NodeKind.STRUCTURE, scope, [(producer, 0)])
        self.origin[var] = self.unused[var] = (producer, self.graph.chains.extend(chain, token))
        self.graph.annotation_values[var] = argument

    def carries_out(self, var: relax.Var, producer: NodeId) -> bool:
        """Whether the annotation `var` is visible outside the block of the value that it annotates."""
        return (
            producer >= 0
            and not isinstance(var, relax.DataflowVar)
            and isinstance(self.graph.nodes[producer].var, relax.DataflowVar)
        )

    def token_of(self, var: relax.Var, call: relax.Call, values: int) -> Annotation:
        # Annotations written by this package share one attribute object per key, so each key is converted
        # once and then found by identity. Begin and end differ by the op.
        tokens = self.tokens.setdefault(call.op, ExprMap())
        token = tokens.get(call.attrs)
        if token is not None and values == 1:
            return token
        try:
            token = annotation_of(call, self.graph.begin, self.graph.end)
        except MalformedAnnotationError as error:
            raise MalformedAnnotationError(f"{self.graph.name}: binding {var.name!r}: {error}") from error
        assert token is not None, "only annotation calls come here"
        tokens[call.attrs] = token
        return token

    def refuse_tuple(self, var: relax.Var, argument: relax.Expr) -> None:
        if isinstance(argument, relax.Tuple):
            raise MalformedAnnotationError(
                f"{self.graph.name}: binding {var.name!r} annotates a tuple as a whole; annotate its fields "
                "one by one, or bind the tuple to a variable first"
            )

    def node(
        self,
        binding: relax.Binding,
        value: relax.Expr,
        kind: NodeKind,
        scope: Scope,
        operands: list[Origin],
    ) -> NodeId:
        """Case 2: create a node and connect its operands."""
        graph = self.graph
        number = NodeId(len(graph.nodes))
        var = binding.var
        graph.nodes.append(DataflowNode(var, binding, value, kind, scope.index))
        graph.into.append([])
        graph.out_of.append([])
        graph.bind_number(var, number)
        scope.nodes.append(number)
        graph.into[number] = self.edges_to(number, operands)
        if self.shape_makers:
            self.order_after_shape_producers(number, value, var.ty)
        self.origin[var] = (number, 0)
        return number

    def call(self, binding: relax.Binding, value: relax.Call, op: relax.Expr, scope: Scope) -> None:
        """Case 2, for calls."""
        nature = self.nature_of_call(op)
        kind = NodeKind.OPERATION if nature.claimable else NodeKind.BOUNDARY
        number = self.node(binding, value, kind, scope, self.call_leaves(value, op))
        if nature.overwrites:
            self.overwriting.append(number)
        if nature.has_effect:
            self.keep_effects_in_order(number, scope)

    def keep_effects_in_order(self, number: NodeId, scope: Scope) -> None:
        before = self.last_effect.get(scope.index)
        if before is not None:
            self.graph.order_edges.append((before, number))
        self.last_effect[scope.index] = number

    def conditional(self, binding: relax.Binding, value: relax.If, scope: Scope) -> None:
        """Case 3."""
        name = binding.var.name
        frame = self.open_frame()
        operands = self.leaves([value.cond])
        operands += self.body(value.true_branch, f"the true branch of {name!r} in {scope.path}")
        operands += self.body(value.false_branch, f"the false branch of {name!r} in {scope.path}")
        number = self.node(binding, value, NodeKind.BOUNDARY, scope, operands)
        self.close_frame(frame, number)
        self.keep_effects_in_order(number, scope)

    def local_function(self, binding: relax.Binding, value: relax.Function, scope: Scope) -> None:
        """Case 4."""
        frame = self.open_frame()
        for param in value.params:
            self.external(param)
            for var in _shape_vars(param.ty):
                self.shape_vars.add(var)
        operands = self.body(value.body, f"the local function {binding.var.name!r} in {scope.path}")
        self.close_frame(frame, self.node(binding, value, NodeKind.BOUNDARY, scope, operands))

    def match_cast(self, binding: relax.MatchCast, value: relax.Expr, scope: Scope) -> None:
        """Case 5."""
        if isinstance(value, relax.Call):
            if value.op in self.annotation_ops:
                raise MalformedAnnotationError(
                    f"{self.graph.name}: binding {binding.var.name!r}: an annotation is inside a "
                    "MatchCast; bind it to a variable of its own first"
                )
            operands = self.call_leaves(value, value.op)
        else:
            operands = self.leaves([value])
        number = self.node(binding, value, NodeKind.BOUNDARY, scope, operands)
        defined = [var for var in _shape_vars(binding.ty) if var not in self.shape_vars]
        for var in defined:
            self.shape_vars.add(var)
        for var in defined or self.shape_vars_made_in(scope, value.ty):
            self.shape_makers[var] = number

    def shape_vars_made_in(self, scope: Scope, ty: tvm.ir.Type) -> list[relax.Var]:
        """The shape variables in a type that a `MatchCast` of this scope defines."""
        made = [(var, self.shape_makers.get(var)) for var in _shape_vars(ty)]
        return [
            var for var, maker in made if maker is not None and self.graph.nodes[maker].scope == scope.index
        ]

    def order_after_shape_producers(self, number: NodeId, value: relax.Expr, ty: tvm.ir.Type) -> None:
        used = [*_shape_vars(ty), *_shape_vars_of_operands(value)]
        makers = dict.fromkeys(self.shape_makers.get(var, number) for var in used)
        self.graph.order_edges += [(maker, number) for maker in makers if maker != number]

    def open_frame(self) -> _Frame:
        self.frames.append(_Frame(NodeId(len(self.graph.nodes)), ScopeId(len(self.graph.scopes))))
        return self.frames[-1]

    def close_frame(self, frame: _Frame, number: NodeId) -> None:
        self.frames.pop()
        self.graph.order_edges += [(producer, number) for producer in frame.captured]
        inner = [scope.index for scope in self.graph.scopes[frame.first_scope :]]
        effects = [self.last_effect[scope] for scope in inner if scope in self.last_effect]
        self.graph.order_edges += [(effect, number) for effect in effects]

    def nature_of_call(self, op: relax.Expr) -> _Nature:
        nature = self.natures.get(op)
        if nature is None:
            nature = self.natures[op] = _nature_of(op)
        return nature

    def call_leaves(self, call: relax.Call, op: relax.Expr) -> list[Origin]:
        operands = call.args[:]
        if type(op) is not tvm.ir.Op:
            operands.append(op)
        return self.leaves(operands)

    def leaves(self, exprs: Iterable[relax.Expr]) -> list[Origin]:
        """The origins of all variables in `exprs`, in order of use."""
        found: list[Origin] = []
        for expr in exprs:
            form = _form_of(type(expr))
            if form is _Form.VARIABLE:
                found += self.origins_of(cast(relax.Var, expr))
            elif form is not _Form.OTHER:
                found += self.inner_leaves(expr, form)
        return found

    def origins_of(self, var: relax.Var) -> tuple[Origin, ...]:
        """The origin of a variable; empty for a shape variable."""
        origin = self.origin.get(var)
        if origin is None:
            # A shape variable is a number defined by parameters and casts, not a value.
            return () if isinstance(var.ty, tvm.ir.PrimType) else (self.external(var),)
        if origin[1]:
            self.unused.discard(var)
        return (origin,)

    def inner_leaves(self, expr: relax.Expr, form: _Form) -> list[Origin]:
        if form is _Form.TUPLE:
            return self.leaves(cast(relax.Tuple, expr).fields[:])
        if form is _Form.FIELD:
            return self.leaves([cast(relax.TupleGetItem, expr).tuple_value])
        if form is _Form.FUNCTION:
            return self.leaves(relax.analysis.free_vars(expr))
        # A call over shape variables computes a number and has no value operands.
        if isinstance(expr.ty, tvm.ir.PrimType):
            return []
        raise InvalidModuleError(
            f"{self.graph.name} is not in normal form: {expr} is an operand; apply "
            "relax.transform.Normalize() first"
        )

    def edges_to(self, consumer: NodeId, operands: list[Origin]) -> list[Edge]:
        """One edge for each distinct operand, added to the lists of its producer."""
        edges = [Edge(producer, consumer, chain) for producer, chain in dict.fromkeys(operands)]
        for edge in edges:
            self.graph.leaving(edge.producer).append(edge)
            for frame in reversed(self.frames):
                if not 0 <= edge.producer < frame.first_node:
                    break
                frame.captured[edge.producer] = None
        return edges

    def finish(self) -> None:
        """Add the unused annotations: an unused end still proves its producer inside."""
        graph = self.graph
        for producer, chain in self.unused.values():
            edge = Edge(producer, DEAD, chain)
            if graph.chains.tokens[chain][-1].begins:
                graph.unused_begins.append(edge)
            else:
                graph.leaving(producer).append(edge)
        if self.overwriting:
            graph.order_edges += order_around_overwriting(graph, self.overwriting)


def _shape_vars(ty: tvm.ir.Type) -> list[relax.Var]:
    return shape_vars_of(ty)


def _shape_vars_of_operands(value: relax.Expr) -> Iterator[relax.Var]:
    if isinstance(value, relax.Call):
        for argument in value.args:
            if isinstance(argument, relax.ShapeExpr):
                yield from _shape_vars(argument.ty)
