"""Fused operators of ONNX Runtime's optimizer and of builders of language models."""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, is_one, rank_of
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts
from annotated_region.importing.onnx_models.converters.slicing import require_order

__all__: list[str] = []


@converts(CONTRIBUTED, "Gelu", (1, 1))
def _gelu(node: OnnxNode) -> relax.Expr:
    return relax.op.nn.gelu(node.tensor(0, FLOATS))


@converts("", "BiasGelu", (2, 2))
@converts(CONTRIBUTED, "BiasGelu", (2, 2))
def _bias_gelu(node: OnnxNode) -> relax.Expr:
    return relax.op.nn.gelu(relax.op.add(node.tensor(0, FLOATS), _bias(node, 1)))


@converts("", "FastGelu", (1, 2))
@converts(CONTRIBUTED, "FastGelu", (1, 2))
def _fast_gelu(node: OnnxNode) -> relax.Expr:
    data = node.tensor(0, FLOATS)
    return relax.op.nn.gelu_tanh(relax.op.add(data, _bias(node, 1)) if node.has(1) else data)


@converts(CONTRIBUTED, "QuickGelu", (1, 1), "alpha")
def _quick_gelu(node: OnnxNode) -> relax.Expr:
    data = node.tensor(0, FLOATS)
    slope = relax.const(node.number("alpha", 1.702), dtype_of(data))
    return relax.op.multiply(data, relax.op.sigmoid(relax.op.multiply(data, slope)))


@converts(CONTRIBUTED, "BiasAdd", (3, 3))
def _bias_add(node: OnnxNode) -> relax.Expr:
    return relax.op.add(relax.op.add(node.tensor(0, FLOATS), _bias(node, 1)), node.tensor(2, FLOATS))


def _bias(node: OnnxNode, position: int) -> relax.Expr:
    """A vector with one element per column of the data."""
    data = node.tensor(0, FLOATS)
    bias = node.tensor(position, (dtype_of(data),), (1,))
    columns = node.shape(data)[-1:]
    node.require(
        len(columns) == 1 and node.may_have_extents(bias, columns),
        f"has an input {position} that is not as long as a row of its data",
    )
    return node.with_extents(bias, columns)


@converts("", "SimplifiedLayerNormalization", (2, 2), "axis epsilon stash_type")
def _simplified_norm(node: OnnxNode) -> relax.Expr:
    """Root mean square normalization, under its name from before ONNX standardized it."""
    _no_outputs(node, 1, 2)
    node.integer("stash_type", 1, 1, 1)
    data = node.tensor(0, FLOATS)
    node.require(
        node.integer("axis", -1) in (-1, rank_of(data) - 1),
        "has an attribute 'axis' that is not the last one",
    )
    return relax.op.nn.rms_norm(data, _bias(node, 1), axes=[-1], epsilon=node.number("epsilon", 1e-5))


@converts("", "SkipLayerNormalization", (3, 5), "epsilon")
@converts(CONTRIBUTED, "SkipLayerNormalization", (3, 5), "epsilon")
def _skip_norm(node: OnnxNode) -> relax.Expr:
    """The sum of the data, the skip connection and a bias, normalized; output 3 is the sum."""
    total, scale = _skip_sum(node, bias_at=4), _bias(node, 2)
    dtype = dtype_of(total)
    shift = _bias(node, 3) if node.has(3) else relax.op.zeros(relax.ShapeExpr(node.shape(scale)), dtype)
    return _with_sum(
        node, relax.op.nn.layer_norm(total, scale, shift, axes=[-1], epsilon=_epsilon(node)), total
    )


@converts(CONTRIBUTED, "SkipSimplifiedLayerNormalization", (3, 4), "epsilon")
def _skip_simplified_norm(node: OnnxNode) -> relax.Expr:
    total = _skip_sum(node, bias_at=3)
    return _with_sum(
        node, relax.op.nn.rms_norm(total, _bias(node, 2), axes=[-1], epsilon=_epsilon(node)), total
    )


def _skip_sum(node: OnnxNode, bias_at: int) -> relax.Expr:
    _no_outputs(node, 1, 2)
    data, skip = node.tensor(0, FLOATS, (2, 3)), node.tensor(1, FLOATS, (2, 3))
    pairs = zip(node.shape(skip), node.shape(data)[-rank_of(skip) :], strict=False)
    wanted = [number if is_one(number) else extent for number, extent in pairs]
    if len(wanted) == rank_of(skip) and node.may_have_extents(skip, wanted):
        skip = node.with_extents(skip, wanted)
    total = relax.op.add(data, skip)
    return node.emit(relax.op.add(total, _bias(node, bias_at)) if node.has(bias_at) else total)


def _epsilon(node: OnnxNode) -> float:
    return node.number("epsilon", 1e-12)


def _with_sum(node: OnnxNode, normalized: relax.Expr, total: relax.Expr) -> relax.Expr:
    """The results by position; the sum is a placeholder for unused statistics."""
    return relax.Tuple([node.emit(normalized), total, total, total]) if node.makes(3) else normalized


def _no_outputs(node: OnnxNode, *positions: int) -> None:
    for position in positions:
        node.require(not node.makes(position), f"uses its output {position}, which is not supported")


@converts("", "EmbedLayerNormalization", (7, 9), "epsilon mask_index_type")
@converts(CONTRIBUTED, "EmbedLayerNormalization", (7, 9), "epsilon mask_index_type")
def _embedding(node: OnnxNode) -> relax.Expr:
    """Word, position and segment embeddings, added and normalized; further outputs: lengths, the sum."""
    numbers = ("int32", "int64")
    words = node.tensor(0, numbers, (2,))
    batch, length = node.shape(words)
    tables = [node.tensor(at, FLOATS, (2,)) for at in (2, 3)]
    if node.has(8):
        positions = relax.op.take(tables[1], node.tensor(8, numbers, (2,)), axis=0)
    else:
        require_order(node, length, node.shape(tables[1])[0])
        positions = relax.op.strided_slice(tables[1], [0], [0], [length], assume_inbound=True)
    total = node.emit(relax.op.add(relax.op.take(tables[0], words, axis=0), positions))
    if node.has(1):
        segments = relax.op.take(node.tensor(4, FLOATS, (2,)), node.tensor(1, numbers, (2,)), axis=0)
        total = node.emit(relax.op.add(total, segments))
    scale, shift = (node.tensor(at, FLOATS, (1,)) for at in (5, 6))
    result = node.emit(relax.op.nn.layer_norm(total, scale, shift, axes=[-1], epsilon=_epsilon(node)))
    if not node.makes(1) and not node.makes(2):
        return result
    return relax.Tuple([result, node.emit(_lengths(node, batch)), total])


def _lengths(node: OnnxNode, batch: int | relax.Expr) -> relax.Expr:
    """The number of words that each mask selects; 0 without a mask."""
    if node.has(7):
        node.integer("mask_index_type", 0, 0, 0)
        return relax.op.sum(node.tensor(7, ("int32",), (2,)), axis=[1])
    return relax.op.zeros(relax.ShapeExpr([batch]), "int32")


@converts(CONTRIBUTED, "FusedMatMul", (2, 2), "alpha transA transB transBatchA transBatchB")
def _scaled_product(node: OnnxNode) -> relax.Expr:
    """A matrix product of optionally transposed operands, times a number."""
    sides: list[relax.Expr] = []
    for position, name in enumerate("AB"):
        side = node.tensor(position, FLOATS)
        node.integer(f"transBatch{name}", 0, 0, 0)
        transposed = node.integer(f"trans{name}", 0, 0, 1) == 1 and rank_of(side) > 1
        rank = rank_of(side)
        sides.append(
            relax.op.permute_dims(side, [*range(rank - 2), rank - 1, rank - 2]) if transposed else side
        )
    alpha = node.number("alpha", 1.0)
    product = relax.op.matmul(*sides)
    return product if alpha == 1 else relax.op.multiply(product, relax.const(alpha, dtype_of(node.tensor(0))))
