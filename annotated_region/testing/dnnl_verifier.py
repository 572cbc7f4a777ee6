"""Verifies graphs of the dnnl backend: the order of nodes, and the types and shapes of each node kind.

Tests run it between passes, through ``rewriter.verification(verify)``. Each kind has its own law; properties
without a law (the extents of a convolution, which its import computes) are left to oneDNN.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from annotated_region.backends.dnnl.graph import DataType, Graph, Kind, Node
from annotated_region.testing.dnnl_laws import BYTES, LAWS, Shape, repeats_to

__all__ = ["verify"]

WHOLE = (DataType.INT32, DataType.INT64)
WHOLE_KINDS = (Kind.WHOLE, Kind.WHOLE_CONVOLUTION, Kind.WHOLE_MATMUL, Kind.WHOLE_REDUCTION)
INDEXED = {Kind.GATHER: 1, Kind.GATHER_ELEMENTS: 1, Kind.SCATTER: 2, Kind.SCATTER_ELEMENTS: 2}
"""The kinds with indices, which follow this many data operands."""
MOVING = (
    Kind.RESHAPE,
    Kind.PERMUTE,
    Kind.SLICE,
    Kind.CONCAT,
    Kind.EXPAND,
    Kind.SELECT,
    Kind.PAD,
    Kind.BORDER_PAD,
    Kind.CUMULATION,
    *INDEXED,
)
OTHERS = (
    Kind.QUANTIZE,
    Kind.DEQUANTIZE,
    Kind.REQUANTIZE,
    Kind.LOOKUP,
    Kind.CAST,
    Kind.WHOLE,
    Kind.WHOLE_MATMUL,
    Kind.WHOLE_REDUCTION,
    Kind.COMPARISON,
    Kind.PREDICATE,
    Kind.PACKED_PRODUCT,
    Kind.ORDERING,
    Kind.RECURRENCE,
)
NUMERIC = (set(LAWS) - {*MOVING, *OTHERS}) | {
    Kind.CONVOLUTION,
    Kind.DECONVOLUTION,
}

_sound: list[object] = []
"""The immutable parts of the last graph that was sound: most passes leave a graph as it is."""


def verify(graph: Graph, maker: str) -> None:
    """Check a graph.

    Parameters
    ----------
    graph
        The graph.
    maker
        The pass that produced it, for the message.

    Raises
    ------
    AssertionError
        The graph is invalid; the message lists the invalid nodes with their errors.
    """
    parts = [graph, *graph.tensors, *graph.nodes, *graph.outputs, *graph.packed.values()]
    if len(parts) == len(_sound) and all(map(operator.is_, parts, _sound)):
        return
    problems = [
        *_order_problems(graph),
        *(problem for node in graph.nodes for problem in _problems(graph, node)),
    ]
    assert not problems, f"{graph.symbol}: {maker} left an unsound graph:\n" + "\n".join(problems)
    _sound[:] = parts


def _order_problems(graph: Graph) -> Iterator[str]:
    """Each tensor is defined once, before its uses."""
    known = {index for index, tensor in enumerate(graph.tensors) if tensor.source is not None}
    for node in graph.nodes:
        yield from (
            f"{node}: reads tensor {each} before it is made" for each in node.operands if each not in known
        )
        if node.output in known:
            yield f"{node}: makes a tensor that there was before"
        known.add(node.output)
    yield from (f"result {each} is not made" for each in graph.outputs if each not in known)


def _problems(graph: Graph, node: Node) -> Iterator[str]:
    operands = [graph.shape(tensor) for tensor in node.inputs]
    result = graph.shape(node.output)
    law = LAWS.get(node.kind)
    found = [*_type_problems(graph, node), *_chain_problems(graph, node, result)]
    found += [] if law is None else law(graph, node, operands, result)
    yield from (f"{node.kind.value} {operands} -> {result} {node.parameters}: {problem}" for problem in found)


def _type_problems(graph: Graph, node: Node) -> Iterator[str]:
    types = [graph.dtype(tensor) for tensor in node.inputs]
    made = graph.dtype(node.output)
    if node.kind is Kind.QUANTIZE and (types[0] is not DataType.FLOAT32 or made not in BYTES):
        yield f"quantizes {types[0]} to {made}"
    if node.kind is Kind.DEQUANTIZE and (types[0] is DataType.FLOAT32 or made is not DataType.FLOAT32):
        yield f"dequantizes {types[0]} to {made}"
    if node.kind in MOVING and any(each is not made for each in _moved(node, types)):
        yield f"moves {types} and makes {made}"
    if node.kind in INDEXED and set(types[INDEXED[node.kind] :]) != {DataType.INT64}:
        yield f"has indices of {types[INDEXED[node.kind] :]}"
    if node.kind in (Kind.COMPARISON, Kind.PREDICATE) and (len(set(types)), made) != (1, DataType.FLOAT32):
        yield f"makes {made} of {types}"
    is_of_one_type = all(each is made for each in types)
    if node.kind in WHOLE_KINDS and not (made in WHOLE and is_of_one_type):
        yield f"makes {made} of {types}"
    if node.kind in NUMERIC and node.quantized is None and {*types, made} != {DataType.FLOAT32}:
        yield f"computes {types} to {made}"
    if node.quantized is not None and (types[0] not in BYTES or types[1] is not DataType.INT8):
        yield f"is a product of int8 and reads {types}"


def _moved(node: Node, types: Sequence[DataType]) -> Sequence[DataType]:
    """The types of the data operands of a data movement node, without conditions and indices."""
    if node.kind is Kind.SELECT:
        return types[1:]
    return types[: INDEXED.get(node.kind)]


def _chain_problems(graph: Graph, node: Node, result: Shape) -> Iterator[str]:
    """Operands of post-ops can be broadcast to the shape of the result."""
    for post in node.post_ops:
        if post.operand is not None and not repeats_to(graph.shape(post.operand), result):
            yield f"{post} reads extents {graph.shape(post.operand)}"
