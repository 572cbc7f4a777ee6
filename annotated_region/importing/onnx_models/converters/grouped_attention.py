"""`GroupQueryAttention` of language models for ONNX Runtime, decomposed.

A sequence of a batch has ``seqlens_k + 1`` tokens, of which the last are the new ones. Its cache holds the
preceding tokens in its first rows; further rows are undefined. So the keys that queries see, and the second
and third result, are the past with the new rows inserted after its last token:

    row j of a sequence with p past tokens     past[j] if j < p, else new[j - p]

A query at position p + s sees the rows up to its own, or the last `local_window_size` of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.attention_parts import (
    HIDDEN,
    capped,
    merged_heads,
    past_rows,
    products,
    repeated_heads,
    split_heads,
)
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts
from annotated_region.importing.onnx_models.converters.rotary_positions import turn_at
from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__: list[str] = []

_PAST_KEY, _PAST_VALUE, _LENGTHS, _COSINE, _POSITIONS, _BIAS, _SINK = 3, 4, 5, 7, 9, 10, 11
_UNKNOWN = ("k_scale", "v_scale", "q_norm_weight", "k_norm_weight", "query_seqlens")
_MOST_HEADS = 2**16

Extent = int | relax.Expr


@dataclass(frozen=True, slots=True)
class _Places:
    """The positions of the tokens of a batch.

    Attributes
    ----------
    past, new
        The number of rows of the cache and of the new keys.
    before
        The number of past tokens, int64 [batch, 1].
    queries
        The position of each query, int64 [batch, new].
    """

    past: Extent
    new: Extent
    before: relax.Expr
    queries: relax.Expr

    def all_rows(self) -> Extent:
        """The number of rows, including the new ones."""
        return self.past + self.new


@converts(
    CONTRIBUTED,
    "GroupQueryAttention",
    (7, 17),
    "causal do_rotary k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads qk_output "
    "rotary_interleaved scale sliding_window_cache smooth_softmax softcap v_quant_type",
)
def _grouped_attention(node: OnnxNode) -> relax.Expr:
    """The resulting keys and values have the rows of the cache plus the new rows.

    This is ``total_sequence_length`` if the cache has no spare rows. Otherwise ONNX Runtime returns
    the rows of the cache; the rows after the tokens are undefined in both.
    """
    _decline_unknown(node)
    query, key, value = _operands(node)
    places = _places(node, key)
    if node.integer("do_rotary", 0, 0, 1):
        interleaved = bool(node.integer("rotary_interleaved", 0, 0, 1))
        turn = turn_at(node, _positions(node, places), _COSINE, interleaved, dtype_of(query))
        query, key = turn(node, query), turn(node, key)
    key, value = _with_past(node, key, value, places)
    scores = _scores(node, query, repeated_heads(node, key, query), places)
    result = merged_heads(node, relax.op.matmul(_weights(node, scores), repeated_heads(node, value, query)))
    return relax.Tuple([node.emit(result), key, value]) if node.makes(1) or node.makes(2) else result


def _decline_unknown(node: OnnxNode) -> None:
    for place, name in enumerate(_UNKNOWN, 12):
        node.no_input(place, name)
    node.require(not node.makes(3), "uses its output 3, the scores, which is not supported")
    for name in ("qk_output", "sliding_window_cache", "kv_cache_bit_width"):
        node.integer(name, 0, 0, 0)
    node.integer("causal", 1, 1, 1)
    for name in ("k_quant_type", "v_quant_type"):
        text = node.text(name, "NONE")
        node.require(text == "NONE", f"has the attribute {name!r} of {text!r}, which is not supported")


def _operands(node: OnnxNode) -> list[relax.Expr]:
    """Queries, keys and values [batch, heads, length, size]; without keys, they are packed in the queries."""
    query = node.tensor(0, FLOATS, (3,))
    counts = [node.integer(name, None, 1, _MOST_HEADS) for name in ("num_heads", "kv_num_heads")]
    heads = (counts[0], counts[1], counts[1])
    if node.has(1) or node.has(2):
        given = [query, *(node.tensor(at, (dtype_of(query),), (3,)) for at in (1, 2))]
        return [
            split_heads(node, each, count, f"an input {place}")
            for place, (each, count) in enumerate(zip(given, heads, strict=True))
        ]
    whole = split_heads(node, query, sum(heads), "an input 0")
    bounds = (0, heads[0], heads[0] + heads[1], sum(heads))
    return [node.emit(relax.op.strided_slice(whole, [1], [begin], [end])) for begin, end in pairwise(bounds)]


def _places(node: OnnxNode, key: relax.Expr) -> _Places:
    batch, _, new, _ = node.shape(key)
    lengths = node.tensor(_LENGTHS, ("int32",), (1, 2))
    column = relax.op.reshape(relax.op.astype(lengths, "int64"), relax.ShapeExpr([batch, 1]))
    past: Extent = 0
    if node.has(_PAST_KEY) or node.has(_PAST_VALUE):
        past = node.shape(node.tensor(_PAST_KEY, (dtype_of(key),), (4,)))[2]
    # At the first call, sequences shorter than the longest are padded at the end.
    difference = relax.op.subtract(column, _number(new - 1))
    before = node.emit(relax.op.maximum(difference, relax.const(0, "int64")))
    line = relax.op.expand_dims(relax.op.arange(0, new, 1, "int64"), [0])
    return _Places(past, new, before, node.emit(relax.op.add(before, line)))


def _positions(node: OnnxNode, places: _Places) -> relax.Expr:
    """The rotary positions of queries and new keys: their positions in the sequence, or given ones."""
    given = node.optional(_POSITIONS, ("int64",), (2,))
    if given is None:
        return places.queries
    # For several tokens, ONNX Runtime only reads the position of the first token of the first sequence.
    node.require(places.new == 1, f"has the input 'position_ids' for {places.new} words; supported is one")
    return given


def _number(extent: Extent) -> relax.Expr:
    """A number of rows as a tensor."""
    if isinstance(extent, int):
        return relax.const(np.array([extent]), "int64")
    return relax.op.arange(extent, extent + 1, 1, "int64")


def _with_past(
    node: OnnxNode, key: relax.Expr, value: relax.Expr, places: _Places
) -> tuple[relax.Expr, relax.Expr]:
    """Keys and values with the past ones, in token order."""
    if places.past == 0:
        return key, value
    rows = _rows(node, key, places)
    past = [past_rows(node, at, new) for at, new in ((_PAST_KEY, key), (_PAST_VALUE, value))]
    found = [_moved(node, each, rows) for each in zip(past, (key, value), strict=True)]
    return found[0], found[1]


def _rows(node: OnnxNode, key: relax.Expr, places: _Places) -> relax.Expr:
    """For each position, its row in the concatenation of past and new rows, [batch, heads, positions, 1]."""
    batch, heads, _, _ = node.shape(key)
    count = places.all_rows()
    line = relax.op.expand_dims(relax.op.arange(0, count, 1, "int64"), [0, 1, 3])
    # Broadcast here, for all heads: TVM 0.27 cannot build a broadcast of an axis before one such as `count`.
    before = relax.op.broadcast_to(
        relax.op.expand_dims(places.before, [2, 3]), relax.ShapeExpr([batch, heads, 1, 1])
    )
    # Rows after the tokens are undefined; they read the last row, which exists.
    shift = relax.op.subtract(_number(places.past), before)
    moved = relax.op.minimum(relax.op.add(line, shift), _number(count - 1))
    return node.emit(relax.op.where(relax.op.less(line, before), line, moved))


def _moved(node: OnnxNode, parts: tuple[relax.Expr, relax.Expr], rows: relax.Expr) -> relax.Expr:
    whole = node.emit(relax.op.concat(list(parts), axis=2))
    return node.emit(relax.op.gather_nd(whole, rows, batch_dims=2))


def _scores(node: OnnxNode, query: relax.Expr, key: relax.Expr, places: _Places) -> relax.Expr:
    """The scores [batch, heads, queries, keys]; minus infinity for masked keys."""
    dtype = dtype_of(query)
    scores = capped(node, products(node, query, key, no_scale=0.0), dtype)
    if node.has(_BIAS):
        bias = node.tensor(_BIAS, (dtype,), (4,))
        found, keys = node.shape(bias)[-1], node.shape(key)[2]
        node.require(provably_equal(found, keys), f"has an input {_BIAS} for {found} keys; there are {keys}")
        scores = relax.op.add(scores, bias)
    return node.emit(relax.op.where(_seen(node, places), scores, relax.const(HIDDEN, dtype)))


def _seen(node: OnnxNode, places: _Places) -> relax.Expr:
    window = node.integer("local_window_size", -1, -1, 2**31)
    node.require(window != 0, "has the attribute 'local_window_size' of 0, which is not supported")
    own = relax.op.expand_dims(places.queries, [1, 3])
    rows = relax.op.arange(0, places.all_rows(), 1, "int64")
    seen = relax.op.less_equal(rows, own)
    if window > 0:
        first = relax.op.subtract(own, relax.const(window, "int64"))
        seen = relax.op.logical_and(seen, relax.op.greater(rows, first))
    return seen


def _weights(node: OnnxNode, scores: relax.Expr) -> relax.Expr:
    """The softmax; an attention sink is an additional score without a value."""
    if not node.has(_SINK) and not node.integer("smooth_softmax", 0, 0, 1):
        return relax.op.nn.softmax(scores, axis=-1)
    batch, heads, queries, keys = node.shape(scores)
    dtype = dtype_of(scores)
    sink: relax.Expr = relax.const(0.0, dtype)
    if node.has(_SINK):
        assert isinstance(heads, int)
        sink = relax.op.reshape(node.vector(_SINK, (dtype,), heads), [1, heads, 1, 1])
    column = relax.op.broadcast_to(sink, relax.ShapeExpr([batch, heads, queries, 1]))
    weights = relax.op.nn.softmax(relax.op.concat([scores, column], axis=3), axis=-1)
    return relax.op.strided_slice(weights, [3], [0], [keys])
