"""Composes consecutive linear functions into one, and removes identities.

::

    x --> a * . + b --> c * . + d      =>      x --> (c * a) * . + (c * b + d)
    x --> 1 * . + 0                    =>      x

The shift of a product is a negative zero, which keeps the sign of zero; a product of it may be a positive
one, and is not added.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from annotated_region.backends.dnnl.graph import Node, TensorId
from annotated_region.backends.dnnl.parameters import Curve, linear
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite

__all__ = ["JoinLinearFunctions"]


class JoinLinearFunctions(Rewrite):
    """Compose two linear functions if the inner one has no other reader; the node count decreases."""

    def rewritten(self, node: Node) -> Node | TensorId | None:
        """The composed function; for ``1 * x + 0``, the operand."""
        outer = node.linear
        if outer == linear(1.0):
            return node.inputs[0]
        inner = self.rewriter.own_linear(node.inputs[0]) if outer else None
        if outer is None or inner is None:
            return None
        source, first = inner
        shift = outer.alpha * first.beta
        joined = linear(outer.alpha * first.alpha, shift + outer.beta if shift else outer.beta)
        if not _is_faithful(outer, first, joined):
            return None
        return replace(node, inputs=source.inputs, parameters=joined)


def _is_faithful(outer: Curve, inner: Curve, joined: Curve) -> bool:
    """Whether composing neither overflows nor underflows a factor or term in float32."""
    limits = np.finfo(np.float32)
    largest, smallest = float(limits.max), float(limits.tiny)
    is_in_range = max(abs(joined.alpha), abs(joined.beta)) <= largest
    vanished = outer.alpha != 0.0 and any(
        before != 0.0 and abs(outer.alpha * before) < smallest for before in (inner.alpha, inner.beta)
    )
    return is_in_range and not vanished
