"""Recognizes local response normalisation in the arithmetic that ONNX's LRN is imported as.

::

    x --> x * x --> view --> avg_pool3d over channels --> view --> alpha * . + k --> . ^ beta
    |                                                                                  |
    +-----------------------------------> divide <-------------------------------------+
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from annotated_region.backends.dnnl.graph import Kind, Node, TensorId
from annotated_region.backends.dnnl.parameters import Arithmetic, Curve, LocalResponse, Pooling
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite

__all__ = ["RebuildLocalResponse"]

CHAIN = (Kind.ELTWISE, Kind.ELTWISE, Kind.RESHAPE, Kind.POOLING, Kind.RESHAPE, Kind.BINARY)


class RebuildLocalResponse(Rewrite):
    """Replace the division and the nodes that compute its divisor by one node; divisions decrease."""

    def rewritten(self, node: Node) -> Node | None:
        """The normalisation."""
        if node.parameters != Arithmetic("binary_div") or node.kind is not Kind.BINARY:
            return None
        data, divisor = node.inputs
        shape = self.graph.shape(data)
        chain = self.chain(divisor)
        if chain is None or len(shape) != 4:
            return None
        power, factor, _, pool, view, square = chain
        curve, scale, window = power.parameters, factor.parameters, pool.parameters
        if not (isinstance(curve, Curve) and isinstance(scale, Curve) and isinstance(window, Pooling)):
            return None
        is_response = (
            (curve.algorithm, curve.alpha) == ("eltwise_pow", 1.0)
            and scale.is_linear
            and square.parameters == Arithmetic("binary_mul")
            and square.inputs == (data, data)
            and self.graph.shape(view.output)[1:] == (1, *shape[1:])
            and _is_mean_over_channels(window)
        )
        if not is_response:
            return None
        response = LocalResponse(window.size[0], scale.alpha, curve.beta, scale.beta)
        return replace(node, kind=Kind.LRN, inputs=(data,), parameters=response)

    def measure(self) -> tuple[int, ...]:
        """The number of divisions."""
        return (sum(node.parameters == Arithmetic("binary_div") for node in self.rewriter.nodes()),)

    def chain(self, tensor: TensorId) -> Sequence[Node] | None:
        """The chain of producers of a tensor, last first, if it has the form above."""
        found: list[Node] = []
        for kind in CHAIN:
            node = self.rewriter.producer(tensor)
            if node is None or node.kind is not kind:
                return None
            found.append(node)
            tensor = node.inputs[0]
        return found


def _is_mean_over_channels(pool: Pooling) -> bool:
    size = pool.size[0]
    around = (size // 2, 0, 0)
    expected = Pooling("pooling_avg_include_padding", (size, 1, 1), (1, 1, 1), (0, 0, 0), around, around)
    return size % 2 == 1 and pool == expected
