"""Shared parts of the attention operators: heads, masked keys, and softmax over the others."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, shape_text
from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__ = [
    "HIDDEN",
    "capped",
    "causal",
    "merged_heads",
    "past_rows",
    "products",
    "repeated_heads",
    "split_heads",
]

HIDDEN = -np.inf
"""The score of a masked key."""


def split_heads(node: OnnxNode, expr: relax.Expr, heads: int, what: str) -> relax.Expr:
    """``[batch, length, heads * size]`` as ``[batch, heads, length, size]``."""
    expr = node.typed(expr)
    batch, length, width = node.shape(expr)
    if not isinstance(width, int) or width % heads:
        raise node.declined(f"has {what} whose rows are not those of {heads} heads")
    parts = relax.op.reshape(expr, relax.ShapeExpr([batch, length, heads, width // heads]))
    return node.emit(relax.op.permute_dims(parts, [0, 2, 1, 3]))


def merged_heads(node: OnnxNode, expr: relax.Expr) -> relax.Expr:
    """``[batch, heads, length, size]`` as ``[batch, length, heads * size]``."""
    batch, heads, length, size = node.shape(node.typed(expr))
    assert isinstance(heads, int)
    flat = relax.ShapeExpr([batch, length, size * heads])
    return relax.op.reshape(relax.op.permute_dims(expr, [0, 2, 1, 3]), flat)


def repeated_heads(node: OnnxNode, expr: relax.Expr, query: relax.Expr) -> relax.Expr:
    """Keys or values repeated to the number of query heads; each is shared by consecutive query heads."""
    heads, wanted = node.shape(expr)[1], node.shape(query)[1]
    if not isinstance(heads, int) or not isinstance(wanted, int) or wanted % max(heads, 1):
        raise node.declined(f"has {wanted} heads of queries for {heads} of keys and values")
    return expr if heads == wanted else node.emit(relax.op.repeat(expr, wanted // heads, axis=1))


def past_rows(node: OnnxNode, position: int, new: relax.Expr) -> relax.Expr:
    """The past keys or values ``[batch, heads, length, size]`` at an input, typed like the new ones.

    Exporters leave the head size of a cache symbolic. The operator fixes it, and a cast checks it at run
    time; without it, the rows of both would have no known shape.
    """
    past = node.tensor(position, (dtype_of(new),), (4,))
    found, (batch, heads, _, size) = node.shape(past), node.shape(new)
    wanted = (batch, heads, found[2], size)
    if all(provably_equal(one, other) for one, other in zip(found, wanted, strict=True)):
        return past
    known = (pair for pair in zip(found, wanted, strict=True) if all(isinstance(each, int) for each in pair))
    node.require(
        all(one == other for one, other in known),
        f"has an input {position} of shape {shape_text(found)}; it should be {shape_text(wanted)}",
    )
    return node.builder.match_cast(past, relax.TensorType(wanted, dtype_of(new)))


def products(node: OnnxNode, query: relax.Expr, key: relax.Expr, no_scale: float | None = None) -> relax.Expr:
    """The scaled scores ``[batch, heads, queries, keys]``.

    Parameters
    ----------
    node
        The scale is its attribute ``scale``, by default the inverse root of the head size.
    query, key
        ``[batch, heads, length, size]``, with equal numbers of heads.
    no_scale
        A value of the attribute that means the default.
    """
    dtype, size = dtype_of(query), node.shape(query)[3]
    node.require(isinstance(size, int) and size > 0, f"has heads of unknown size, {size}")
    assert isinstance(size, int)
    given = node.number("scale", 1 / math.sqrt(size))
    scale = relax.const(1 / math.sqrt(size) if given == no_scale else given, dtype)
    return relax.op.multiply(relax.op.matmul(query, relax.op.permute_dims(key, [0, 1, 3, 2])), scale)


def capped(node: OnnxNode, scores: relax.Expr, dtype: str) -> relax.Expr:
    """Scores smoothly limited to plus or minus the attribute ``softcap``; 0 means no limit."""
    cap = node.number("softcap", 0.0)
    node.require(cap >= 0, f"has the attribute 'softcap' of {cap}, which is not supported")
    if not cap:
        return scores
    limit = relax.const(cap, dtype)
    return relax.op.multiply(limit, relax.op.tanh(relax.op.divide(scores, limit)))


def causal(
    node: OnnxNode, scores: relax.Expr, query: relax.Expr, key: relax.Expr, before: int | relax.Expr
) -> relax.Expr:
    """Scores with a causal mask: a query sees the keys up to its own position, offset by `before`."""
    queries, keys = node.shape(query)[2], node.shape(key)[2]
    seen = relax.op.tril(relax.op.ones(relax.ShapeExpr([queries, keys]), "int8"), before)
    return relax.op.where(relax.op.astype(seen, "bool"), scores, relax.const(HIDDEN, dtype_of(query)))
