"""`Attention` as ONNX defines it since opset 23, in its parts, which targets know.

It is ``softmax(cap(query @ key.T * scale) + mask) @ value``. A query that a mask hides from all keys has
zeros, where softmax by itself is 0 / 0.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_converters.registry import converts

__all__: list[str] = []

_MASK, _PAST_KEY, _PAST_VALUE = 3, 4, 5


@converts(
    "",
    "Attention",
    (3, 6),
    "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision",
)
def _attention(node: OnnxNode) -> relax.Expr:
    """Operands are [batch, heads, length, size], or [batch, length, heads * size] with the number of heads.

    Keys and values may have fewer heads, each of which serves as many heads of the queries in a row, and may
    continue given ones; these are the second and third result.
    """
    node.require(not node.makes(3), "makes its output 3, the scores, which is not supported")
    node.require("softmax_precision" not in node.attributes, "has the attribute 'softmax_precision'")
    query, key, value = (_heads(node, at) for at in range(3))
    dtype = dtype_of(query)
    if node.has(_PAST_KEY) or node.has(_PAST_VALUE):
        past = [node.tensor(at, (dtype,), (4,)) for at in (_PAST_KEY, _PAST_VALUE)]
        key, value = (
            node.emit(relax.op.concat([before, each], axis=2))
            for before, each in zip(past, (key, value), strict=True)
        )
    scores = _scores(node, query, _repeated(node, key, query))
    result = relax.op.matmul(_weights(node, node.emit(scores)), _repeated(node, value, query))
    if rank_of(node.tensor(0)) == 3:
        batch, heads, length, size = node.shape(node.typed(result))
        assert isinstance(heads, int)
        flat = relax.ShapeExpr([batch, length, size * heads])
        result = relax.op.reshape(relax.op.permute_dims(result, [0, 2, 1, 3]), flat)
    return relax.Tuple([node.emit(result), key, value]) if node.makes(1) or node.makes(2) else result


def _heads(node: OnnxNode, position: int) -> relax.Expr:
    """An operand as [batch, heads, length, size]."""
    expr = node.tensor(position, FLOATS, (3, 4))
    node.require(rank_of(expr) == rank_of(node.tensor(0)), f"has an input {position} of another rank than 0")
    if rank_of(expr) == 4:
        return expr
    heads = node.integer("kv_num_heads" if position else "q_num_heads", None, 1, 2**16)
    batch, length, width = node.shape(expr)
    if not isinstance(width, int) or width % heads:
        raise node.declined(f"has an input {position} whose rows are not those of {heads} heads")
    parts = relax.op.reshape(expr, relax.ShapeExpr([batch, length, heads, width // heads]))
    return node.emit(relax.op.permute_dims(parts, [0, 2, 1, 3]))


def _repeated(node: OnnxNode, expr: relax.Expr, query: relax.Expr) -> relax.Expr:
    """Keys or values with as many heads as the queries."""
    heads, wanted = node.shape(expr)[1], node.shape(query)[1]
    if not isinstance(heads, int) or not isinstance(wanted, int) or wanted % max(heads, 1):
        raise node.declined(f"has {wanted} heads of queries for {heads} of keys and values")
    return expr if heads == wanted else node.emit(relax.op.repeat(expr, wanted // heads, axis=1))


def _scores(node: OnnxNode, query: relax.Expr, key: relax.Expr) -> relax.Expr:
    """The masked scores [batch, heads, queries, keys]."""
    dtype, size = dtype_of(query), node.shape(query)[3]
    node.require(isinstance(size, int) and size > 0, f"has heads of unknown size, {size}")
    assert isinstance(size, int)
    scale = relax.const(node.number("scale", 1 / math.sqrt(size)), dtype)
    product = relax.op.matmul(query, relax.op.permute_dims(key, [0, 1, 3, 2]))
    scores: relax.Expr = relax.op.multiply(product, scale)
    cap = node.number("softcap", 0.0)
    node.require(cap >= 0, f"has the attribute 'softcap' of {cap}, which is not supported")
    if cap:
        limit = relax.const(cap, dtype)
        scores = relax.op.multiply(limit, relax.op.tanh(relax.op.divide(scores, limit)))
    if node.has(_MASK):
        scores = _masked(node, scores, key, dtype)
    if node.integer("is_causal", 0, 0, 1):
        scores = _causal(node, scores, query, key)
    return scores


def _weights(node: OnnxNode, scores: relax.Expr) -> relax.Expr:
    """The softmax of scores; zeros in a row that is minus infinity everywhere, which only a mask makes."""
    weights = relax.op.nn.softmax(scores, axis=-1)
    if not node.has(_MASK):
        return weights
    # As PyTorch asks for any; the maximum of the scores is no answer, because TVM's is finite for such a row.
    seen = relax.op.astype(relax.op.not_equal(scores, relax.const(-np.inf, dtype_of(scores))), "int8")
    sees_any = relax.op.astype(relax.op.max(seen, axis=-1, keepdims=True), "bool")
    return relax.op.where(sees_any, weights, relax.const(0.0, dtype_of(scores)))


def _masked(node: OnnxNode, scores: relax.Expr, key: relax.Expr, dtype: str) -> relax.Expr:
    """A mask of truth values keeps scores, one of numbers is added."""
    mask = node.tensor(_MASK, (dtype, "bool"), (2, 3, 4))
    # Opset 24 fills a mask that is too short.
    node.require(
        str(node.shape(mask)[-1]) in (str(node.shape(key)[2]), "1"),
        "has a mask whose last extent is not the number of keys",
    )
    if dtype_of(mask) == "bool":
        return relax.op.where(mask, scores, relax.const(-np.inf, dtype))
    return relax.op.add(scores, mask)


def _causal(node: OnnxNode, scores: relax.Expr, query: relax.Expr, key: relax.Expr) -> relax.Expr:
    """A query sees the keys up to its own place, and all that came before the first query."""
    queries, keys = node.shape(query)[2], node.shape(key)[2]
    before = node.shape(node.tensor(_PAST_KEY))[2] if node.has(_PAST_KEY) else 0
    seen = relax.op.tril(relax.op.ones(relax.ShapeExpr([queries, keys]), "int8"), before)
    hidden = relax.const(-np.inf, dtype_of(query))
    return relax.op.where(relax.op.astype(seen, "bool"), scores, hidden)
