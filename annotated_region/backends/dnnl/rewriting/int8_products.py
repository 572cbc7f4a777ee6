"""Recognizes int8 products in dequantizations before convolutions and matrix products.

A quantized network has a scale for each tensor, and computes with floats in between::

    x_q --> dequantize --> conv --> add(bias) --> relu --> quantize --> y_q
    w_q --> dequantize -----^

oneDNN computes this as one int8 primitive: integer sums, with scales and zero points applied at the end.
First, views and maxima are moved before the dequantization of their operand, and pairs of equal
dequantization and quantization are removed (`LowerDequantization`); then products of dequantized operands
become int8 products (`MakeInt8Products`). The ops after a product are in `int8_results`.

The scales and zero points are those of the network: nothing is requantized, and no rounding is omitted.
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
from annotated_region.backends.dnnl.parameters import (
    Arithmetic,
    ChannelScales,
    Permutation,
    Pooling,
    Scale,
    linear,
)
from annotated_region.backends.dnnl.rewriting.rewriter import VIEWS, Rewrite
from annotated_region.backends.dnnl.views import reshape

__all__ = ["BYTES", "LowerDequantization", "MakeInt8Products", "scale_of"]

BYTES = (DataType.INT8, DataType.UINT8)
PRODUCTS = (Kind.CONVOLUTION, Kind.MATMUL)
MOVING = (*VIEWS, Kind.SLICE, Kind.CONCAT)


def scale_of(node: Node | None, kind: Kind) -> Scale | None:
    """The scale and zero point of a node that quantizes or dequantizes all elements with the same ones."""
    if node is None or node.kind is not kind or not isinstance(node.parameters, Scale):
        return None
    return node.parameters


class LowerDequantization(Rewrite):
    """Moves views, maxima and concatenations to int8 elements, and removes roundtrips."""

    def rewritten(self, node: Node) -> Node | TensorId | None:
        """The dequantization after the node, or the original int8 elements."""
        source = self.rewriter.producer(node.inputs[0]) if node.inputs else None
        if source is None or source.kind is not Kind.DEQUANTIZE:
            return None
        return source.inputs[0] if self.is_undone(source, node) else self.lowered(node, source)

    def measure(self) -> tuple[int, ...]:
        """The number of paths from a dequantization through views to a view, and of nodes."""
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
        """Whether `node` quantizes a result of `source` with the same parameters."""
        scale = scale_of(source, Kind.DEQUANTIZE)
        same_numbers = scale is not None and scale == scale_of(node, Kind.QUANTIZE)
        return same_numbers and self.graph.dtype(source.inputs[0]) is self.graph.dtype(node.output)

    def lowered(self, node: Node, first: Node) -> Node | None:
        """The dequantization after the node on int8; None if they do not commute."""
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
        """Whether two dequantizations have the same parameters."""
        same_type = self.graph.dtype(source.inputs[0]) is self.graph.dtype(first.inputs[0])
        same_scales = (source.inputs[1:], source.parameters) == (first.inputs[1:], first.parameters)
        return source.kind is first.kind and same_type and same_scales

    def moved(self, source: Node, view: Node) -> Scale | ChannelScales | None:
        """The parameters of the dequantization after a view; None if it separates the scaled axes."""
        if not isinstance(source.parameters, ChannelScales):
            return scale_of(source, Kind.DEQUANTIZE)
        if source.parameters.count == 0:
            return source.parameters
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
    """Converts products of dequantized operands to int8; decreases the number of float products."""

    def rewritten(self, node: Node) -> Node | None:
        """The int8 product."""
        if node.kind not in PRODUCTS or node.post_ops or node.quantized is not None:
            return None
        left, right = map(self.rewriter.producer, node.inputs[:2])
        if left is None or right is None or {left.kind, right.kind} != {Kind.DEQUANTIZE}:
            return None
        scale = scale_of(left, Kind.DEQUANTIZE)
        if scale is not None:
            return self.by_one(node, scale, left, right)
        is_computed = isinstance(left.parameters, ChannelScales) and left.parameters.count == 0
        return (self.by_computed if is_computed else self.by_channels)(node, left, right)

    def by_one(self, node: Node, scale: Scale, left: Node, right: Node) -> Node | None:
        """The product of data with one scale."""
        data, weights = left.inputs[0], right.inputs[0]
        if self.graph.dtype(data) not in BYTES:
            return None
        is_exchangeable = node.kind is Kind.MATMUL and data != weights
        signed: Node | None = right
        if self.graph.dtype(weights) is DataType.UINT8 and is_exchangeable:
            signed = self.as_signed(right)
        if signed is None or self.graph.dtype(weights) is not DataType.INT8:
            return None
        quantized = self.meaning(node, scale, signed)
        if quantized is None:
            return None
        return replace(node, inputs=(data, weights, *node.inputs[2:]), quantized=quantized)

    def by_computed(self, node: Node, left: Node, right: Node) -> Node | None:
        """The product of data with a scale that each call computes, times that scale.

        PyTorch quantizes so dynamically: it rounds the data and multiplies what the bytes stand for.
        """
        made = self.by_one(node, Scale(1.0, 0), left, right)
        if made is None or made.quantized is None:
            return None
        _, scale, *zeros = left.inputs
        zero = self.graph.cast(zeros[0], DataType.INT32) if zeros else None
        shape = self.graph.shape(node.output)
        product = self.graph.tensor(shape)
        quantized = replace(made.quantized, source_zero=zero)
        self.graph.nodes.append(replace(made, output=product, quantized=quantized))
        factor = reshape(self.graph, scale, (1,) * len(shape))
        return Node(Kind.BINARY, (product, factor), node.output, Arithmetic("binary_mul"))

    def by_channels(self, node: Node, left: Node, right: Node) -> Node | None:
        """The depthwise convolution of data with a scale for each channel; its scales are products.

        NNCF quantizes so what only a depthwise convolution reads.
        """
        scales = self.channel_scales(node, left, right)
        data, weights = left.inputs[0], right.inputs[0]
        is_narrow = self.graph.dtype(data) in BYTES and self.graph.dtype(weights) is DataType.INT8
        if scales is None or not is_narrow:
            return None
        quantized = Quantized(1.0, 0, weights_scales=scales)
        return replace(node, inputs=(data, weights, *node.inputs[2:]), quantized=quantized)

    def channel_scales(self, node: Node, left: Node, right: Node) -> TensorId | None:
        """The products of the scales of data and weights, which have no zero points; None for other nodes."""
        is_by_channel = left.parameters == ChannelScales(1, 1) and len(left.inputs) == 2
        if node.kind is not Kind.CONVOLUTION or not is_by_channel or not self.is_depthwise(node):
            return None
        scales, weights = left.inputs[1], scale_of(right, Kind.DEQUANTIZE)
        if not self.graph.tensors[scales].is_constant:
            return None
        shape = self.graph.shape(scales)
        if weights is not None:
            factor = linear(weights.scale)
            return None if weights.zero else self.graph.add(Kind.ELTWISE, (scales,), shape, factor)
        if len(right.inputs) != 2 or not self.is_per_channel(node, right):
            return None
        others = reshape(self.graph, right.inputs[1], shape)
        return self.graph.add(Kind.BINARY, (scales, others), shape, Arithmetic("binary_mul"))

    def is_depthwise(self, node: Node) -> bool:
        """Whether each channel of a convolution's result is made of one channel of the data."""
        data, kernel = map(self.graph.shape, node.inputs[:2])
        return len(kernel) > len(data) and kernel[1:3] == (1, 1)

    def measure(self) -> tuple[int, ...]:
        """The number of float products."""
        nodes = self.rewriter.nodes()
        return (sum(node.kind in PRODUCTS and node.quantized is None for node in nodes),)

    def meaning(self, node: Node, data: Scale, right: Node) -> Quantized | None:
        """The quantization parameters of a product; None if oneDNN does not support them."""
        weights = scale_of(right, Kind.DEQUANTIZE)
        if weights is None:
            is_fit = len(right.inputs) == 2 and self.is_per_channel(node, right)
            return Quantized(data.scale, data.zero, weights_scales=right.inputs[1]) if is_fit else None
        if weights.zero and node.kind is Kind.CONVOLUTION:
            return None  # oneDNN's convolutions do not support zero points of the weights
        return Quantized(data.scale * weights.scale, data.zero, weights_zero=weights.zero)

    def is_per_channel(self, product: Node, weights: Node) -> bool:
        """Whether the weights have a scale for each output channel, and along no other axis."""
        assert isinstance(weights.parameters, ChannelScales)
        shape = self.graph.shape(weights.output)
        first, count = weights.parameters.first, weights.parameters.count
        if product.kind is Kind.MATMUL:
            return first + count == len(shape) and same_dim(volume(shape[first:]), shape[-1])
        is_grouped = len(shape) > len(self.graph.shape(product.output))
        return first == 0 and same_dim(volume(shape[:count]), volume(shape[: 2 if is_grouped else 1]))

    def as_signed(self, dequantize: Node) -> Node | None:
        """The same numbers as int8 instead of uint8, if the quantization that produces them can be changed.

        oneDNN multiplies int8 only. All elements and their zero point are reduced by 128.
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
