"""Recognizes a factor and a term for each channel before a quantization, as of a batch norm behind a join.

::

    dequantize --> multiply(vector) --> add(vector) --> quantize   =>   requantize

Each op would read and write floats, four times as many bytes as the operand and the result have. The kernel
rounds after each of them, so that the result has the same bits.
"""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import DataType, Kind, Node, TensorId, same_dim, same_shape
from annotated_region.backends.dnnl.parameters import Arithmetic, Requantization
from annotated_region.backends.dnnl.rewriting.int8_products import BYTES, scale_of
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite

__all__ = ["RequantizeChannels"]

FEWEST_CHANNELS = 16
"""The kernel takes the channels of a pixel at once; with fewer, passes over all elements are faster."""


class RequantizeChannels(Rewrite):
    """Merges vectors of the channels, and a dequantization before them, into a quantization."""

    def rewritten(self, node: Node) -> Node | None:
        """The quantization with all of them."""
        result = scale_of(node, Kind.QUANTIZE)
        if result is None or not self.has_channels(node) or self.rewriter.root(node.inputs[0]) is not None:
            return None
        data, terms = self.split(node.inputs[0], "binary_add")
        data, factors = self.split(data, "binary_mul")
        vectors = [vector for vector in (factors, terms) if vector is not None]
        if not vectors:
            return None
        source, data = self.source(data)
        parameters = Requantization(
            result.scale, result.zero, *source, has_factors=factors is not None, has_terms=terms is not None
        )
        return Node(Kind.REQUANTIZE, (data, *vectors), node.output, parameters)

    def has_channels(self, node: Node) -> bool:
        shape = self.graph.shape(node.output)
        return len(shape) > 1 and isinstance(shape[1], int) and shape[1] >= FEWEST_CHANNELS

    def split(self, tensor: TensorId, algorithm: str) -> tuple[TensorId, TensorId | None]:
        """The operands of an op with a vector of the channels; the tensor alone for another op."""
        node = self.rewriter.own(tensor, Kind.BINARY)
        if node is None or node.parameters != Arithmetic(algorithm) or node.post_ops:
            return tensor, None
        left, right = node.inputs
        for data, vector in ((left, right), (right, left)):
            is_whole = same_shape(self.graph.shape(data), self.graph.shape(tensor))  # and not repeated
            if is_whole and self.is_vector(vector, tensor) and not self.is_vector(data, tensor):
                return data, vector
        return tensor, None

    def is_vector(self, tensor: TensorId, whole: TensorId) -> bool:
        """Whether a tensor has one float for each channel of another one."""
        extents, shape = self.graph.shape(tensor), self.graph.shape(whole)
        is_float = self.graph.dtype(tensor) is DataType.FLOAT32
        others = (extent for axis, extent in enumerate(extents) if axis != 1)
        is_one_by_channel = len(extents) == len(shape) and same_dim(extents[1], shape[1])
        return is_float and is_one_by_channel and all(extent == 1 for extent in others)

    def source(self, data: TensorId) -> tuple[tuple[float, int], TensorId]:
        """The parameters of the operand, and the operand: the bytes before a dequantization."""
        made = self.rewriter.producer(data)
        scale = scale_of(made, Kind.DEQUANTIZE)
        if made is None or scale is None or self.graph.dtype(made.inputs[0]) not in BYTES:
            return (1.0, 0), data
        return (scale.scale, scale.zero), made.inputs[0]
