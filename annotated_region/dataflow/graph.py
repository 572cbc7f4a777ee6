"""The dataflow graph of a function: its scopes, its nodes and the annotated edges between them.

One walk over the bindings, in program order, numbers every binding that is not an annotation and records its
def-use edges with the annotations on each. Reading, writing, verifying, claiming and partitioning all work on
this graph.

Nodes are numbered such that every edge goes from a lower to a higher number; the nodes in the branches of an
`If` precede the `If` itself, because its result depends on theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Final, NamedTuple

from tvm import relax

from annotated_region.annotations import Annotation, Key
from annotated_region.collector import paused_collector
from annotated_region.expr_map import ExprMap
from annotated_region.graphs import Dag
from annotated_region.ids import NodeId, ScopeId, numbered

__all__ = ["DEAD", "RESULT", "Chains", "DataflowGraph", "Edge", "DataflowNode", "NodeKind", "Scope"]

RESULT: Final = NodeId(-1)
"""The consumer number of the function's result."""

DEAD: Final = NodeId(-2)
"""The consumer number of a ``compiler_end`` without users."""


class NodeKind(Enum):
    """The kind of a binding, which decides whether a region can contain it."""

    OPERATION = auto()
    """A pure call."""
    STRUCTURE = auto()
    """A tuple, a field of a tuple, an alias: moves no data."""
    LITERAL = auto()
    """A constant, shape, primitive value, data type, string or global function: belongs to its users."""
    BOUNDARY = auto()
    """An `If`, an impure call, a `MatchCast`, a local function: never in a region."""


@dataclass(slots=True)
class Scope:
    """One binding block.

    Attributes
    ----------
    index
        Its number, in program order.
    block
        The block itself.
    path
        A description of its position, such as ``"the true branch of 'y' in main"``.
    nodes
        The numbers of its nodes, in program order.
    """

    index: ScopeId
    block: relax.BindingBlock
    path: str
    nodes: list[NodeId] = field(default_factory=list)

    @property
    def is_dataflow(self) -> bool:
        """Whether the block is a dataflow block."""
        return isinstance(self.block, relax.DataflowBlock)


class DataflowNode(NamedTuple):
    """One binding of the function without annotations."""

    var: relax.Var
    binding: relax.Binding
    value: relax.Expr
    kind: NodeKind
    scope: ScopeId


class Edge(NamedTuple):
    """A def-use edge with its annotations.

    Attributes
    ----------
    producer
        The number of the defining node; ``-1 - k`` for the `k`-th external value.
    consumer
        The number of the using node, or `RESULT`, or `DEAD`.
    chain
        The number of the annotation chain on the edge; 0 is the empty chain.
    """

    producer: NodeId
    consumer: NodeId
    chain: int


class Chains:
    """The interned annotation chains of a function; number 0 is the empty chain."""

    def __init__(self) -> None:
        self.tokens: list[tuple[Annotation, ...]] = [()]
        self.keys: list[tuple[Key, ...]] = [()]
        self._longer: dict[tuple[int, Annotation], int] = {}

    def extend(self, chain: int, token: Annotation) -> int:
        """The number of `chain` extended by `token`."""
        known = self._longer.get((chain, token))
        if known is not None:
            return known
        self.tokens.append((*self.tokens[chain], token))
        self.keys.append(tuple(dict.fromkeys((*self.keys[chain], token.key))))
        return self._longer.setdefault((chain, token), len(self.tokens) - 1)


class DataflowGraph:
    """The nodes of a function and the edges between them, as `read_dataflow` builds them.

    Parameters
    ----------
    func
        The function to read, annotated or not.
    name
        Its name, for messages; by default its ``global_symbol``.
    begin, end
        The names of the annotation ops.

    Attributes
    ----------
    scopes, nodes
        In program order.
    externals
        Parameters, then variables captured from other functions, in order of first use.
    into, out_of
        For each node, its incoming edges (one for each distinct value and chain, in order of use) and its
        outgoing edges; ``external_out`` has the outgoing edges of the externals, ``result_edges`` those to
        the result.
    order_edges
        Pairs of nodes that must run in this order although the second does not use the first: a captured
        value before the `If` that uses it, a `MatchCast` before the users of its shape variables, effects in
        sequence, and readers of a value before a node that overwrites it.
    has_shape_vars
        Whether any shape depends on a variable.
    unused_begins
        The edges to a ``compiler_begin`` without users; their consumer is `DEAD`.
    annotation_values
        For each annotation variable, the expression that it annotates; inside a chain that is another
        annotation variable.
    """

    def __init__(self, func: relax.Function, name: str | None, begin: str, end: str) -> None:
        self.func = func
        self.name = name or _symbol_of(func) or "the function"
        self.begin, self.end = begin, end
        self.chains = Chains()
        self.scopes: list[Scope] = []
        self.nodes: list[DataflowNode] = []
        self.externals: list[relax.Var] = []
        self.bare_externals: set[NodeId] = set()
        self.into: list[list[Edge]] = []
        self.out_of: list[list[Edge]] = []
        self.external_out: list[list[Edge]] = []
        self.result_edges: list[Edge] = []
        self.order_edges: list[tuple[NodeId, NodeId]] = []
        self.unused_begins: list[Edge] = []
        self.has_shape_vars = False
        self.annotation_values: ExprMap[relax.Expr] = ExprMap()
        self._number: ExprMap[NodeId] = ExprMap()

    @property
    def is_annotated(self) -> bool:
        """Whether the function has annotations."""
        return bool(self.annotation_values)

    @cached_property
    @paused_collector()
    def dag(self) -> Dag:
        """The nodes and their dependences (values and `order_edges`) as an integer graph.

        O(nodes + edges) at the first access, which must not precede the end of the walk.
        """
        successors: list[list[int]] = [[] for _ in self.nodes]
        for consumer, edges in enumerate(self.into):
            for edge in edges:
                if edge.producer >= 0:
                    successors[edge.producer].append(consumer)
        for before, after in self.order_edges:
            successors[before].append(after)
        return Dag(successors)

    def numbered(self) -> Iterator[tuple[NodeId, DataflowNode]]:
        """The nodes, each with its number."""
        return numbered(NodeId, self.nodes)

    def number_of(self, var: relax.Expr) -> NodeId | None:
        """The number of the node that binds `var`; None if no node does. O(1)."""
        return self._number.get(var)

    def bind_number(self, var: relax.Var, number: NodeId) -> None:
        """Record that the node `number` binds `var`."""
        self._number[var] = number

    def producer_var(self, producer: NodeId) -> relax.Var:
        """The variable of a producer: of a node, or of an external value."""
        return self.nodes[producer].var if producer >= 0 else self.externals[-1 - producer]

    def is_literal(self, producer: NodeId) -> bool:
        """Whether a producer is a literal, which belongs to its users."""
        if producer >= 0:
            return self.nodes[producer].kind is NodeKind.LITERAL
        return producer in self.bare_externals

    def leaving(self, producer: NodeId) -> list[Edge]:
        """The outgoing edges of a producer, a node or an external value."""
        return self.out_of[producer] if producer >= 0 else self.external_out[-1 - producer]

    def edges(self) -> Iterator[Edge]:
        """All edges: those of each node's operands in program order, then those to the result."""
        for edges in self.into:
            yield from edges
        yield from self.result_edges

    def describe(self, edge: Edge) -> str:
        """A description of an edge, for messages."""
        consumer = {RESULT: "the result", DEAD: "none"}.get(edge.consumer)
        if consumer is None:
            consumer = repr(self.nodes[edge.consumer].var.name)
        return f"{self.producer_var(edge.producer).name!r} -> {consumer}"


def _symbol_of(func: relax.Function) -> str | None:
    if not func.attrs or "global_symbol" not in func.attrs:
        return None
    return str(func.attrs["global_symbol"])
