"""Shorter chains behind int8 products: factors become scales, and what a rounding clips is not clipped twice.

A convolution whose result is rounded to int8, added to a residual e and stored as int8 has nine post-ops::

    relu, linear(1/a), round, clip, linear(a), linear(1/r), + e, linear(r), relu

oneDNN applies a scale in front of the chain, with the bias, and one behind it, at no cost. What remains is::

    round, clip, linear(a/r), + e

A scaled sum near a tie may be rounded the other way than in the longer chain, as with all scales of products.
"""

from __future__ import annotations

import math
from dataclasses import replace

from annotated_region.backends.dnnl.exact_clips import is_finite_product
from annotated_region.backends.dnnl.graph import DataType, Kind, Node, PostOp, Quantized, TensorId
from annotated_region.backends.dnnl.parameters import linear
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite

__all__ = ["ShortenChains"]

Chain = tuple[PostOp, ...]

RELU = PostOp("eltwise_relu")
ROUND = PostOp("eltwise_round")
SMALLEST, LARGEST = 2.0**-100, 2.0**100
"""A product of factors within is far from overflow and from subnormal numbers."""


class ShortenChains(Rewrite):
    """Removes the post-ops of int8 products that their scales, roundings and results make redundant."""

    def rewritten(self, node: Node) -> Node | None:
        """The product with fewer post-ops."""
        if node.quantized is None or not node.post_ops:
            return None
        quantized, dtype = node.quantized, self.graph.dtype(node.output)
        before, chain = _leading_factor(_composed(node.post_ops), quantized.scale)
        if dtype is not DataType.FLOAT32:
            chain, quantized = _into_result(chain, quantized)
        if self.is_without_sign(node):
            chain = chain[:-1] if chain[-1:] == (RELU,) else chain
        chain = _without_clipped_relus(chain)
        if len(chain) == len(node.post_ops):
            return None
        quantized = replace(quantized, scale=quantized.scale * before)
        return replace(node, inputs=self.scaled_bias(node, before), post_ops=chain, quantized=quantized)

    def measure(self) -> tuple[int, ...]:
        """The number of post-ops of int8 products."""
        return (sum(len(node.post_ops) for node in self.rewriter.nodes() if node.quantized is not None),)

    def scaled_bias(self, node: Node, factor: float) -> tuple[TensorId, ...]:
        """The operands of a product whose bias, if it has one, is multiplied by a factor."""
        if factor == 1.0 or len(node.inputs) == 2:
            return node.inputs
        data, weights, bias = node.inputs
        shape = self.graph.shape(bias)
        return (data, weights, self.graph.add(Kind.ELTWISE, (bias,), shape, linear(factor)))

    def is_without_sign(self, node: Node) -> bool:
        """Whether what is stored cannot be less than the zero point, even if the sum is."""
        assert node.quantized is not None
        is_unsigned = self.graph.dtype(node.output) is DataType.UINT8 and node.quantized.result_zero == 0
        return is_unsigned and is_finite_product(self.graph, self.rewriter.producer, node)


def _composed(chain: Chain) -> Chain:
    """The chain with one linear function in the place of several in a row."""
    made: list[PostOp] = []
    for post in chain:
        last = made[-1] if made else None
        if last is not None and last.algorithm == post.algorithm == "eltwise_linear":
            shift = post.alpha * last.beta + post.beta
            if _is_moderate(post.alpha * last.alpha) and math.isfinite(shift):
                made[-1] = PostOp("eltwise_linear", post.alpha * last.alpha, shift)
                continue
        made.append(post)
    return tuple(made)


def _leading_factor(chain: Chain, scale: float) -> tuple[float, Chain]:
    """The positive factor at the start of a chain, also behind a relu, and the chain without it."""
    index = 1 if chain[:1] == (RELU,) else 0
    if index < len(chain) and _is_factor(chain[index], scale):
        return chain[index].alpha, chain[:index] + chain[index + 1 :]
    return 1.0, chain


def _into_result(chain: Chain, quantized: Quantized) -> tuple[Chain, Quantized]:
    """The chain without a positive factor at its end or before a last relu, and the scale of the result."""
    index = len(chain) - (2 if chain[-1:] == (RELU,) else 1)
    if index < 0 or not _is_factor(chain[index], 1.0 / quantized.result_scale):
        return chain, quantized
    scaled = replace(quantized, result_scale=quantized.result_scale / chain[index].alpha)
    return chain[:index] + chain[index + 1 :], scaled


def _is_factor(post: PostOp, scale: float) -> bool:
    """Whether a post-op is a positive factor that a scale can take over."""
    is_product = post.algorithm == "eltwise_linear" and post.beta == 0.0
    return is_product and post.alpha > 0 and _is_moderate(post.alpha) and _is_moderate(post.alpha * scale)


def _is_moderate(factor: float) -> bool:
    return SMALLEST <= abs(factor) <= LARGEST


def _is_clipped(rest: Chain) -> bool:
    """Whether what follows clips negative numbers to zero, perhaps after it has rounded them."""
    clip = rest[1:] if rest[:1] == (ROUND,) else rest
    return bool(clip) and clip[0].algorithm == "eltwise_clip" and clip[0].alpha == 0.0


def _without_clipped_relus(chain: Chain) -> Chain:
    """The chain without relus that a clip follows."""
    rests = (chain[index + 1 :] for index in range(len(chain)))
    return tuple(
        post for post, rest in zip(chain, rests, strict=True) if post != RELU or not _is_clipped(rest)
    )
