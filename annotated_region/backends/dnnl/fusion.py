"""Fusion over the whole region: bias, batch norm with relu, and chains of operations become post-ops.

A producer takes in its consumer when the consumer is the only reader of its result::

    conv ---> add ---> relu            conv(+ sum, + relu)
               ^                 =>      ^
    x ---------+                 x ------+

The merged node stands where the consumer stood. That is always a valid place: the other operands of the
consumer are defined before it, and nobody between the two reads the producer's result. Whether a residual
sum is computed in place is decided by the runtime, which knows the layouts.

The composites of the partitioner are not needed for this, and no fusion stops at their borders.

Notes
-----
One pass over the nodes, O(nodes + operands).
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import Graph, Kind, Node, PostOp, TensorId, same_shape
from annotated_region.backends.dnnl.views import reshape

__all__ = ["fuse"]

LONGEST_CHAIN = 16
"""Of post-ops; oneDNN takes 32."""

WITH_POST_OPS = (Kind.CONVOLUTION, Kind.DECONVOLUTION, Kind.MATMUL, Kind.BINARY)
COMMUTATIVE = ("binary_add", "binary_mul", "binary_max", "binary_min")
COMPARISONS = tuple(f"binary_{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))
"""oneDNN 3.2 offers primitives with these as post-ops, and fails to make them unless they read one number."""


def fuse(graph: Graph) -> None:
    """Merge each node into the producer of an operand where oneDNN computes both as one primitive."""
    _Fusion(graph).run()


class _Fusion:
    """The state of one run: the nodes made so far, by result, in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = graph.use_counts()
        self.made: dict[TensorId, Node] = {}

    def run(self) -> None:
        for node in self.graph.nodes:
            merged = self.merged(node)
            if merged is None:
                self.made[node.output] = node
        self.graph.nodes = list(self.made.values())

    def merged(self, node: Node) -> Node | None:
        """Make the merger of `node` with a producer, and return it; None if there is none."""
        if node.post_ops or node.kind not in (Kind.ELTWISE, Kind.BINARY):
            return None
        for operand in self.candidates(node):
            producer = self.made[operand]
            merger = self.with_consumer(producer, node)
            if merger is not None:
                del self.made[operand]
                self.made[node.output] = merger
                return merger
        return None

    def candidates(self, node: Node) -> list[TensorId]:
        """The operands that only `node` reads: convolutions and products first, then the latest."""
        position = {tensor: index for index, tensor in enumerate(self.made)} if len(node.inputs) > 1 else {}
        single = [t for t in dict.fromkeys(node.inputs) if t in self.made and self.uses[t] == 1]
        return sorted(single, key=lambda t: (self.made[t].kind is Kind.BINARY, -position.get(t, 0)))

    def with_consumer(self, producer: Node, consumer: Node) -> Node | None:
        if not same_shape(self.graph.shape(producer.output), self.graph.shape(consumer.output)):
            return None
        if producer.kind is Kind.BATCH_NORM:
            return _batch_norm_with_relu(producer, consumer)
        if producer.kind not in WITH_POST_OPS or len(producer.post_ops) >= LONGEST_CHAIN:
            return None
        if consumer.kind is Kind.ELTWISE:
            alpha, beta = consumer.floats
            return _extended(producer, consumer, PostOp(consumer.algorithm, alpha, beta))
        return self.with_binary(producer, consumer)

    def with_binary(self, producer: Node, consumer: Node) -> Node | None:
        left, right = consumer.inputs
        other = right if left == producer.output else left
        if not self.is_operand(producer, other):
            return None
        if consumer.algorithm in COMPARISONS and any(extent != 1 for extent in self.graph.shape(other)):
            return None
        if self.is_bias(producer, consumer, other):
            bias = self.bias(producer, other)
            return replace(producer, inputs=(*producer.inputs, bias), output=consumer.output)
        if left == producer.output or consumer.algorithm in COMMUTATIVE:
            return _extended(producer, consumer, PostOp(consumer.algorithm, operand=other))
        if consumer.algorithm == "binary_sub":  # other - x = -x + other
            chain = (PostOp("eltwise_linear", -1.0, 0.0), PostOp("binary_add", operand=other))
            return _extended(producer, consumer, *chain)
        return None

    def is_operand(self, producer: Node, other: TensorId) -> bool:
        """Whether a post-op can read `other`: as large as the result, one number a channel, or one number."""
        result, extents = self.graph.shape(producer.output), self.graph.shape(other)
        if same_shape(result, extents):
            return True
        channel = len(result) - 1 if producer.kind is Kind.MATMUL else 1
        return all(
            extent == 1 or (axis == channel and same_shape((extent,), (result[axis],)))
            for axis, extent in enumerate(extents)
        )

    def is_bias(self, producer: Node, consumer: Node, other: TensorId) -> bool:
        """Whether the consumer adds one number a channel to what the producer has just computed."""
        if producer.kind is Kind.BINARY or len(producer.inputs) > 2 or producer.post_ops:
            return False
        result, extents = self.graph.shape(producer.output), self.graph.shape(other)
        channel = len(result) - 1 if producer.kind is Kind.MATMUL else 1
        expected = tuple(extent if axis == channel else 1 for axis, extent in enumerate(result))
        return consumer.algorithm == "binary_add" and same_shape(extents, expected)

    def bias(self, producer: Node, other: TensorId) -> TensorId:
        if producer.kind is Kind.MATMUL:
            return other
        before = len(self.graph.nodes)
        bias = reshape(self.graph, other, (self.graph.shape(other)[1],))
        for node in self.graph.nodes[before:]:
            self.made[node.output] = node
        del self.graph.nodes[before:]
        return bias


def _extended(producer: Node, consumer: Node, *chain: PostOp) -> Node:
    return replace(producer, output=consumer.output, post_ops=(*producer.post_ops, *chain))


def _batch_norm_with_relu(producer: Node, consumer: Node) -> Node | None:
    is_relu = (
        consumer.kind is Kind.ELTWISE and consumer.algorithm == "eltwise_relu" and consumer.floats[0] == 0.0
    )
    if not is_relu or producer.ints != (0,):
        return None
    return replace(producer, output=consumer.output, ints=(1,))
