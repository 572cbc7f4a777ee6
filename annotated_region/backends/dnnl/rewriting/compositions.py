"""GELU, SiLU and RMS norm, put together again from the ops that exporters write them as.

::

    x * (1 + erf(x / sqrt(2))) / 2                          =>   gelu_erf(x)
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + c * x ^ 3)))      =>   gelu_tanh(x)
    x * sigmoid(x)                                          =>   swish(x)
    x / sqrt(mean(x ^ 2) + e) * w                           =>   rms_norm(x, w)

Factors may stand before or behind: a linear function with no shift is looked through, and what is left of it
is put behind the new node, where `JoinLinearFunctions` joins it with its neighbours. A node takes the place
of others only if nothing else reads what they compute.
"""

from __future__ import annotations

import math
from dataclasses import replace

from annotated_region.backends.dnnl.graph import Kind, Node, TensorId, same_dim, same_shape, volume
from annotated_region.backends.dnnl.parameters import Arithmetic, Curve, Norm, linear
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite
from annotated_region.backends.dnnl.views import reshape

__all__ = ["RecognizeActivation", "RecognizeRootMeanSquare", "WeightRootMeanSquare"]

TOLERANCE = 1e-4  # of constants that exporters write with few digits
CUBE = 0.044715
PRODUCT = Arithmetic("binary_mul")
POWERS = {"binary_div": 0.5, "binary_mul": -0.5}


def _close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=TOLERANCE)


class RecognizeActivation(Rewrite):
    """One curve in the place of a product and of what computes a factor of it."""

    def rewritten(self, node: Node) -> Node | None:
        """The curve, with the factor that is left behind it."""
        if node.parameters != PRODUCT or node.post_ops:
            return None
        for first, second in (node.inputs, node.inputs[::-1]):
            found = self.swish(first, second) or self.gelu(first, second)
            if found is not None:
                return self.behind(node, *found)
        return None

    def behind(self, node: Node, data: TensorId, curve: Curve, factor: float) -> Node:
        if factor == 1.0:
            return Node(Kind.ELTWISE, (data,), node.output, curve)
        value = self.rewriter.add(Kind.ELTWISE, (data,), self.rewriter.shape(node.output), curve)
        return Node(Kind.ELTWISE, (value,), node.output, linear(factor))

    def swish(self, first: TensorId, second: TensorId) -> tuple[TensorId, Curve, float] | None:
        gate = self.rewriter.own(second, Kind.ELTWISE, "eltwise_logistic")
        is_gate = gate is not None and gate.inputs[0] == first
        return (first, Curve("eltwise_swish", 1.0), 1.0) if is_gate else None

    def gelu(self, first: TensorId, second: TensorId) -> tuple[TensorId, Curve, float] | None:
        """Of ``x * a`` times ``s + s * f(x)``, with f the error function or the hyperbolic tangent."""
        outer = self.rewriter.own_linear(second)
        if outer is None or outer[1].alpha != outer[1].beta:
            return None
        data, factor = self.scaled(first)
        factor *= 2.0 * outer[1].alpha
        inner = outer[0].inputs[0]
        error = self.rewriter.own(inner, Kind.ERROR_FUNCTION)
        if error is not None:
            value, root = self.scaled(error.inputs[0])
            is_same = value == data and _close(root, 2**-0.5)
            return (data, Curve("eltwise_gelu_erf"), factor) if is_same else None
        tangent = self.rewriter.own(inner, Kind.ELTWISE, "eltwise_tanh")
        if tangent is None or not self.is_bent(tangent.inputs[0], data):
            return None
        return data, Curve("eltwise_gelu_tanh"), factor

    def is_bent(self, tensor: TensorId, data: TensorId) -> bool:
        """Whether a tensor is the argument of GELU's hyperbolic tangent."""
        total, root = self.scaled(tensor)
        sum_ = self.rewriter.own(total, Kind.BINARY, "binary_add")
        if sum_ is None or data not in sum_.inputs or not _close(root, math.sqrt(2 / math.pi)):
            return False
        left, right = sum_.inputs
        cube, factor = self.scaled(right if left == data else left)
        power = self.rewriter.own(cube, Kind.ELTWISE)
        is_cube = power is not None and power.parameters == Curve("eltwise_pow", 1.0, 3.0)
        return is_cube and power is not None and power.inputs == (data,) and _close(factor, CUBE)

    def scaled(self, tensor: TensorId) -> tuple[TensorId, float]:
        """A tensor as another one times a factor."""
        found = self.rewriter.own_linear(tensor)
        return (tensor, 1.0) if found is None or found[1].beta else (found[0].inputs[0], found[1].alpha)


class RecognizeRootMeanSquare(Rewrite):
    """The quotient of a tensor by its root mean square over the last axis; the scale is one."""

    def rewritten(self, node: Node) -> Node | None:
        """The normalisation."""
        exponent = POWERS.get(node.parameters.row().algorithm)
        if node.kind is not Kind.BINARY or exponent is None:
            return None
        data, root = node.inputs
        epsilon = self.mean_square(data, root, exponent)
        return None if epsilon is None else Node(Kind.RMS_NORM, (data,), node.output, Norm(epsilon))

    def mean_square(self, data: TensorId, root: TensorId, exponent: float) -> float | None:
        """The epsilon under the root, or None."""
        power = self.rewriter.own(root, Kind.ELTWISE)
        roots = [Curve("eltwise_pow", 1.0, exponent)] + [Curve("eltwise_sqrt")] * (exponent > 0)
        shifted = None
        if power is not None and power.parameters in roots:
            shifted = self.rewriter.own_linear(power.inputs[0])
        if shifted is None or shifted[1].alpha != 1.0:
            return None
        inner = shifted[0].inputs[0]
        mean = self.rewriter.own(inner, Kind.REDUCTION, "reduction_mean") or self.rewriter.own(
            inner, Kind.POOLING, "pooling_avg_exclude_padding"
        )
        if mean is None or not self.is_row_of(mean, data) or not self.is_square(mean.inputs[0], data):
            return None
        return shifted[1].beta

    def is_row_of(self, mean: Node, data: TensorId) -> bool:
        shape = self.rewriter.shape(data)
        is_last = same_shape(self.rewriter.shape(mean.output), (*shape[:-1], 1))
        return is_last and isinstance(shape[-1], int)

    def is_square(self, tensor: TensorId, data: TensorId) -> bool:
        square = self.rewriter.own(tensor)
        if square is None:
            return False
        if square.kind is Kind.BINARY:
            return square.parameters == PRODUCT and square.inputs == (data, data)
        powers = (Curve("eltwise_pow", 1.0, 2.0), Curve("eltwise_square"))
        return square.inputs == (data,) and square.parameters in powers


class WeightRootMeanSquare(Rewrite):
    """A root mean square norm with the scale that follows it."""

    def rewritten(self, node: Node) -> Node | None:
        """The normalisation with its scale."""
        if node.kind is not Kind.BINARY or node.parameters != PRODUCT:
            return None
        for data, weight in (node.inputs, node.inputs[::-1]):
            norm = self.rewriter.own(data, Kind.RMS_NORM)
            if norm is None or len(norm.inputs) > 1:
                continue
            size, extents = self.rewriter.shape(data)[-1], self.rewriter.shape(weight)
            if same_dim(volume(extents), size) and same_dim(extents[-1], size):
                vector = reshape(self.rewriter, weight, (size,))
                return replace(norm, inputs=(*norm.inputs, vector), output=node.output)
        return None
