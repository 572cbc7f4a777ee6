"""Turns functions of one tensor of bytes, whose results are rounded to bytes, into tables of 256 results.

::

    dequantize --> sigmoid --> quantize --> dequantize --> multiply --> quantize   =>   lookup
        |____________________________________________________^

Quantized networks round each operand and each result of such an activation, and in floats each step would
read and write four times the bytes. The table is computed by the same nodes, from all 256 bytes, when a plan
is built, so that the result has the same bits.
"""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import DataType, Kind, Node, TensorId, same_shape, volume
from annotated_region.backends.dnnl.parameters import Range
from annotated_region.backends.dnnl.rewriting.int8_products import BYTES, scale_of
from annotated_region.backends.dnnl.rewriting.rewriter import LINKS, VIEWS, Rewrite, Rewriter
from annotated_region.backends.dnnl.views import reshape

__all__ = ["TabulateFunctions"]

COUNT = 256
"""The number of bytes."""

LARGEST = 32
"""The number of nodes beyond which the search for the argument of a function ends."""

POINTWISE = (
    *LINKS,
    Kind.ERROR_FUNCTION,
    Kind.EXPONENTIAL,
    Kind.LOGARITHM,
    Kind.GELU,
    Kind.RECIPROCAL_ROOT,
    Kind.SINE,
    Kind.COSINE,
    Kind.FLOOR,
    Kind.CEILING,
    Kind.TRUNCATION,
    Kind.ELEMENTARY,
    Kind.FLOAT_PAIR,
)
"""The kinds of functions of single elements; what they broadcast must be a constant number."""


class TabulateFunctions(Rewrite):
    """Replaces the quantization at the end of a function of one tensor of bytes by a lookup."""

    def __init__(self, rewriter: Rewriter) -> None:
        super().__init__(rewriter)
        self.made: set[TensorId] = set()
        """The quantizations that compute tables."""

    def rewritten(self, node: Node) -> Node | None:
        """The lookup in a table."""
        if scale_of(node, Kind.QUANTIZE) is None or node.output in self.made:
            return None
        if volume(self.graph.shape(node.output)) == 1:
            return None  # its constants may stand where a node reads what has the shape of its result
        function = _ByteFunction(self, node)
        table = function.table(node.output, node)
        if table is None or function.argument is None or self.is_chain(function):
            return None
        self.made.update(function.quantized)
        return Node(Kind.LOOKUP, (function.argument, table), node.output)

    def measure(self) -> tuple[int, ...]:
        """The number of quantizations that compute no table."""
        nodes = self.rewriter.nodes()
        return (sum(node.kind is Kind.QUANTIZE and node.output not in self.made for node in nodes),)

    def is_chain(self, function: _ByteFunction) -> bool:
        """Whether the function is a chain that can follow the rounding of a product as its post-ops."""
        assert function.argument is not None
        made = self.rewriter.producer(function.argument)
        if (
            made is None
            or scale_of(made, Kind.QUANTIZE) is None
            or self.rewriter.root(made.inputs[0]) is None
        ):
            return False
        return function.is_linked and all(self.rewriter.reads(tensor) == 1 for tensor in function.path)


class _ByteFunction:
    """The search for the argument of a function, which computes the table on the way.

    Attributes
    ----------
    argument
        The bytes, as soon as one path has led to them.
    path
        The argument, and the results of the nodes between it and the last quantization.
    is_linked
        Whether these nodes are of kinds that `Fuse` appends to products.
    quantized
        The quantizations among the nodes that compute the table.
    """

    def __init__(self, rewrite: TabulateFunctions, last: Node) -> None:
        self.rewriter, self.graph = rewrite.rewriter, rewrite.graph
        self.shape = self.graph.shape(last.output)
        self.argument: TensorId | None = None
        self.path: list[TensorId] = []
        self.is_linked = True
        self.quantized: list[TensorId] = []
        self._known: dict[TensorId, TensorId | None] = {}

    def table(self, tensor: TensorId, node: Node) -> TensorId | None:
        """The results of `node`, which computes `tensor`, for all bytes; None if it has another argument."""
        operands = []
        for each in node.inputs:
            found = self.operand(each, node)
            if found is None:
                return None
            operands.append(found)
        result = self.graph.add(
            node.kind, operands, (COUNT,), node.parameters, dtype=self.graph.dtype(tensor)
        )
        if node.kind is Kind.QUANTIZE:
            self.quantized.append(result)
        return result

    def operand(self, tensor: TensorId, reader: Node) -> TensorId | None:
        """An operand of a node of the table."""
        if tensor not in self._known:
            self._known[tensor] = None if len(self._known) > LARGEST else self.computed(tensor, reader)
        return self._known[tensor]

    def computed(self, tensor: TensorId, reader: Node) -> TensorId | None:
        if self.is_number(tensor):
            return reshape(self.graph, tensor, (1,))
        if not same_shape(self.graph.shape(tensor), self.shape):
            return None
        self.path.append(tensor)
        node = self.rewriter.producer(tensor)
        if reader.kind is Kind.DEQUANTIZE:
            return self.bytes_of(tensor, node)
        if node is None or node.post_ops:
            return None
        if scale_of(node, Kind.DEQUANTIZE) is None and node.kind not in POINTWISE:
            return None
        self.is_linked = self.is_linked and node.kind in (*LINKS, Kind.DEQUANTIZE)
        return self.table(tensor, node)

    def bytes_of(self, tensor: TensorId, node: Node | None) -> TensorId | None:
        """All bytes in the place of the argument, or the table of the lookup that computes `tensor`."""
        dtype = self.graph.dtype(tensor)
        is_lookup = node is not None and node.kind is Kind.LOOKUP
        argument = node.inputs[0] if node is not None and is_lookup else tensor
        if dtype not in BYTES or self.argument not in (None, argument):
            return None
        self.argument = argument
        if node is not None and is_lookup:
            return node.inputs[1]
        numbers = self.graph.add(Kind.RANGE, (), (COUNT,), Range(0, 1), dtype=DataType.INT64)
        return self.graph.cast(numbers, dtype)

    def is_number(self, tensor: TensorId) -> bool:
        """Whether a tensor is a constant with one element."""
        if volume(self.graph.shape(tensor)) != 1 or self.graph.dtype(tensor) is not DataType.FLOAT32:
            return False
        node = self.rewriter.producer(tensor)
        while node is not None and node.kind in VIEWS:
            tensor = node.inputs[0]
            node = self.rewriter.producer(tensor)
        return self.graph.tensors[tensor].is_constant
