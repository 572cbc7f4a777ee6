"""`Attention` and `MultiHeadAttention` of ONNX Runtime's transformer optimizer, decomposed.

Both are ``softmax(query @ key.T * scale + mask + bias) @ value``. A padding mask subtracts 10 000 from the
scores of padding keys, so if all keys are padding, they are weighted as without a mask; a causal mask
excludes keys.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from tvm import relax

from annotated_region.importing.onnx_models.converters.attention_parts import (
    causal,
    merged_heads,
    past_rows,
    products,
    split_heads,
)
from annotated_region.importing.onnx_models.converters.node import (
    FLOATS,
    OnnxNode,
    dtype_of,
    is_one,
    rank_of,
    shape_text,
)
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts
from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__: list[str] = []

_MOST_HEADS = 2**16


@converts(
    CONTRIBUTED,
    "Attention",
    (2, 7),
    "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes scale unidirectional",
)
def _attention(node: OnnxNode) -> relax.Expr:
    """Words [batch, length, width], projected to queries, keys and values by one weight.

    Past keys and values are one tensor [2, batch, heads, length, size]; they and the new ones are the second
    result.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        node.integer(name, 0, 0, 0)
    node.no_input(6, "past_sequence_length")
    heads = node.integer("num_heads", None, 1, _MOST_HEADS)
    words = node.tensor(0, FLOATS, (3,))
    dtype = dtype_of(words)
    weight = node.tensor(1, (dtype,), (2,))
    total = node.fixed_shape(1, weight)[1]
    sizes = node.integers("qkv_hidden_sizes") or (total // 3,) * 3
    node.require(
        len(sizes) == 3 and sum(sizes) == total and min(sizes) > 0 and sizes[0] == sizes[1],
        f"projects to {total} numbers, which are not queries, keys and values of sizes {sizes}",
    )
    joined: relax.Expr = relax.op.matmul(words, weight)
    if node.has(2):
        joined = relax.op.add(joined, node.vector(2, (dtype,), total))
    bounds = [0, *accumulate(sizes)]
    joined = node.emit(joined)
    query, key, value = (
        split_heads(node, _columns(joined, begin, end), heads, "a projection")
        for begin, end in pairwise(bounds)
    )
    before: int | relax.Expr = 0
    if node.has(4):
        past = node.tensor(4, (dtype,), (5,))
        before = node.shape(past)[3]
        key, value = (
            node.emit(relax.op.concat([_part(node, past, place), each], axis=2))
            for place, each in enumerate((key, value))
        )
    result = merged_heads(node, _attended(node, (query, key, value), before, mask_at=3, bias_at=5))
    if not node.makes(1):
        return result
    return relax.Tuple([node.emit(result), node.emit(relax.op.stack([key, value], axis=0))])


def _columns(expr: relax.Expr, begin: int, end: int) -> relax.Expr:
    return relax.op.strided_slice(expr, [2], [begin], [end])


def _part(node: OnnxNode, past: relax.Expr, place: int) -> relax.Expr:
    """The past keys or values, [batch, heads, length, size]."""
    node.require(node.shape(past)[0] == 2, "has a past that is not of keys and values")
    return relax.op.squeeze(relax.op.strided_slice(past, [0], [place], [place + 1]), [0])


@converts(CONTRIBUTED, "MultiHeadAttention", (1, 10), "mask_filter_value num_heads scale unidirectional")
def _multi_head_attention(node: OnnxNode) -> relax.Expr:
    """Queries are [batch, length, width]; keys and values the same, or [batch, heads, length, size].

    Without keys, queries are packed with keys and values, [batch, length, heads, 3, size]; without values,
    keys are packed with values, [batch, length, heads, 2, size]. Past and present are [batch, heads, length,
    size].
    """
    node.no_input(8, "past_sequence_length")
    node.no_input(9, "cache_indirection")
    node.require(not node.makes(3), "uses its output 3, the scores, which is not supported")
    query, key, value = _operands(node, node.integer("num_heads", None, 1, _MOST_HEADS))
    before: int | relax.Expr = 0
    if node.has(6) or node.has(7):
        past = [past_rows(node, at, new) for at, new in ((6, key), (7, value))]
        before = node.shape(past[0])[2]
        key, value = (
            node.emit(relax.op.concat([old, new], axis=2))
            for old, new in zip(past, (key, value), strict=True)
        )
    result = merged_heads(node, _attended(node, (query, key, value), before, mask_at=4, bias_at=5))
    return relax.Tuple([node.emit(result), key, value]) if node.makes(1) or node.makes(2) else result


def _operands(node: OnnxNode, heads: int) -> list[relax.Expr]:
    """Queries, keys and values, [batch, heads, length, size]."""
    query = node.tensor(0, FLOATS, (3, 5))
    dtypes = (dtype_of(query),)
    if rank_of(query) == 5:
        node.require(not any(node.has(at) for at in (1, 2, 3)), "has packed and unpacked inputs")
        return _unpacked(node, query, (heads, 3))
    key = node.tensor(1, dtypes, (3, 4, 5))
    biases = _biases(node, query)
    queries = split_heads(node, _biased(query, biases, 0), heads, "an input 0")
    if rank_of(key) == 5:
        node.require(not node.has(2) and not biases, "has packed and unpacked inputs")
        return [queries, *_unpacked(node, key, (heads, 2))]
    value = node.tensor(2, dtypes, (rank_of(key),))
    if rank_of(key) == 4:
        # Already projected, with their bias.
        node.require(node.shape(key)[1] == node.shape(value)[1] == heads, f"has not {heads} heads of keys")
        return [queries, key, value]
    sides = (_biased(each, biases, place) for place, each in enumerate((key, value), 1))
    return [queries, *(split_heads(node, each, heads, "keys or values") for each in sides)]


def _unpacked(node: OnnxNode, packed: relax.Expr, middle: tuple[int, int]) -> list[relax.Expr]:
    """The parts of ``[batch, length, heads, parts, size]``."""
    found = node.shape(packed)[2:4]
    node.require(found == middle, f"has packed heads of shape {found}; they should be of {middle}")
    parts = [
        relax.op.squeeze(relax.op.strided_slice(packed, [3], [place], [place + 1]), [3])
        for place in range(middle[1])
    ]
    return [node.emit(relax.op.permute_dims(part, [0, 2, 1, 3])) for part in parts]


def _biases(node: OnnxNode, query: relax.Expr) -> list[relax.Expr]:
    """The biases of queries, keys and values; empty if there are none."""
    if not node.has(3):
        return []
    bias = node.tensor(3, (dtype_of(query),), (1,))
    width, total = node.shape(query)[2], node.fixed_shape(3, bias)[0]
    if not isinstance(width, int) or total <= 2 * width:
        raise node.declined(f"has an input 3 of {total} numbers for queries of {width}")
    bounds = (0, width, 2 * width, total)
    return [node.emit(relax.op.strided_slice(bias, [0], [begin], [end])) for begin, end in pairwise(bounds)]


def _biased(expr: relax.Expr, biases: list[relax.Expr], place: int) -> relax.Expr:
    return relax.op.add(expr, biases[place]) if biases else expr


def _attended(
    node: OnnxNode,
    operands: tuple[relax.Expr, relax.Expr, relax.Expr],
    before: int | relax.Expr,
    mask_at: int,
    bias_at: int,
) -> relax.Expr:
    """The weighted means of the values, [batch, heads, queries, size]."""
    query, key, value = operands
    dtype = dtype_of(query)
    scores = products(node, query, key, no_scale=0.0)
    if node.has(mask_at):
        scores = relax.op.add(scores, _padding(node, mask_at, key, dtype))
    if node.has(bias_at):
        scores = relax.op.add(scores, _bias_of_scores(node, bias_at, query, key))
    if node.integer("unidirectional", 0, 0, 1):
        keys, queries = node.shape(key)[2], node.shape(query)[2]
        # If keys and queries differ in length, ONNX Runtime lets the last query see all keys.
        node.require(
            provably_equal(keys, before + queries),
            f"is causal over {keys} keys, with {queries} queries and {before} keys before these",
        )
        scores = causal(node, scores, query, key, before)
    return relax.op.matmul(relax.op.nn.softmax(node.emit(scores), axis=-1), value)


def _bias_of_scores(node: OnnxNode, position: int, query: relax.Expr, key: relax.Expr) -> relax.Expr:
    """The addend to all scores, which may be one for all of the batch, or for all heads."""
    bias = node.tensor(position, (dtype_of(query),), (4,))
    own, (batch, heads, queries, _), keys = node.shape(bias), node.shape(query), node.shape(key)[2]
    wanted = [
        number if is_one(number) else extent
        for number, extent in zip(own, (batch, heads, queries, keys), strict=True)
    ]
    node.require(
        node.may_have_extents(bias, wanted),
        f"has an input {position} of shape {shape_text(own)}; it should be {shape_text(wanted)}",
    )
    return node.with_extents(bias, wanted)


def _require_keys(node: OnnxNode, position: int, expr: relax.Expr, key: relax.Expr) -> None:
    keys = node.shape(key)[2]
    node.require(
        provably_equal(node.shape(expr)[-1], keys),
        f"has an input {position} for {node.shape(expr)[-1]} keys; there are {keys}",
    )


def _padding(node: OnnxNode, position: int, key: relax.Expr, dtype: str) -> relax.Expr:
    """The addend to the scores of keys: 0, or the attribute ``mask_filter_value`` for padding."""
    mask = node.tensor(position, ("int32",), (1, 2, 3))
    seen = _seen(node, position, mask, key)
    nothing, hidden = (relax.const(each, dtype) for each in (0.0, node.number("mask_filter_value", -1e4)))
    return node.emit(relax.op.where(seen, nothing, hidden))


def _seen(node: OnnxNode, position: int, mask: relax.Expr, key: relax.Expr) -> relax.Expr:
    """A boolean mask that broadcasts to [batch, heads, queries, keys]."""
    if rank_of(mask) > 1:
        # One element per key, or per query and key.
        _require_keys(node, position, mask, key)
        axes = [1] if rank_of(mask) == 3 else [1, 2]
        return relax.op.expand_dims(relax.op.not_equal(mask, relax.const(0, "int32")), axes)
    batch, _, keys, _ = node.shape(key)
    places = relax.op.arange(0, keys, 1, "int32")
    shape = node.shape(mask)[0]
    if provably_equal(shape, batch):
        return relax.op.less(places, _column(mask))
    node.require(
        isinstance(batch, int) and shape == 2 * batch and position == 3,
        f"has an input {position} of {shape} lengths for a batch of {batch}",
    )
    ends, begins = (
        _column(relax.op.strided_slice(mask, [0], [at * batch], [(at + 1) * batch])) for at in range(2)
    )
    return relax.op.logical_and(relax.op.less(places, ends), relax.op.greater_equal(places, begins))


def _column(lengths: relax.Expr) -> relax.Expr:
    return relax.op.expand_dims(lengths, [1, 2, 3])
