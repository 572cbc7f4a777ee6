"""Products of int8, recognized from the dequantization in front of convolutions and matrix products.

A quantized network says for each tensor how coarse it is, and computes with numbers in between::

    x_q --> dequantize --> conv --> add(bias) --> relu --> quantize --> y_q
    w_q --> dequantize -----^

which oneDNN computes as one primitive of int8: integer sums, scales and zero points applied at the end. First
views and maxima are taken of the int8 elements, ahead of their dequantization, and what is dequantized and
quantized again in the same way is left as it was (`LowerDequantization`); then products of dequantized
operands become products of int8 (`MakeInt8Products`). What is behind a product is in `int8_results`.

Scales and zero points stay exactly those of the network: nothing is requantized, no rounding is left out.
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import (
    DataType,
    Kind,
    Node,
    Quantized,
    TensorId,
    same_dim,
    same_shape,
    volume,
)
from annotated_region.backends.dnnl.parameters import ChannelScales, Permutation, Pooling, Scale
from annotated_region.backends.dnnl.rewriting.rewriter import VIEWS, Rewrite

__all__ = ["BYTES", "LowerDequantization", "MakeInt8Products", "scale_of"]

BYTES = (DataType.INT8, DataType.UINT8)
PRODUCTS = (Kind.CONVOLUTION, Kind.MATMUL)
MOVING = (*VIEWS, Kind.SLICE, Kind.CONCAT)


def scale_of(node: Node | None, kind: Kind) -> Scale | None:
    """The scale and zero point of a node that quantizes or dequantizes with one of each for all elements."""
    if node is None or node.kind is not kind or not isinstance(node.parameters, Scale):
        return None
    return node.parameters


class LowerDequantization(Rewrite):
    """Views, largest values and joins are taken of int8 elements; what changes nothing is dropped."""

    def rewritten(self, node: Node) -> Node | TensorId | None:
        """The dequantization behind the node, or the int8 elements that were there already."""
        source = self.rewriter.producer(node.inputs[0]) if node.inputs else None
        if source is None or source.kind is not Kind.DEQUANTIZE:
            return None
        return source.inputs[0] if self.is_undone(source, node) else self.lowered(node, source)

    def measure(self) -> tuple[int, ...]:
        """The paths from a dequantization through views to a view; nodes."""
        above: dict[TensorId, int] = {}
        total = nodes = 0
        for node in self.rewriter.nodes():
            nodes += 1
            if node.kind is Kind.DEQUANTIZE:
                above[node.output] = 1
            elif self.is_movable(node):
                above[node.output] = sum(above.get(tensor, 0) for tensor in node.inputs)
                total += above[node.output]
        return total, nodes

    def is_movable(self, node: Node) -> bool:
        is_largest = isinstance(node.parameters, Pooling) and node.parameters.algorithm == "pooling_max"
        return node.kind in MOVING or is_largest

    def is_undone(self, source: Node, node: Node) -> bool:
        """Whether `node` quantizes what `source` has dequantized in the same way."""
        scale = scale_of(source, Kind.DEQUANTIZE)
        same_numbers = scale is not None and scale == scale_of(node, Kind.QUANTIZE)
        return same_numbers and self.graph.dtype(source.inputs[0]) is self.graph.dtype(node.output)

    def lowered(self, node: Node, first: Node) -> Node | None:
        """The dequantization behind the node on int8; None if these cannot be exchanged."""
        sources = [self.rewriter.producer(tensor) for tensor in node.inputs]
        dtype = self.graph.dtype(first.inputs[0])
        if not self.is_movable(node) or (dtype not in BYTES and node.kind is Kind.POOLING):
            return None
        same = [source for source in sources if source is not None and self.is_like(source, first)]
        parameters = self.moved(first, node)
        if parameters is None or len(same) != len(sources):
            return None
        operands = [source.inputs[0] for source in same]
        shape = self.graph.shape(node.output)
        inner = self.graph.add(node.kind, operands, shape, node.parameters, dtype=dtype)
        return replace(first, inputs=(inner, *first.inputs[1:]), output=node.output, parameters=parameters)

    def is_like(self, source: Node, first: Node) -> bool:
        """Whether two dequantizations mean the same by their elements."""
        same_type = self.graph.dtype(source.inputs[0]) is self.graph.dtype(first.inputs[0])
        same_scales = (source.inputs[1:], source.parameters) == (first.inputs[1:], first.parameters)
        return source.kind is first.kind and same_type and same_scales

    def moved(self, source: Node, view: Node) -> Scale | ChannelScales | None:
        """The dequantization behind the view; None if the axes with scales are no neighbours there."""
        if not isinstance(source.parameters, ChannelScales):
            return scale_of(source, Kind.DEQUANTIZE)
        before, after = self.graph.shape(view.inputs[0]), self.graph.shape(view.output)
        first, count = source.parameters.first, source.parameters.count
        if isinstance(view.parameters, Permutation) and count == 1:
            return ChannelScales(view.parameters.axes.index(first), 1)
        if view.kind is not Kind.RESHAPE:
            return None
        wanted = volume(before[:first]), volume(before[first : first + count])
        for begin in range(len(after)):
            for end in range(begin + 1, len(after) + 1):
                if same_shape((volume(after[:begin]), volume(after[begin:end])), wanted):
                    return ChannelScales(begin, end - begin)
        return None


class MakeInt8Products(Rewrite):
    """Products whose operands are dequantized become products of int8; those of floats get fewer."""

    def rewritten(self, node: Node) -> Node | None:
        """The product of int8."""
        if node.kind not in PRODUCTS or node.post_ops or node.quantized is not None:
            return None
        left, right = map(self.rewriter.producer, node.inputs[:2])
        scale = scale_of(left, Kind.DEQUANTIZE)
        if left is None or scale is None or right is None or right.kind is not Kind.DEQUANTIZE:
            return None
        data, weights = left.inputs[0], right.inputs[0]
        if self.graph.dtype(data) not in BYTES:
            return None
        if self.graph.dtype(weights) is DataType.UINT8 and node.kind is Kind.MATMUL and data != weights:
            right = self.as_signed(right)
        if right is None or self.graph.dtype(weights) is not DataType.INT8:
            return None
        quantized = self.meaning(node, scale, right)
        if quantized is None:
            return None
        return replace(node, inputs=(data, weights, *node.inputs[2:]), quantized=quantized)

    def measure(self) -> tuple[int, ...]:
        """Products of floats."""
        nodes = self.rewriter.nodes()
        return (sum(node.kind in PRODUCTS and node.quantized is None for node in nodes),)

    def meaning(self, node: Node, data: Scale, right: Node) -> Quantized | None:
        """What the elements of the operands mean; None if oneDNN cannot know."""
        weights = scale_of(right, Kind.DEQUANTIZE)
        if weights is None:
            is_fit = len(right.inputs) == 2 and self.is_per_channel(node, right)
            return Quantized(data.scale, data.zero, weights_scales=right.inputs[1]) if is_fit else None
        if weights.zero and node.kind is Kind.CONVOLUTION:
            return None  # oneDNN's convolutions know no zero point of the weights
        return Quantized(data.scale * weights.scale, data.zero, weights_zero=weights.zero)

    def is_per_channel(self, product: Node, weights: Node) -> bool:
        """Whether the weights have a scale for each channel of the result, and for nothing else."""
        assert isinstance(weights.parameters, ChannelScales)
        shape = self.graph.shape(weights.output)
        first, count = weights.parameters.first, weights.parameters.count
        if product.kind is Kind.MATMUL:
            return first + count == len(shape) and same_dim(volume(shape[first:]), shape[-1])
        is_grouped = len(shape) > len(self.graph.shape(product.output))
        return first == 0 and same_dim(volume(shape[:count]), volume(shape[: 2 if is_grouped else 1]))

    def as_signed(self, dequantize: Node) -> Node | None:
        """The same numbers from int8 instead of uint8, where the quantization can be told to make these.

        oneDNN multiplies with int8 only. All elements and their zero point become smaller by 128.
        """
        path = [dequantize.inputs[0]]
        while (node := self.rewriter.producer(path[-1])) is not None and node.kind in VIEWS:
            path.append(node.inputs[0])
        made, read = scale_of(node, Kind.QUANTIZE), scale_of(dequantize, Kind.DEQUANTIZE)
        if node is None or made is None or read is None:
            return None
        if any(self.rewriter.reads(tensor) != 1 for tensor in path):
            return None
        for tensor in path:
            tensors = self.graph.tensors
            tensors[tensor] = replace(tensors[tensor], dtype=DataType.INT8)
        self.rewriter.exchange(replace(node, parameters=Scale(made.scale, made.zero - 128)))
        signed = replace(dequantize, parameters=Scale(read.scale, read.zero - 128))
        self.rewriter.exchange(signed)
        return signed
