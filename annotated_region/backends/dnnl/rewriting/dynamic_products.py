"""Turns integer products and convolutions of bytes, as in dynamic quantization, into oneDNN's of int8.

::

    x_q --> cast(int32) --> subtract(zero) --> whole_matmul --> cast(float32)   =>   product(x_q, w_q; zero)
                                     w_q --------^

Convolutions (`whole_convolution`) alike; padding stands for the zero point in both forms.

oneDNN reads the zero point, which is computed in the region, at run time. Both forms accumulate in int32, so
the results are equal. The scales and the bias that follow are float arithmetic, which `Fuse` fuses into the
product.

Weights that do not fit int8, as kernels of uint8 whose zero point is not 128, are multiplied in float32::

    x_q --> dequantize(1, zero) --> product(w_q - zero)

Sums up to 2^24 are exact; larger ones, which the cast would round, have the errors of a product of floats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from annotated_region.backends.dnnl.graph import DataType, Kind, Node, Quantized, TensorId, same_shape
from annotated_region.backends.dnnl.parameters import (
    NO_PARAMETERS,
    ChannelScales,
    Convolution,
    Parameters,
    Range,
    Scale,
    Whole,
    WholeConvolution,
    WholeFunction,
    WholeProduct,
)
from annotated_region.backends.dnnl.rewriting.rewriter import VIEWS, Rewrite

__all__ = ["WHOLE_PRODUCTS", "MakeDynamicProducts"]

BYTES = (DataType.INT8, DataType.UINT8)
WHOLE_PRODUCTS = (Kind.WHOLE_MATMUL, Kind.WHOLE_CONVOLUTION)


class MakeDynamicProducts(Rewrite):
    """Fuse an integer product into the following cast to float, if the operands are bytes."""

    def rewritten(self, node: Node) -> Node | None:
        """The int8 product, or the last view that follows it."""
        if node.kind is not Kind.CAST or self.graph.dtype(node.output) is not DataType.FLOAT32:
            return None
        tensor, views = self.below_views(node.inputs[0], is_owned=True)
        product = self.rewriter.own(tensor)
        if product is None or not isinstance(product.parameters, WholeProduct | WholeConvolution):
            return None
        found = self.bytes_of(product.inputs[0]) if product.parameters.small else None
        return None if found is None else self.multiplied(node, product, views, *found)

    def measure(self) -> tuple[int, ...]:
        """The number of integer products."""
        return (sum(node.kind in WHOLE_PRODUCTS for node in self.rewriter.nodes()),)

    def below_views(self, tensor: TensorId, is_owned: bool = False) -> tuple[TensorId, list[Node]]:
        """The tensor below a chain of views, and the views, innermost first.

        If `is_owned`, stops at a value with other readers.
        """
        views: list[Node] = []
        while (node := self.rewriter.producer(tensor)) is not None and node.kind in VIEWS:
            if is_owned and self.rewriter.reads(tensor) != 1:
                break
            views.insert(0, node)
            tensor = node.inputs[0]
        return tensor, views

    def bytes_of(self, tensor: TensorId) -> tuple[TensorId, TensorId | None] | None:
        """The bytes that an operand is computed from, and their zero point, if any; else None."""
        inner, views = self.below_views(tensor)
        node, zero = self.rewriter.producer(inner), None
        if node is not None and node.parameters == Whole(WholeFunction.SUBTRACT):
            inner, zero = node.inputs
            if any(extent != 1 for extent in self.graph.shape(zero)):
                return None
            inner, more = self.below_views(inner)
            node, views = self.rewriter.producer(inner), [*more, *views]
        if node is None or node.kind is not Kind.CAST or self.graph.dtype(node.inputs[0]) not in BYTES:
            return None
        whole = self.graph.shape(views[-1].output if views else inner)
        is_repeated = not same_shape(self.graph.shape(tensor), whole)
        return None if is_repeated else (self.seen(node.inputs[0], views), zero)

    def seen(self, tensor: TensorId, views: Iterable[Node]) -> TensorId:
        """`tensor` with the same chain of views applied."""
        for view in views:
            shape = self.graph.shape(view.output)
            tensor = self.graph.add(view.kind, (tensor,), shape, view.parameters)
        return tensor

    def multiplied(
        self, cast: Node, product: Node, views: list[Node], data: TensorId, zero: TensorId | None
    ) -> Node:
        """The product with a float result, followed by the views between the old product and the cast."""
        given = product.parameters
        assert isinstance(given, WholeProduct | WholeConvolution)
        in_type = self.in_bytes if given.narrow else self.in_floats
        made = replace(in_type(product, data, zero), output=cast.output)
        if not views:
            return made
        graph = self.graph
        graph.nodes.append(replace(made, output=graph.tensor(graph.shape(product.output))))
        *inner, last = views
        return replace(last, inputs=(self.seen(graph.nodes[-1].output, inner),), output=cast.output)

    def in_bytes(self, product: Node, data: TensorId, zero: TensorId | None) -> Node:
        """The product of int8."""
        weights_zero = product.parameters.zero if isinstance(product.parameters, WholeProduct) else 0
        weights = self.graph.cast(self.shifted(product.inputs[1], weights_zero), DataType.INT8)
        quantized = Quantized(1.0, 0, weights_zero=weights_zero, source_zero=zero)
        kind, parameters = _outside_integers(product)
        return Node(kind, (data, weights), product.output, parameters, quantized=quantized)

    def in_floats(self, product: Node, data: TensorId, zero: TensorId | None) -> Node:
        """The product of what the bytes and the weights stand for, as float32."""
        graph = self.graph
        given: Parameters = Scale(1.0, 0)
        operands = [data]
        if zero is not None:
            one = graph.add(Kind.RANGE, (), (1,), Range(1, 0), dtype=DataType.INT64)
            operands += [graph.cast(one, DataType.FLOAT32), graph.cast(zero, DataType.INT32)]
            given = ChannelScales(0, 0)
        numbers = graph.add(Kind.DEQUANTIZE, operands, graph.shape(data), given, dtype=DataType.FLOAT32)
        weights = graph.cast(product.inputs[1], DataType.FLOAT32)
        kind, parameters = _outside_integers(product)
        return Node(kind, (numbers, weights), product.output, parameters)

    def shifted(self, weights: TensorId, zero: int) -> TensorId:
        """Constant integers plus a number."""
        if zero == 0:
            return weights
        graph = self.graph
        extents, dtype = (1,) * len(graph.shape(weights)), graph.dtype(weights)
        number = graph.add(Kind.RANGE, (), extents, Range(abs(zero), 0), dtype=dtype)
        function = WholeFunction.ADD if zero > 0 else WholeFunction.SUBTRACT
        return graph.add(Kind.WHOLE, (weights, number), graph.shape(weights), Whole(function))


def _outside_integers(product: Node) -> tuple[Kind, Parameters]:
    """The kind and the parameters of the product of int8 or float32."""
    given = product.parameters
    if not isinstance(given, WholeConvolution):
        return Kind.MATMUL, NO_PARAMETERS
    return Kind.CONVOLUTION, Convolution(given.strides, given.dilation, given.before, given.after)
