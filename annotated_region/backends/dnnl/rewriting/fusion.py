"""Fusion across the whole region: biases and chains of element-wise operations become post-ops.

A producer absorbs its consumer if the consumer is the only reader of its result::

    conv ---> add ---> relu            conv(+ sum, + relu)
               ^                 =>      ^
    x ---------+                 x ------+

The merged node takes the position of the consumer. This is always valid: the other operands of the consumer
are defined before it, and no node between the two reads the producer's result. The runtime, which knows the
layouts, decides whether a residual sum is computed in place.

Fusion neither needs the composites of the partitioner nor stops at their boundaries.
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import Kind, Node, PostOp, TensorId, same_shape
from annotated_region.backends.dnnl.parameters import COMMUTATIVE, Arithmetic, Curve
from annotated_region.backends.dnnl.rewriting.rewriter import LINKS, PRODUCTS, Rewrite
from annotated_region.backends.dnnl.views import reshape

__all__ = ["Fuse"]

LONGEST_CHAIN = 10
"""The maximum number of post-ops; oneDNN allows 32, and a clip may become two."""

ROOTS = (Curve("eltwise_pow", 1.0, 0.5), Curve("eltwise_pow", 1.0, -0.5))
"""Functions for which the runtime has exact kernels."""

MATRICES = (Kind.MATMUL, Kind.PACKED_PRODUCT)
WITH_POST_OPS = (*PRODUCTS, Kind.BINARY)
WITHOUT_BIAS = (Kind.BINARY, Kind.DECONVOLUTION)
"""The kinds for which a bias is a post-op like any other: oneDNN 3.2 adds that of a transposed convolution
with strides to parts of the sum."""
COMPARISONS = tuple(f"binary_{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))
"""As post-ops of oneDNN 3.2: creating the primitive fails unless the operand is a scalar."""


class Fuse(Rewrite):
    """Merge each node into the producer of an operand where oneDNN computes both as one primitive."""

    def rewritten(self, node: Node) -> Node | None:
        """The producer with the node merged into it."""
        if node.post_ops or node.kind not in LINKS:
            return None
        for operand in self.candidates(node):
            producer = self.rewriter.own(operand)
            merger = None if producer is None else self.with_consumer(producer, node)
            if merger is not None:
                return merger
        return None

    def candidates(self, node: Node) -> list[TensorId]:
        """The operands, results of convolutions and products first, then latest first."""

        def rank(tensor: TensorId) -> tuple[bool, int]:
            producer = self.rewriter.producer(tensor)
            return producer is not None and producer.kind is Kind.BINARY, -self.rewriter.position(tensor)

        return sorted(dict.fromkeys(node.inputs), key=rank)

    def with_consumer(self, producer: Node, consumer: Node) -> Node | None:
        if not same_shape(self.graph.shape(producer.output), self.graph.shape(consumer.output)):
            return None
        if producer.kind is Kind.GROUP_NORM:
            return _group_norm_with_activation(producer, consumer)
        if producer.kind is Kind.PACKED_PRODUCT:
            return self.with_bias_alone(producer, consumer)
        curve = consumer.parameters
        if producer.kind not in WITH_POST_OPS or len(producer.post_ops) >= LONGEST_CHAIN or curve in ROOTS:
            return None
        if isinstance(curve, Curve):
            return _extended(producer, consumer, PostOp(curve.algorithm, curve.alpha, curve.beta))
        return self.with_binary(producer, consumer)

    def with_bias_alone(self, producer: Node, consumer: Node) -> Node | None:
        """Merge a bias into a kernel of the runtime; these support no other post-ops."""
        for other in consumer.inputs if consumer.kind is Kind.BINARY else ():
            if other != producer.output and self.is_bias(producer, consumer, other):
                return replace(producer, inputs=(*producer.inputs, other), output=consumer.output)
        return None

    def with_binary(self, producer: Node, consumer: Node) -> Node | None:
        left, right = consumer.inputs
        other = right if left == producer.output else left
        algorithm = consumer.algorithm
        assert algorithm is not None
        if not self.is_operand(producer, other):
            return None
        if algorithm in COMPARISONS and any(extent != 1 for extent in self.graph.shape(other)):
            return None
        if self.is_bias(producer, consumer, other):
            inputs = (*producer.inputs, self.bias(producer, other))
            return replace(producer, inputs=inputs, output=consumer.output)
        if left == producer.output or algorithm in COMMUTATIVE:
            return _extended(producer, consumer, PostOp(algorithm, operand=other))
        if algorithm == "binary_sub":  # other - x = -x + other
            chain = (PostOp("eltwise_linear", -1.0, -0.0), PostOp("binary_add", operand=other))
            return _extended(producer, consumer, *chain)
        return None

    def is_operand(self, producer: Node, other: TensorId) -> bool:
        """Whether a post-op can read `other`: of the result's shape, one element per channel, or a scalar."""
        result, extents = self.graph.shape(producer.output), self.graph.shape(other)
        if same_shape(result, extents):
            return True
        channel = _channel(producer, len(result))
        return all(
            extent == 1 or (axis == channel and same_shape((extent,), (result[axis],)))
            for axis, extent in enumerate(extents)
        )

    def is_bias(self, producer: Node, consumer: Node, other: TensorId) -> bool:
        """Whether the consumer adds one number per channel to the producer's unmodified result."""
        if producer.kind in WITHOUT_BIAS or len(producer.inputs) > 2 or producer.post_ops:
            return False
        result = self.graph.shape(producer.output)
        channel = _channel(producer, len(result))
        expected = tuple(extent if axis == channel else 1 for axis, extent in enumerate(result))
        is_sum = consumer.parameters == Arithmetic("binary_add")
        return is_sum and same_shape(self.graph.shape(other), expected)

    def bias(self, producer: Node, other: TensorId) -> TensorId:
        """The bias in the shape that oneDNN expects: a vector for a convolution."""
        if producer.kind in MATRICES:
            return other
        return reshape(self.graph, other, (self.graph.shape(other)[1],))


def _channel(producer: Node, rank: int) -> int:
    return rank - 1 if producer.kind in MATRICES else 1


def _group_norm_with_activation(producer: Node, consumer: Node) -> Node | None:
    curve = consumer.parameters
    is_known = curve in (Curve("eltwise_relu"), Curve("eltwise_swish", 1.0)) and not producer.post_ops
    if not isinstance(curve, Curve) or not is_known:
        return None
    return _extended(producer, consumer, PostOp(curve.algorithm, curve.alpha, curve.beta))


def _extended(producer: Node, consumer: Node, *chain: PostOp) -> Node:
    return replace(producer, output=consumer.output, post_ops=(*producer.post_ops, *chain))
