"""Products of int8: recognized from quantization and dequantization around convolutions and matrix products.

A quantized network says for each tensor how coarse it is, and computes with numbers in between::

    x_q --> dequantize --> conv --> add(bias) --> relu --> quantize --> y_q
    w_q --> dequantize -----^

which oneDNN computes as one primitive of int8: integer sums, scales and zero points applied at the end. The
pass runs around `fuse`, which sees to bias and post-ops:

1. `lower_products`, before it: views and largest values are taken of the int8 elements, ahead of their
   dequantization; what is dequantized and quantized again in the same way was never touched; products of
   dequantized operands become products of int8; a tensor that is quantized and dequantized behind a product
   only to be rounded gets rounded in the chain of post-ops, and never leaves it.
2. `absorb_quantization`, after it: the quantization at the end of a chain is the product's own; an int8
   operand of a sum in the chain is read as it is.

Scales and zero points stay exactly those of the network: nothing is requantized, no rounding is left out.

Notes
-----
O(nodes * views in a row).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from annotated_region.backends.dnnl.graph import (
    DataType,
    Dim,
    Graph,
    Kind,
    Node,
    PostOp,
    Quantized,
    TensorId,
    same_shape,
)

__all__ = ["absorb_quantization", "lower_products"]

BYTES = (DataType.INT8, DataType.UINT8)
LIMITS = {DataType.INT8: (-128, 127), DataType.UINT8: (0, 255)}
PRODUCTS = (Kind.CONVOLUTION, Kind.MATMUL)
LINKS = (Kind.ELTWISE, Kind.BINARY)
"""What `fuse` appends to a product."""


def lower_products(graph: Graph) -> None:
    """Make products of int8, and let rounding join the chains behind them."""
    _lower_dequantization(graph)
    graph.remove_dead_nodes()
    _make_products(graph)
    graph.remove_dead_nodes()
    _round_in_chains(graph)


def absorb_quantization(graph: Graph) -> None:
    """Let products write int8, and read int8 operands in their chains."""
    made = {node.output: node for node in graph.nodes}
    for node in graph.nodes:
        if node.quantized is not None:
            made[node.output] = replace(node, post_ops=tuple(_with_bytes(graph, node, made)))
    uses = graph.use_counts()
    for node in graph.nodes:
        producer = made.get(node.inputs[0]) if node.inputs else None
        if not is_uniform(node, Kind.QUANTIZE) or producer is None or uses[producer.output] != 1:
            continue
        if producer.quantized is not None:
            quantized = replace(producer.quantized, result_scale=node.floats[0], result_zero=node.ints[0])
            del made[producer.output]
            made[node.output] = replace(producer, output=node.output, quantized=quantized)
    order = {node.output: position for position, node in enumerate(graph.nodes)}
    graph.nodes = sorted(made.values(), key=lambda node: order[node.output])


def is_uniform(node: Node | None, kind: Kind) -> bool:
    """Whether a node quantizes or dequantizes with one scale and zero point for all elements."""
    return node is not None and node.kind is kind and len(node.inputs) == 1


def _with_bytes(graph: Graph, node: Node, made: dict[TensorId, Node]) -> Iterator[PostOp]:
    """The chain of a product; for ``+ scale * (e - zero)`` it is scaled so that e itself is added."""
    for post in node.post_ops:
        source = None if post.operand is None else made.get(post.operand)
        is_sum = post.algorithm == "binary_add" and source is not None and is_uniform(source, Kind.DEQUANTIZE)
        if (
            source is None
            or not is_sum
            or not same_shape(graph.shape(source.output), graph.shape(node.output))
        ):
            yield post
            continue
        scale, zero = source.floats[0], source.ints[0]
        yield PostOp("eltwise_linear", 1.0 / scale, float(-zero))
        yield replace(post, operand=source.inputs[0])
        yield PostOp("eltwise_linear", scale, 0.0)


def _lower_dequantization(graph: Graph) -> None:
    """Views, largest values and joins are taken of int8 elements; what changes nothing is dropped."""
    nodes, graph.nodes = graph.nodes, []
    made: dict[TensorId, Node] = {}
    same: dict[TensorId, TensorId] = {}
    for node in nodes:
        renamed = replace(node, inputs=tuple(same.get(operand, operand) for operand in node.inputs))
        source = made.get(renamed.inputs[0]) if renamed.inputs else None
        if source is not None and _is_undone(graph, source, renamed):
            same[node.output] = source.inputs[0]
            continue
        for each in _lowered(graph, renamed, made) or (renamed,):
            made[each.output] = each
    graph.nodes = list(made.values())
    graph.outputs = [same.get(output, output) for output in graph.outputs]


def _is_undone(graph: Graph, source: Node, node: Node) -> bool:
    """Whether `node` quantizes what `source` has dequantized in the same way."""
    is_pair = is_uniform(source, Kind.DEQUANTIZE) and is_uniform(node, Kind.QUANTIZE)
    same_numbers = (source.floats, source.ints) == (node.floats, node.ints)
    return is_pair and same_numbers and graph.dtype(source.inputs[0]) is graph.dtype(node.output)


def _lowered(graph: Graph, node: Node, made: dict[TensorId, Node]) -> tuple[Node, Node] | None:
    """The node on int8, and the dequantization behind it; None if these cannot be exchanged."""
    is_view = node.kind in (Kind.RESHAPE, Kind.PERMUTE, Kind.SLICE, Kind.CONCAT)
    is_largest = node.kind is Kind.POOLING and node.algorithm == "pooling_max"
    sources = [made.get(operand) for operand in node.inputs]
    first = sources[0] if sources else None
    if first is None or first.kind is not Kind.DEQUANTIZE or not (is_view or is_largest):
        return None
    dtype = graph.dtype(first.inputs[0])
    for source in sources:
        if source is None or source.kind is not first.kind or graph.dtype(source.inputs[0]) is not dtype:
            return None
        if (source.inputs[1:], source.floats, source.ints) != (first.inputs[1:], first.floats, first.ints):
            return None
    ints = first.ints if is_uniform(first, Kind.DEQUANTIZE) else _moved_axes(graph, first, node)
    if ints is None or (dtype not in BYTES and not is_view):
        return None
    inner = graph.tensor(graph.shape(node.output), dtype=dtype)
    operands = tuple(source.inputs[0] for source in sources if source is not None)
    view = replace(node, inputs=operands, output=inner)
    return view, replace(first, inputs=(inner, *first.inputs[1:]), output=node.output, ints=ints)


def _moved_axes(graph: Graph, source: Node, view: Node) -> tuple[int, ...] | None:
    """Where the axes that have scales of their own stand behind a view; None if they are not neighbours."""
    before, after = graph.shape(view.inputs[0]), graph.shape(view.output)
    first, count = source.ints
    if view.kind is Kind.PERMUTE and count == 1:
        return view.ints.index(first), 1
    if view.kind is not Kind.RESHAPE:
        return None
    outside, inside = _volume(before[:first]), _volume(before[first : first + count])
    for begin in range(len(after)):
        for end in range(begin + 1, len(after) + 1):
            volumes = (_volume(after[:begin]), _volume(after[begin:end]))
            if None not in volumes and volumes == (outside, inside):
                return begin, end - begin
    return None


def _volume(shape: Sequence[Dim]) -> int | None:
    product = 1
    for extent in shape:
        if not isinstance(extent, int):
            return None
        product *= extent
    return product


def _make_products(graph: Graph) -> None:
    """Products whose operands are dequantized become products of int8."""
    made = {node.output: node for node in graph.nodes}
    uses = graph.use_counts()
    for node in graph.nodes:
        if node.kind in PRODUCTS and not node.post_ops:
            made[node.output] = _product(graph, node, made, uses) or made[node.output]
    graph.nodes = list(made.values())


def _product(graph: Graph, node: Node, made: dict[TensorId, Node], uses: dict[TensorId, int]) -> Node | None:
    left, right = made.get(node.inputs[0]), made.get(node.inputs[1])
    if left is None or right is None or right.kind is not Kind.DEQUANTIZE:
        return None
    data, weights = left.inputs[0], right.inputs[0]
    if not is_uniform(left, Kind.DEQUANTIZE) or graph.dtype(data) not in BYTES:
        return None
    if graph.dtype(weights) is DataType.UINT8 and node.kind is Kind.MATMUL and data != weights:
        right = _as_signed(graph, right, made, uses)
    if right is None or graph.dtype(weights) is not DataType.INT8:
        return None
    scale, zero = left.floats[0], left.ints[0]
    inputs = (data, weights, *node.inputs[2:])
    if not is_uniform(right, Kind.DEQUANTIZE):
        quantized = Quantized(scale, zero, weights_scales=right.inputs[1])
        is_fit = len(right.inputs) == 2 and _is_per_channel(graph, node, right)
        return replace(node, inputs=inputs, quantized=quantized) if is_fit else None
    if right.ints[0] and node.kind is Kind.CONVOLUTION:
        return None  # oneDNN's convolutions know no zero point of the weights
    quantized = Quantized(scale * right.floats[0], zero, weights_zero=right.ints[0])
    return replace(node, inputs=inputs, quantized=quantized)


def _is_per_channel(graph: Graph, product: Node, weights: Node) -> bool:
    """Whether the weights have a scale for each channel of the result, and for nothing else."""
    shape = graph.shape(weights.output)
    first, count = weights.ints
    if product.kind is Kind.MATMUL:
        return first + count == len(shape) and _volume(shape[first:]) == shape[-1]
    is_grouped = len(shape) > len(graph.shape(product.output))
    return first == 0 and _volume(shape[:count]) == _volume(shape[: 2 if is_grouped else 1])


def _as_signed(
    graph: Graph, dequantize: Node, made: dict[TensorId, Node], uses: dict[TensorId, int]
) -> Node | None:
    """The same numbers from int8 instead of uint8, where the quantization can be told to make these.

    oneDNN multiplies with int8 only. All elements and their zero point become smaller by 128.
    """
    path = [dequantize.inputs[0]]
    while (node := made.get(path[-1])) is not None and node.kind in (Kind.RESHAPE, Kind.PERMUTE):
        path.append(node.inputs[0])
    if node is None or not is_uniform(node, Kind.QUANTIZE) or any(uses[tensor] != 1 for tensor in path):
        return None
    for tensor in path:
        graph.tensors[tensor] = replace(graph.tensors[tensor], dtype=DataType.INT8)
    made[node.output] = replace(node, ints=(node.ints[0] - 128,))
    made[dequantize.output] = replace(dequantize, ints=(dequantize.ints[0] - 128,))
    return made[dequantize.output]


def _round_in_chains(graph: Graph) -> None:
    """What is quantized and at once dequantized behind a product is rounded in its chain."""
    rounding = _Rounding(graph)
    graph.nodes = [each for node in graph.nodes for each in rounding.of(node)]


class _Rounding:
    """What stands in the chain behind a product so far, and who reads what."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = graph.use_counts()
        self.readers = {operand: node for node in graph.nodes for operand in node.inputs}
        self.position = {node.output: position for position, node in enumerate(graph.nodes)}
        self.chained: set[TensorId] = set()

    def of(self, node: Node) -> list[Node]:
        """The node, or what replaces it."""
        source = node.inputs[0] if node.inputs else None
        if is_uniform(node, Kind.DEQUANTIZE) and source in self.chained:
            linear = ("eltwise_linear", (node.floats[0], 0.0))
            node = replace(node, kind=Kind.ELTWISE, algorithm=linear[0], floats=linear[1], ints=())
        if self.is_rounding(node):
            self.chained.add(node.output)
            return _rounding(self.graph, node)
        if node.quantized is not None or (node.kind in LINKS and any(map(self.is_link, node.inputs))):
            self.chained.add(node.output)
        return [node]

    def is_link(self, tensor: TensorId) -> bool:
        return tensor in self.chained and self.uses[tensor] == 1

    def is_rounding(self, node: Node) -> bool:
        """Whether a quantization serves one dequantization alone, which undoes it but for the rounding."""
        if not is_uniform(node, Kind.QUANTIZE) or not self.is_link(node.inputs[0]):
            return False
        reader = self.readers.get(node.output)
        if reader is None or not is_uniform(reader, Kind.DEQUANTIZE) or self.uses[node.output] != 1:
            return False
        is_inverse = (reader.floats, reader.ints) == (node.floats, node.ints)
        return is_inverse and self.uses[reader.output] == 1 and self.is_last_operand(reader)

    def is_last_operand(self, dequantize: Node) -> bool:
        """Of two dequantized operands only the later one can be computed in place; the other stays int8."""
        consumer = self.readers.get(dequantize.output)
        operands = consumer.inputs if consumer is not None and consumer.kind is Kind.BINARY else ()
        own = self.position[dequantize.inputs[0]]
        return all(self.origin(operand) <= own for operand in operands)

    def origin(self, operand: TensorId) -> int:
        """Where the quantization stands that made an operand; -1 if there is none."""
        reader = self.maker(operand)
        source = self.maker(reader.inputs[0]) if reader and is_uniform(reader, Kind.DEQUANTIZE) else None
        return self.position[source.output] if source and is_uniform(source, Kind.QUANTIZE) else -1

    def maker(self, tensor: TensorId) -> Node | None:
        return self.graph.nodes[self.position[tensor]] if tensor in self.position else None


def _rounding(graph: Graph, node: Node) -> list[Node]:
    """round(x / scale), clipped to what is left of the type's range beside the zero point."""
    low, high = (float(limit - node.ints[0]) for limit in LIMITS[graph.dtype(node.output)])
    steps = (
        ("eltwise_linear", 1.0 / node.floats[0], 0.0),
        ("eltwise_round", 0.0, 0.0),
        ("eltwise_clip", low, high),
    )
    made, source = [], node.inputs[0]
    for position, (algorithm, alpha, beta) in enumerate(steps):
        is_last = position == len(steps) - 1
        output = node.output if is_last else graph.tensor(graph.shape(node.output))
        made.append(Node(Kind.ELTWISE, (source,), output, algorithm, floats=(alpha, beta)))
        source = output
    graph.tensors[node.output] = replace(graph.tensors[node.output], dtype=DataType.FLOAT32)
    return made
