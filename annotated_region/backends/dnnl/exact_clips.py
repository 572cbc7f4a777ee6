"""Clips that treat NaN as TVM does: the upper bound comes first where NaN is possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from annotated_region.backends.dnnl.graph import DataType, Graph, Kind, Node, PostOp, TensorId

__all__ = ["is_finite_product", "with_exact_clips"]

Maker: TypeAlias = Callable[[TensorId], Node | None]
"""Finds the node that computes a tensor."""


def with_exact_clips(graph: Graph) -> Iterator[Node]:
    """The nodes with clips that treat NaN as TVM does, where NaN is possible."""
    makers = {node.output: node for node in graph.nodes}
    for node in graph.nodes:
        yield node if is_finite_product(graph, makers.get, node) else _with_upper_bounds_first(node)


def is_finite_product(graph: Graph, maker: Maker, node: Node) -> bool:
    """Whether a node scales a sum of products of bytes, and adds none but dequantized integers."""
    if node.quantized is None or not _is_constant_or_none(graph, node.quantized.weights_scales):
        return False
    is_biased = len(node.inputs) > 2
    added = [post.operand for post in node.post_ops if post.operand is not None]
    are_bytes = all(graph.dtype(tensor) in (DataType.INT8, DataType.UINT8) for tensor in added)
    return are_bytes and (not is_biased or _is_dequantized(graph, maker, node.inputs[2]))


def _is_dequantized(graph: Graph, maker: Maker, tensor: TensorId) -> bool:
    """Whether a tensor is a view of dequantized integers, whose constant scales are known to be finite."""
    node = maker(tensor)
    while node is not None and (node.kind is Kind.RESHAPE or node.linear is not None):
        node = maker(node.inputs[0])
    if node is None or node.kind is not Kind.DEQUANTIZE:
        return False
    return all(_is_constant_or_none(graph, scale) for scale in node.inputs[1:2])


def _is_constant_or_none(graph: Graph, tensor: TensorId | None) -> bool:
    return tensor is None or graph.tensors[tensor].is_constant


def _with_upper_bounds_first(node: Node) -> Node:
    """The node with each clip as ``max(min(x, high), low)``, which maps NaN to the upper bound, as in TVM.

    OneDNN's clip takes the bounds in the other order, and maps NaN to the lower one. Its minimum and its
    maximum return the second operand, here the bound, if one is NaN. A minimum with a number costs half of a
    clip; clipping the negated number, with oneDNN's clip alone, takes a depthwise convolution a third longer.
    """
    return replace(node, post_ops=tuple(part for post in node.post_ops for part in _bounds(post)))


def _bounds(post: PostOp) -> Iterator[PostOp]:
    if post.algorithm != "eltwise_clip":
        yield post
        return
    low, high = post.alpha, post.beta
    yield PostOp("binary_min", high)
    if low == 0.0 and math.copysign(1.0, low) > 0.0:
        yield PostOp("eltwise_relu")
    elif low > -math.inf:
        yield PostOp("eltwise_clip", low, math.inf)
