"""The constants of a function and their readers, traced through tuples and aliases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.expr_map import ExprMap
from annotated_region.ids import NodeId
from annotated_region.targets.extents import size_of
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["ReadConstant", "constants_of_nodes"]


@dataclass(frozen=True, slots=True)
class ReadConstant:
    """A constant: its size in bytes, and the ops that read it, ascending."""

    size: int
    readers: tuple[NodeId, ...]


def constants_of_nodes(graph: DataflowGraph) -> Sequence[ReadConstant]:
    """The constants that ops of a function read, in order of first use; each object once. O(edges)."""
    readers: ExprMap[dict[NodeId, None]] = ExprMap()
    for number, node in graph.numbered():
        if node.kind is NodeKind.OPERATION and isinstance(node.value, relax.Call):
            for argument in node.value.args:
                for constant in _constants_in(graph, argument):
                    if constant not in readers:
                        readers[constant] = {}
                    readers[constant][number] = None
    return [ReadConstant(size_of(constant.ty), tuple(readers[constant])) for constant in readers]


def _constants_in(graph: DataflowGraph, expr: relax.Expr) -> Iterator[Constant]:
    """The constants in an argument, which may be a tuple or an alias."""
    if isinstance(expr, Constant):
        yield expr
    elif isinstance(expr, relax.Tuple):
        for part in expr.fields:
            yield from _constants_in(graph, part)
    elif isinstance(expr, relax.TupleGetItem):
        yield from _constants_in(graph, expr.tuple_value)
    elif isinstance(expr, relax.Var):
        number = graph.number_of(expr)
        if number is not None and graph.nodes[number].kind in (NodeKind.LITERAL, NodeKind.STRUCTURE):
            yield from _constants_in(graph, graph.nodes[number].value)
