"""Recognizes attention in the ops that exporters decompose it into.

::

    softmax(mask(a * q @ k)) @ v                   =>   attention(q, k, v, mask)
    where(all(s == -inf), 0, softmax(s))           =>   softmax(s), guarded; also inside attention

This is a rewrite of this backend and not part of preparation, because the node is more general than Relax's
op: it has masks that select scores, values for masked scores, fully masked rows, heads that share keys, and
any rank. It replaces other nodes only if nothing else reads their results.
"""

from __future__ import annotations

import math
from dataclasses import replace

from annotated_region.backends.dnnl.graph import Dim, Kind, Node, TensorId, same_dim, same_shape
from annotated_region.backends.dnnl.parameters import Attention, Mask, Permutation, Softmax, linear
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite
from annotated_region.backends.dnnl.views import permute, reshape

__all__ = ["GuardSoftmax", "RecognizeAttention"]

HEADS = 4
"""The rank of heads: batch, heads, rows, depth."""


class GuardSoftmax(Rewrite):
    """A softmax that returns zeros for fully masked rows, in which all scores are minus infinity."""

    def rewritten(self, node: Node) -> Node | None:
        """The guarded softmax."""
        shape = self.graph.shape(node.output)
        if node.kind is not Kind.SELECT or self.rewriter.scalar(node.inputs[1]) != 0.0:
            return None
        weights = self.rewriter.own(node.inputs[2], Kind.SOFTMAX)
        if (
            weights is None
            or weights.parameters != Softmax(len(shape) - 1)
            or not same_shape(self.graph.shape(weights.output), shape)
        ):
            return None
        any_ = self.contrary(node.inputs[0], Kind.REDUCTION, "reduction_max")
        equal = None if any_ is None else self.contrary(any_.inputs[0], Kind.BINARY, "binary_eq")
        if any_ is None or equal is None or equal.inputs[0] != weights.inputs[0]:
            return None
        if not same_shape(self.graph.shape(any_.output), (*shape[:-1], 1)):
            return None
        if self.rewriter.scalar(equal.inputs[1]) != -math.inf:
            return None
        return replace(weights, output=node.output, parameters=Softmax(len(shape) - 1, guarded=True))

    def contrary(self, tensor: TensorId, kind: Kind, algorithm: str) -> Node | None:
        """The producer, as `Rewriter.own` finds it, of the boolean whose negation a tensor is."""
        found = self.rewriter.own_linear(tensor)
        if found is None or found[1] != linear(-1.0, 1.0):
            return None
        return self.rewriter.own(found[0].inputs[0], kind, algorithm)


class RecognizeAttention(Rewrite):
    """Replaces two products, a softmax and its mask by one node."""

    def rewritten(self, node: Node) -> Node | None:
        """The attention that ends with the product `node`."""
        rank = len(self.graph.shape(node.output))
        if node.kind is not Kind.MATMUL or len(node.inputs) != 2 or rank < 3:
            return None
        weights = self.rewriter.own(node.inputs[0], Kind.SOFTMAX)
        shares = None if weights is None else weights.parameters
        if weights is None or shares not in (Softmax(rank - 1), Softmax(rank - 1, guarded=True)):
            return None
        hidden, operands, mask, fill = self.unmasked(weights.inputs[0])
        scores, scale = self.rewriter.own_multiple(hidden)
        product = self.rewriter.own(scores, Kind.MATMUL)
        if product is None or len(product.inputs) != 2:
            return None
        (queries, left), (keys, right) = map(self.rescaled, product.inputs)
        stacks = (queries, self.unrepeated(keys), self.unrepeated(node.inputs[1]))
        if not self.is_stack(stacks) or not self.is_wide_enough(stacks):
            return None
        parameters = Attention(
            scale * left * right, mask, fill, guarded=shares == Softmax(rank - 1, guarded=True)
        )
        return Node(Kind.ATTENTION, (*stacks, *operands), node.output, parameters)

    # --- scores and masks

    def unmasked(self, tensor: TensorId) -> tuple[TensorId, tuple[TensorId, ...], Mask, float]:
        """Scores without their mask; the mask, its kind, and the value of masked scores."""
        added = self.rewriter.own(tensor, Kind.BINARY, "binary_add")
        if added is not None:
            for scores, mask in (added.inputs, added.inputs[::-1]):
                if self.is_scores(scores, tensor):
                    return scores, (mask,), Mask.ADDED, 0.0
        chosen = self.rewriter.own(tensor, Kind.SELECT)
        if chosen is not None and self.is_scores(chosen.inputs[1], tensor):
            fill = self.rewriter.scalar(chosen.inputs[2])
            if fill is not None and math.isfinite(fill):
                return chosen.inputs[1], (chosen.inputs[0],), Mask.SELECTED, fill
        return tensor, (), Mask.NONE, 0.0

    def is_scores(self, tensor: TensorId, masked: TensorId) -> bool:
        """Whether a tensor is a product, scaled or not, with the shape of the masked one."""
        is_whole = same_shape(self.graph.shape(tensor), self.graph.shape(masked))
        return is_whole and self.rewriter.own(self.rewriter.own_multiple(tensor)[0], Kind.MATMUL) is not None

    # --- queries, keys and values

    def rescaled(self, tensor: TensorId) -> tuple[TensorId, float]:
        """A tensor without a factor before its last permutation, and the factor."""
        data, factor = self.rewriter.own_multiple(tensor)
        node = self.rewriter.own(data, Kind.PERMUTE)
        if factor != 1.0 or node is None:
            return data, factor
        inner, factor = self.rewriter.own_multiple(node.inputs[0])
        if factor == 1.0:
            return tensor, 1.0
        return self.permuted(inner, node), factor

    def unrepeated(self, tensor: TensorId) -> TensorId:
        """Keys or values before they were repeated for groups of query heads."""
        node = self.rewriter.own(tensor, Kind.PERMUTE)
        if node is not None and isinstance(node.parameters, Permutation):
            inner = self.unrepeated(node.inputs[0])
            keeps_heads = len(node.parameters.axes) == 4 and node.parameters.axes[:2] == (0, 1)
            return self.permuted(inner, node) if keeps_heads and inner != node.inputs[0] else tensor
        view = self.rewriter.own(tensor, Kind.RESHAPE)
        wide = None if view is None else self.rewriter.own(view.inputs[0], Kind.EXPAND)
        if wide is None or len(self.graph.shape(tensor)) != 4 or len(self.graph.shape(wide.output)) != 5:
            return tensor
        batch, heads, group, rows, depth = self.graph.shape(wide.output)
        is_repetition = same_shape(
            self.graph.shape(wide.inputs[0]), (batch, heads, 1, rows, depth)
        ) and same_shape(self.graph.shape(tensor), (batch, heads * group, rows, depth))
        return reshape(self.graph, wide.inputs[0], (batch, heads, rows, depth)) if is_repetition else tensor

    def permuted(self, tensor: TensorId, like: Node) -> TensorId:
        assert isinstance(like.parameters, Permutation)
        return permute(self.graph, tensor, like.parameters.axes)

    def is_stack(self, inputs: tuple[TensorId, ...]) -> bool:
        """Whether queries, keys and values have the same rank, and their heads divide each other."""
        queries, *others = (self.graph.shape(tensor)[:-2] for tensor in inputs)
        return all(len(other) == len(queries) and all(map(_divides, other, queries)) for other in others)

    def is_wide_enough(self, inputs: tuple[TensorId, ...]) -> bool:
        """Single columns, and single rows without heads, are left to the kernels of products for them."""
        queries, *others = (self.graph.shape(tensor) for tensor in inputs)
        is_row_of_heads = len(queries) == HEADS and queries[-2] == 1
        return (is_row_of_heads or queries[-2] != 1) and all(
            extent != 1 for extent in (queries[-1], *(each for shape in others for each in shape[-2:]))
        )


def _divides(part: Dim, whole: Dim) -> bool:
    if isinstance(part, int) and isinstance(whole, int):
        return whole % part == 0
    return same_dim(part, whole)
