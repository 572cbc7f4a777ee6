"""Per-channel scaling and shifting by constants: gathered into one batch normalisation.

A network that normalises before it activates (DenseNet) leaves normalisations that no convolution can take
in, followed or replaced by products and sums with one constant per channel. oneDNN reads the tensor once for
all of these if they are one batch normalisation; the relu behind it is free. The new constants are computed
by nodes whose operands are constants: the runtime evaluates those once, when it builds a plan.

::

    batch_norm(x, g, b, mean, var) * s + t   =>   batch_norm(x, g * s, b * s + t, mean, var)
    x * s + t                                =>   batch_norm(x, s, t, 0, 1)

A quotient is never replaced by a product with the reciprocal where no normalisation was before: ``x / s`` can
be exact where ``x * (1 / s)`` is not, and the result may be rounded to whole numbers later.
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import Kind, Node, TensorId, same_shape
from annotated_region.backends.dnnl.parameters import Arithmetic, BatchNorm, Parameters
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite, Rewriter
from annotated_region.backends.dnnl.views import reshape

__all__ = ["GatherAffineFunctions"]

COMMUTATIVE = (Arithmetic("binary_add"), Arithmetic("binary_mul"))
DIFFERENCE = Arithmetic("binary_sub")
PRODUCT = Arithmetic("binary_mul")
QUOTIENT = Arithmetic("binary_div")


class GatherAffineFunctions(Rewrite):
    """Chains of per-channel products and sums become batch normalisations.

    What follows a convolution or a matrix product is left to it: as post-ops they cost even less.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        """Find what is computed from constants alone."""
        super().__init__(rewriter)
        self.constant = self.constants()
        self.made: set[TensorId] = set()  # results of normalisations whose statistics are zero and one

    def rewritten(self, node: Node) -> Node | None:
        """The batch normalisation that a sum, difference, product or quotient is a part of."""
        operands = self.operand(node)
        if operands is None or any(self.follows_product(tensor) for tensor in node.inputs):
            return None
        data, constant = operands
        if not same_shape(self.graph.shape(data), self.graph.shape(node.output)):
            return None  # the constant repeats the data
        norm = self.rewriter.own(data, Kind.BATCH_NORM)
        if norm is None:
            return self.scaled(node, data, constant) if node.parameters == PRODUCT else None
        if not self.constant.issuperset(norm.inputs[1:3]):
            return None  # arithmetic with its scale and shift would run at every call
        is_made = data in self.made
        if _has_relu(norm) or (is_made and node.parameters == QUOTIENT):
            return None
        if is_made:
            self.made.add(node.output)
        return self.followed(norm, node, constant)

    def measure(self) -> tuple[int, ...]:
        """Sums, differences, products and quotients of what is not constant."""
        constant, nodes = self.constants(), self.rewriter.nodes()
        return (sum(node.kind is Kind.BINARY and node.output not in constant for node in nodes),)

    def constants(self) -> set[TensorId]:
        """What is computed from constants alone."""
        tensors = self.graph.tensors
        known = {index for index, tensor in enumerate(tensors) if tensor.is_constant}
        for node in self.rewriter.nodes():
            if known.issuperset(node.operands):
                known.add(node.output)
        return known

    def follows_product(self, tensor: TensorId) -> bool:
        return self.rewriter.root(tensor) is not None and self.rewriter.reads(tensor) == 1

    def operand(self, node: Node) -> tuple[TensorId, TensorId] | None:
        """The data and the constant of arithmetic per channel."""
        if node.kind is not Kind.BINARY or node.post_ops or node.output in self.constant:
            return None
        if node.parameters not in (*COMMUTATIVE, DIFFERENCE, QUOTIENT):
            return None
        left, right = node.inputs
        if self.is_vector(right, node):
            return left, right
        return (right, left) if node.parameters in COMMUTATIVE and self.is_vector(left, node) else None

    def is_vector(self, tensor: TensorId, node: Node) -> bool:
        result, extents = self.graph.shape(node.output), self.graph.shape(tensor)
        if len(result) < 3 or not self.is_constant(tensor):
            return False
        return same_shape(extents, (1, result[1], *(1,) * (len(result) - 2)))

    def is_constant(self, tensor: TensorId) -> bool:
        """Whether a tensor is a constant or a view of one."""
        node = self.rewriter.producer(tensor)
        if node is not None and node.kind is Kind.RESHAPE:
            return self.is_constant(node.inputs[0])
        return self.graph.tensors[tensor].is_constant

    def compute(self, parameters: Parameters, *inputs: TensorId) -> TensorId:
        """Arithmetic of two constant vectors."""
        result = self.graph.add(Kind.BINARY, inputs, self.graph.shape(inputs[0]), parameters)
        self.constant.add(result)
        return result

    def vector(self, tensor: TensorId) -> TensorId:
        """A constant per channel as oneDNN's normalisation wants it: of rank one."""
        result = reshape(self.graph, tensor, (self.graph.shape(tensor)[1],))
        self.constant.add(result)
        return result

    def scaled(self, node: Node, data: TensorId, constant: TensorId) -> Node:
        """The normalisation that multiplies by a constant, and changes nothing else."""
        vector = self.vector(constant)
        zeros = self.compute(Arithmetic("binary_ne"), vector, vector)
        ones = self.compute(Arithmetic("binary_eq"), vector, vector)
        self.made.add(node.output)
        return Node(Kind.BATCH_NORM, (data, vector, zeros, zeros, ones), node.output, BatchNorm(0.0))

    def followed(self, norm: Node, node: Node, constant: TensorId) -> Node:
        """The normalisation whose result has been combined with a constant per channel."""
        data, scale, shift, mean, variance = norm.inputs
        vector = self.vector(constant)
        shift = self.compute(node.parameters, shift, vector)
        if node.parameters in (PRODUCT, QUOTIENT):
            scale = self.compute(node.parameters, scale, vector)
        return replace(norm, inputs=(data, scale, shift, mean, variance), output=node.output)


def _has_relu(norm: Node) -> bool:
    return isinstance(norm.parameters, BatchNorm) and norm.parameters.relu
