"""Per-channel scaling and shifting by constants: gathered into one batch normalisation.

A network that normalises before it activates (DenseNet) leaves normalisations that no convolution can take
in, followed or replaced by products and sums with one constant per channel. oneDNN reads the tensor once for
all of these if they are one batch normalisation; the relu behind it is free. The new constants are computed
by nodes whose operands are constants: the runtime evaluates those once, when it builds a plan.

::

    batch_norm(x, g, b, mean, var) * s + t   =>   batch_norm(x, g * s, b * s + t, mean, var)
    x * s + t                                =>   batch_norm(x, s, t, 0, 1)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from annotated_region.backends.dnnl.graph import Graph, Kind, Node, TensorId, same_shape
from annotated_region.backends.dnnl.views import reshape

__all__ = ["gather_affine_functions"]

ABSORBING = (Kind.CONVOLUTION, Kind.DECONVOLUTION, Kind.MATMUL)
"""Primitives that take scaling, shifting and what surrounds them in as post-ops, which costs even less."""


@dataclass(slots=True)
class _Gathering:
    graph: Graph
    uses: dict[TensorId, int]
    made: dict[TensorId, Node]
    absorbed: set[TensorId] = field(default_factory=set)

    def operand(self, node: Node) -> tuple[TensorId, TensorId] | None:
        """The data and the constant of a product, a quotient, a sum or a difference per channel."""
        if node.kind is not Kind.BINARY or node.post_ops:
            return None
        left, right = node.inputs
        if self.is_vector(right, node):
            return left, right
        is_commutative = node.algorithm in ("binary_add", "binary_mul")
        return (right, left) if is_commutative and self.is_vector(left, node) else None

    def is_vector(self, tensor: TensorId, node: Node) -> bool:
        result, extents = self.graph.shape(node.output), self.graph.shape(tensor)
        if len(result) < 3 or not self.is_constant(tensor):
            return False
        return same_shape(extents, (1, result[1], *(1,) * (len(result) - 2)))

    def is_constant(self, tensor: TensorId) -> bool:
        """Whether a tensor is a constant or a view of one."""
        node = self.made.get(tensor)
        if node is not None and node.kind is Kind.RESHAPE:
            return self.is_constant(node.inputs[0])
        return self.graph.tensors[tensor].is_constant

    def compute(
        self, kind: Kind, algorithm: str, *inputs: TensorId, floats: tuple[float, ...] = ()
    ) -> TensorId:
        """A node over vectors."""
        result = self.graph.add(kind, inputs, self.graph.shape(inputs[0]), algorithm, floats=floats)
        self.adopt_new_nodes()
        return result

    def vector(self, tensor: TensorId) -> TensorId:
        """A constant per channel as oneDNN's normalisation wants it: of rank one."""
        result = reshape(self.graph, tensor, (self.graph.shape(tensor)[1],))
        self.adopt_new_nodes()
        return result

    def adopt_new_nodes(self) -> None:
        for node in self.graph.nodes:
            self.made[node.output] = node
        self.graph.nodes = []

    def merged(self, node: Node) -> Node:
        """The node itself, or the batch normalisation that it is a part of."""
        if self.is_absorbed(node):
            self.absorbed.add(node.output)
            return node
        operands = self.operand(node)
        if operands is None:
            return node
        data, constant = operands
        producer = self.made.get(data)
        if producer is not None and self.is_open(producer):
            del self.made[data]
            return self.followed(producer, node, constant)
        if node.algorithm not in ("binary_mul", "binary_div"):
            return node
        return self.followed(self.identity(data, constant), node, constant)

    def is_absorbed(self, node: Node) -> bool:
        """Whether a chain of post-ops leads from a convolution or a product to this node."""
        if node.kind in ABSORBING:
            return True
        is_link = node.kind in (Kind.ELTWISE, Kind.BINARY)
        return is_link and any(t in self.absorbed and self.uses[t] == 1 for t in node.inputs)

    def is_open(self, producer: Node) -> bool:
        return producer.kind is Kind.BATCH_NORM and producer.ints == (0,) and self.uses[producer.output] == 1

    def identity(self, data: TensorId, like: TensorId) -> Node:
        """The normalisation that changes nothing."""
        vector = self.vector(like)
        zeros = self.compute(Kind.ELTWISE, "eltwise_linear", vector, floats=(0.0, 0.0))
        ones = self.compute(Kind.ELTWISE, "eltwise_linear", vector, floats=(0.0, 1.0))
        return Node(Kind.BATCH_NORM, (data, ones, zeros, zeros, ones), data, ints=(0,), floats=(0.0,))

    def followed(self, norm: Node, node: Node, constant: TensorId) -> Node:
        """The normalisation whose result has been combined with a constant per channel."""
        data, scale, shift, mean, variance = norm.inputs
        vector = self.vector(constant)
        shift = self.compute(Kind.BINARY, node.algorithm, shift, vector)
        if node.algorithm in ("binary_mul", "binary_div"):
            scale = self.compute(Kind.BINARY, node.algorithm, scale, vector)
        return replace(norm, inputs=(data, scale, shift, mean, variance), output=node.output)


def gather_affine_functions(graph: Graph) -> None:
    """Replace chains of per-channel products and sums by batch normalisations; O(nodes)."""
    uses = graph.use_counts()
    nodes, graph.nodes = graph.nodes, []
    gathering = _Gathering(graph, uses, {})
    for node in nodes:
        merged = gathering.merged(node)
        gathering.made[merged.output] = merged
    graph.nodes = list(gathering.made.values())
