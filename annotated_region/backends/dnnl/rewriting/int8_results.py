"""The ops after an int8 product: rounding as a post-op, int8 results, int8 residuals.

::

    product_q --> add --> quantize --> dequantize --> add ...   =>   product_q --> add --> round --> add ...
    concat(a, b) --> quantize                                   =>   concat(quantize(a), quantize(b))
    product_q + chain --> quantize                              =>   product_q + chain, stored as int8
    product_q + (dequantize(e))                                 =>   product_q + e, scaled around the sum

`QuantizeParts` and `RoundInChains` run before `fuse`, so that chains of post-ops are not interrupted;
the other two run after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from annotated_region.backends.dnnl.graph import DataType, Kind, Node, PostOp, TensorId, same_shape
from annotated_region.backends.dnnl.parameters import Curve, Pooling, Scale, linear
from annotated_region.backends.dnnl.rewriting.int8_products import scale_of
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite

__all__ = ["QuantizeParts", "ReadInt8Residuals", "RoundInChains", "StoreInt8Results"]

LIMITS = {DataType.INT8: (-128, 127), DataType.UINT8: (0, 255)}


class QuantizeParts(Rewrite):
    """Moves a quantization before a concatenation or max pooling.

    The results are equal: a concatenation moves elements, and rounding is monotone. Concatenating 8-bit
    elements takes a quarter of the time, and products before the concatenation can store 8-bit results.
    """

    def rewritten(self, node: Node) -> Node | None:
        """The concatenation or pooling of int8."""
        scale = scale_of(node, Kind.QUANTIZE)
        source = None if scale is None else self.rewriter.producer(node.inputs[0])
        if scale is None or source is None or not self.is_movable(source):
            return None
        if self.rewriter.reads(source.output) != 1:
            return None
        dtype = self.graph.dtype(node.output)
        parts = tuple(self.quantized(tensor, scale, dtype) for tensor in source.inputs)
        return replace(source, inputs=parts, output=node.output)

    def measure(self) -> tuple[int, ...]:
        """The number of float concatenations and poolings."""
        floats = (node for node in self.rewriter.nodes() if self.is_movable(node))
        return (sum(self.graph.dtype(node.output) is DataType.FLOAT32 for node in floats),)

    def is_movable(self, node: Node) -> bool:
        """Whether a node commutes with rounding of its operands."""
        is_largest = isinstance(node.parameters, Pooling) and node.parameters.algorithm == "pooling_max"
        return node.kind is Kind.CONCAT or is_largest

    def quantized(self, tensor: TensorId, scale: Scale, dtype: DataType) -> TensorId:
        """The elements of a part as int8; its original int8 elements, if they have the same parameters."""
        source = self.rewriter.producer(tensor)
        is_undone = source is not None and scale_of(source, Kind.DEQUANTIZE) == scale
        if source is not None and is_undone and self.graph.dtype(source.inputs[0]) is dtype:
            return source.inputs[0]
        return self.graph.add(Kind.QUANTIZE, (tensor,), self.graph.shape(tensor), scale, dtype=dtype)


class RoundInChains(Rewrite):
    """Converts a quantization and its dequantization after an int8 product to a rounding post-op."""

    def rewritten(self, node: Node) -> Node | None:
        """The rounding, or the scaling after it."""
        dequantized = scale_of(node, Kind.DEQUANTIZE)
        if dequantized is not None and self.graph.dtype(node.inputs[0]) is DataType.FLOAT32:
            return replace(node, kind=Kind.ELTWISE, parameters=linear(dequantized.scale))
        return self.rounding(node) if self.is_rounding(node) else None

    def measure(self) -> tuple[int, ...]:
        """The number of quantizations and dequantizations."""
        return (sum(node.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE) for node in self.rewriter.nodes()),)

    def is_rounding(self, node: Node) -> bool:
        """Whether the only reader of a quantization is a dequantization with the same parameters."""
        scale = scale_of(node, Kind.QUANTIZE)
        root = None if scale is None else self.rewriter.root(node.inputs[0])
        if root is None or root.quantized is None or self.rewriter.reads(node.inputs[0]) != 1:
            return False
        reader = self.rewriter.reader(node.output)
        if reader is None or scale_of(reader, Kind.DEQUANTIZE) != scale:
            return False
        return self.rewriter.reads(reader.output) == 1 and self.is_last_operand(reader)

    def is_last_operand(self, dequantize: Node) -> bool:
        """Of two dequantized operands, only the later one can be computed in place; the other stays int8."""
        consumer = self.rewriter.reader(dequantize.output)
        operands = consumer.inputs if consumer is not None and consumer.kind is Kind.BINARY else ()
        return not any(self.is_quantized_later(tensor) for tensor in operands if tensor != dequantize.output)

    def is_quantized_later(self, tensor: TensorId) -> bool:
        """Whether a tensor is dequantized from a quantization that is not placed yet."""
        reader = self.rewriter.maker(tensor)
        if reader is None or scale_of(reader, Kind.DEQUANTIZE) is None:
            return False
        source = self.rewriter.maker(reader.inputs[0])
        is_waiting = self.rewriter.producer(reader.inputs[0]) is None
        return is_waiting and scale_of(source, Kind.QUANTIZE) is not None

    def rounding(self, node: Node) -> Node:
        """round(x / scale), clipped to the range of the type relative to the zero point."""
        scale = scale_of(node, Kind.QUANTIZE)
        assert scale is not None
        tensors = self.graph.tensors
        low, high = (float(limit - scale.zero) for limit in LIMITS[self.graph.dtype(node.output)])
        shape, source = self.graph.shape(node.output), node.inputs[0]
        for curve in (linear(1.0 / scale.scale), Curve("eltwise_round")):
            source = self.graph.add(Kind.ELTWISE, (source,), shape, curve)
        tensors[node.output] = replace(tensors[node.output], dtype=DataType.FLOAT32)
        return Node(Kind.ELTWISE, (source,), node.output, Curve("eltwise_clip", low, high))


class ReadInt8Residuals(Rewrite):
    """Scales the chain of an int8 product so that it adds a residual ``scale * (e - zero)`` as int8 ``e``."""

    def rewritten(self, node: Node) -> Node | None:
        """The product that reads an int8 residual."""
        if node.quantized is None or not any(self.is_residual(node, post) for post in node.post_ops):
            return None
        return replace(node, post_ops=tuple(self.chain(node)))

    def measure(self) -> tuple[int, ...]:
        """The number of residuals that are dequantized before they are added."""
        nodes = list(self.rewriter.nodes())
        made = {node.output for node in nodes if scale_of(node, Kind.DEQUANTIZE)}
        return (sum(post.operand in made for node in nodes for post in node.post_ops),)

    def is_residual(self, node: Node, post: PostOp) -> bool:
        """Whether a dequantized tensor of the shape of the result is added."""
        if post.operand is None or post.algorithm != "binary_add":
            return False
        is_dequantized = scale_of(self.rewriter.producer(post.operand), Kind.DEQUANTIZE) is not None
        return is_dequantized and same_shape(self.graph.shape(post.operand), self.graph.shape(node.output))

    def chain(self, node: Node) -> Iterator[PostOp]:
        for post in node.post_ops:
            if not self.is_residual(node, post) or post.operand is None:
                yield post
                continue
            source = self.rewriter.producer(post.operand)
            scale = scale_of(source, Kind.DEQUANTIZE)
            assert source is not None
            assert scale is not None
            yield PostOp("eltwise_linear", 1.0 / scale.scale, float(-scale.zero))
            yield replace(post, operand=source.inputs[0])
            yield PostOp("eltwise_linear", scale.scale, 0.0)


class StoreInt8Results(Rewrite):
    """Merges a quantization after a chain into the product; decreases the number of nodes."""

    def rewritten(self, node: Node) -> Node | None:
        """The product with an int8 result."""
        scale = scale_of(node, Kind.QUANTIZE)
        product = None if scale is None else self.rewriter.own(node.inputs[0])
        if scale is None or product is None or product.quantized is None:
            return None
        quantized = replace(product.quantized, result_scale=scale.scale, result_zero=scale.zero)
        return replace(product, output=node.output, quantized=quantized)
