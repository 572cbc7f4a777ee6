"""Recognizes activations that multiply a tensor by a function of itself, and replaces their parts.

::

    x * sigmoid(a * x)                =>   swish(x)       a = 1 is SiLU, a = 1.702 the quick GELU of CLIP
    x * clip(a * x + b, 0, c) / c     =>   hardswish(x)   max(0, min(1, a / c * x + b / c)) * x
    x * tanh(softplus(x))             =>   mish(x)

Relax has no op for these (except SiLU, which preparation recognizes), so exporters and importers use two to
eight ops, each of which would read and write the tensor. oneDNN has a function for each, also as a post-op.

1.  The factor ``1 / c`` may precede or follow the product, as a factor or as a divisor; the total factor
    must be one, up to the rounding of ``1 / c``.
2.  ``softplus(x)`` is ``log(1 + exp(x))`` or the equivalent ``max(x, 0) + log(1 + exp(-abs(x)))``.
3.  The parts have no other readers, so nothing is computed twice. Each part is a function of one tensor and
    has the shape of ``x``, so the product does not broadcast.

Special values agree with the decomposed form, because ``x`` is a factor: NaN gives NaN; minus infinity, whose
gate is 0, gives NaN; infinity gives infinity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from annotated_region.backends.dnnl.graph import Kind, Node, TensorId
from annotated_region.backends.dnnl.parameters import Curve, linear
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite

__all__ = ["RecognizeGates"]

ROUNDING = 2.0**-22
"""The tolerance for a factor such as ``6 * (1 / 6)`` to count as one: two roundings of float32."""

PRODUCT = "binary_mul"
RELU = Curve("eltwise_relu")


class RecognizeGates(Rewrite):
    """Replace a product and the nodes that compute one factor by one function; the node count decreases."""

    def rewritten(self, node: Node) -> Node | None:
        """The node of the recognized function, or None."""
        product, factor = self.product(node)
        if product is None:
            return None
        for data, gate in (product.inputs, product.inputs[::-1]):
            for curve, rest in self.gates(gate, data):
                if abs(factor * rest - 1.0) <= ROUNDING:
                    return replace(node, kind=Kind.ELTWISE, inputs=(data,), parameters=curve)
        return None

    def product(self, node: Node) -> tuple[Node | None, float]:
        """The product that a node computes, times a factor (case 1)."""
        if node.post_ops:
            return None, 1.0
        if node.kind is Kind.BINARY and node.algorithm == PRODUCT:
            return node, 1.0
        if node.linear is not None and not node.linear.beta:
            return self.rewriter.own(node.inputs[0], Kind.BINARY, PRODUCT), node.linear.alpha
        divides = node.kind is Kind.BINARY and node.algorithm == "binary_div"
        divisor = self.rewriter.scalar(node.inputs[1]) if divides else None
        if not divisor:
            return None, 1.0
        return self.rewriter.own(node.inputs[0], Kind.BINARY, PRODUCT), 1.0 / divisor

    def gates(self, gate: TensorId, data: TensorId) -> Iterator[tuple[Curve, float]]:
        """The functions that ``data * gate`` may be, up to a factor, each with this factor."""
        inner, factor = self.rewriter.own_multiple(gate)
        function = self.rewriter.own(inner)
        if function is None or function.post_ops or function.kind is not Kind.ELTWISE:
            return
        curve, argument = function.parameters, function.inputs[0]
        assert isinstance(curve, Curve)
        slope = self.line(argument, data)
        if curve.algorithm == "eltwise_logistic" and slope is not None and not slope.beta:
            yield Curve("eltwise_swish", slope.alpha), factor
        if curve.algorithm == "eltwise_clip" and not curve.alpha and curve.beta > 0.0 and slope is not None:
            top = curve.beta
            yield Curve("eltwise_hardswish", slope.alpha / top, slope.beta / top), factor * top
        if curve.algorithm == "eltwise_tanh" and self.is_softplus(argument, data):
            yield Curve("eltwise_mish"), factor

    def line(self, tensor: TensorId, data: TensorId) -> Curve | None:
        """The linear function of `data` that computes a tensor, or None."""
        if tensor == data:
            return linear(1.0)
        found = self.rewriter.own_linear(tensor)
        return found[1] if found is not None and found[0].inputs[0] == data else None

    def is_softplus(self, tensor: TensorId, data: TensorId) -> bool:
        """Case 2."""
        total = self.rewriter.own(tensor, Kind.BINARY, "binary_add")
        if total is None:
            return self.is_logarithm(tensor, data)
        return any(
            self.applies(RELU, positive, data) and self.is_logarithm(rest, data, of_size=True)
            for positive, rest in (total.inputs, total.inputs[::-1])
        )

    def is_logarithm(self, tensor: TensorId, data: TensorId, *, of_size: bool = False) -> bool:
        """Whether a tensor is ``log(1 + exp(x))`` of the data, or ``log(1 + exp(-abs(x)))``."""
        logarithm = self.rewriter.own(tensor, Kind.LOGARITHM)
        shifted = None if logarithm is None else self.rewriter.own_linear(logarithm.inputs[0])
        if shifted is None or shifted[1] != linear(1.0, 1.0):
            return False
        exponential = self.rewriter.own(shifted[0].inputs[0], Kind.EXPONENTIAL)
        if exponential is None:
            return False
        argument = exponential.inputs[0]
        if not of_size:
            return argument == data
        negated = self.rewriter.own_linear(argument)
        is_negated = negated is not None and negated[1] == linear(-1.0)
        return (
            negated is not None
            and is_negated
            and self.applies(Curve("eltwise_abs"), negated[0].inputs[0], data)
        )

    def applies(self, curve: Curve, tensor: TensorId, data: TensorId) -> bool:
        """Whether a tensor is `curve` of the data and has a single reader."""
        node = self.rewriter.own(tensor, Kind.ELTWISE)
        return node is not None and not node.post_ops and node.parameters == curve and node.inputs[0] == data
