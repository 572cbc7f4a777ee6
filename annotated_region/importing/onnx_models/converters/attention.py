"""`Attention` as ONNX defines it since opset 23, decomposed into ops that targets support.

It is ``softmax(cap(query @ key.T * scale) + mask) @ value``. A query whose keys are all masked yields
zeros, where softmax alone would be 0 / 0.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.attention_parts import (
    capped,
    causal,
    merged_heads,
    products,
    repeated_heads,
    split_heads,
)
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_FLOATS = (*FLOATS, "bfloat16")
_MASK, _PAST_KEY, _PAST_VALUE = 3, 4, 5


@converts(
    "",
    "Attention",
    (3, 6),
    "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap",
    outputs=3,
)
def _attention(node: OnnxNode) -> relax.Expr:
    """Operands are [batch, heads, length, size], or [batch, length, heads * size] with the number of heads.

    Keys and values may have fewer heads, each shared by a group of consecutive query heads, and may be
    appended to past ones; the concatenations are the second and third result.
    """
    query, key, value = (_heads(node, at) for at in range(3))
    dtype = dtype_of(query)
    if node.has(_PAST_KEY) or node.has(_PAST_VALUE):
        past = [node.tensor(at, (dtype,), (4,)) for at in (_PAST_KEY, _PAST_VALUE)]
        key, value = (
            node.emit(relax.op.concat([before, each], axis=2))
            for before, each in zip(past, (key, value), strict=True)
        )
    scores = _scores(node, query, repeated_heads(node, key, query))
    weights = _weights(node, node.emit(scores))
    result: relax.Expr = relax.op.matmul(weights, repeated_heads(node, value, query))
    if rank_of(node.tensor(0)) == 3:
        result = merged_heads(node, result)
    return relax.Tuple([node.emit(result), key, value]) if node.makes(1) or node.makes(2) else result


def _heads(node: OnnxNode, position: int) -> relax.Expr:
    """An operand as [batch, heads, length, size]."""
    expr = node.tensor(position, _FLOATS, (3, 4))
    node.require(rank_of(expr) == rank_of(node.tensor(0)), f"has an input {position} of another rank than 0")
    if rank_of(expr) == 4:
        return expr
    heads = node.integer("kv_num_heads" if position else "q_num_heads", None, 1, 2**16)
    return split_heads(node, expr, heads, f"an input {position}")


def _scores(node: OnnxNode, query: relax.Expr, key: relax.Expr) -> relax.Expr:
    """The masked scores [batch, heads, queries, keys]."""
    dtype = dtype_of(query)
    scores = capped(node, products(node, query, key), dtype)
    if node.has(_MASK):
        scores = _masked(node, scores, key, dtype)
    if node.integer("is_causal", 0, 0, 1):
        before = node.shape(node.tensor(_PAST_KEY))[2] if node.has(_PAST_KEY) else 0
        scores = causal(node, scores, query, key, before)
    return scores


def _weights(node: OnnxNode, scores: relax.Expr) -> relax.Expr:
    """The softmax of scores; zeros in rows of minus infinity, which only a mask can cause."""
    weights = relax.op.nn.softmax(scores, axis=-1)
    if not node.has(_MASK):
        return weights
    # As PyTorch asks for any; the maximum of the scores is no answer, because TVM's is finite for such a row.
    seen = relax.op.astype(relax.op.not_equal(scores, relax.const(-np.inf, dtype_of(scores))), "int8")
    sees_any = relax.op.astype(relax.op.max(seen, axis=-1, keepdims=True), "bool")
    return relax.op.where(sees_any, weights, relax.const(0.0, dtype_of(scores)))


def _masked(node: OnnxNode, scores: relax.Expr, key: relax.Expr, dtype: str) -> relax.Expr:
    """Apply the mask: a boolean mask selects scores, a numeric one is added."""
    mask = node.tensor(_MASK, (dtype, "bool"), (2, 3, 4))
    # Opset 24 pads a mask that is too short.
    node.require(
        str(node.shape(mask)[-1]) in (str(node.shape(key)[2]), "1"),
        "has a mask whose last extent is not the number of keys",
    )
    if dtype_of(mask) == "bool":
        return relax.op.where(mask, scores, relax.const(-np.inf, dtype))
    return relax.op.add(scores, mask)
