"""`MatMulNBits`: products with weights of 2, 4 or 8 bits, quantized in blocks.

The weight of a column is divided into blocks along the contracted axis; each has a scale, and may have a zero
point. Several numbers are packed into a byte, the first one in the lowest bits. The constants stay packed,
and every node becomes the same ops, in the same order, which patterns of targets match::

    packed          constant uint8 [columns * blocks, block size * bits / 8]
    scales          constant float32 or float16 [columns * blocks]
    zeros           constant uint8 [columns * blocks], one number each; of rank 0 where the node has none
    part k          bitwise_and(right_shift(packed, k * bits), 2 ** bits - 1); k = 0 has no shift
    words           reshape(stack([part 0, part 1, ...], axis=-1), [columns * blocks, block size])
    floats          dequantize(words, scales, zeros, axis=0)
    whole           reshape(floats, [columns, blocks * block size])
    weight          strided_slice(whole, [1], [0], [rows]) if the last block is not full
    y               matmul(x, permute_dims(weight, [1, 0]))
    y + bias        if there is a bias

With 8 bits, ``words`` is ``packed`` itself. For float zero points, `dequantize` is replaced by
``multiply(subtract(astype(words), zeros), scales)``, both of shape [columns * blocks, 1]. Model inputs in
place of constants go through the same ops after a `reshape`, and their zero points are
unpacked like the weight. Preparation does not fold `dequantize` of a constant, so the weights do
not become floats.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts

__all__ = ["unpacked"]

_BITS = (2, 4, 8)
_HALVES = ("float32", "float16")
_LARGEST = 2**31


@converts(CONTRIBUTED, "MatMulNBits", (3, 6), "K N bits block_size accuracy_level weight_prepacked")
def _product(node: OnnxNode) -> relax.Expr:
    """The attribute ``accuracy_level`` only permits a lower precision, so it is ignored."""
    bits = node.integer("bits", 4)
    node.require(bits in _BITS, f"has the attribute 'bits' of {bits}; known are 2, 4 and 8")
    node.integer("weight_prepacked", 0, 0, 0)
    node.integer("accuracy_level", 0, 0, 4)
    node.no_input(4, "g_idx")
    rows, columns = (node.integer(name, None, 1, _LARGEST) for name in "KN")
    size = node.integer("block_size", None, 16, 2**16)
    node.require(
        size & (size - 1) == 0, f"has the attribute 'block_size' of {size}, which is not a power of two"
    )
    data = node.tensor(0, _HALVES)
    shape = (*node.shape(data)[:-1], rows)
    node.require(
        rank_of(data) >= 1 and node.may_have_extents(data, shape),
        f"has an input 0 whose last extent is not its attribute 'K', {rows}",
    )
    data = node.with_extents(data, shape)
    weight = _weight(node, bits, rows, columns, size, dtype_of(data))
    result = relax.op.matmul(data, relax.op.permute_dims(weight, [1, 0]))
    if node.has(5):
        return relax.op.add(result, node.vector(5, (dtype_of(data),), columns))
    return result


def _weight(node: OnnxNode, bits: int, rows: int, columns: int, size: int, dtype: str) -> relax.Expr:
    """The floats [columns, rows], as ops on the packed constants."""
    blocks = -(-rows // size)
    packed = _shaped(node, 1, ("uint8",), (columns * blocks, size * bits // 8))
    words = unpacked(node, packed, bits)
    floats = _dequantized(node, words, bits, (columns, blocks), dtype)
    whole = relax.op.reshape(floats, [columns, blocks * size])
    return whole if rows == blocks * size else relax.op.strided_slice(whole, [1], [0], [rows])


def _dequantized(
    node: OnnxNode, words: relax.Expr, bits: int, shape: tuple[int, int], dtype: str
) -> relax.Expr:
    """Zero points are floats, or packed like the weights, with an integral number of bytes per column."""
    columns, blocks = shape
    if node.has(3) and dtype_of(node.tensor(3, ("uint8", dtype))) == dtype:
        column = (columns * blocks, 1)
        shifted = relax.op.subtract(relax.op.astype(words, dtype), _shaped(node, 3, (dtype,), column))
        return relax.op.multiply(shifted, _shaped(node, 2, (dtype,), column))
    scales = _shaped(node, 2, (dtype,), (columns * blocks,))
    zeros = _zeros(node, bits, columns, blocks) if node.has(3) else relax.const(2 ** (bits - 1), "uint8")
    return relax.op.dequantize(words, scales, zeros, axis=0, out_dtype=dtype)


def _zeros(node: OnnxNode, bits: int, columns: int, blocks: int) -> relax.Expr:
    """The unpacked zero points; constants are unpacked here, at import."""
    packed = _shaped(node, 3, ("uint8",), (columns, -(-blocks * bits // 8)))
    numbers = node.constant(packed)
    if numbers is not None:
        parts = [numbers >> shift & 2**bits - 1 for shift in range(0, 8, bits)]
        apart = np.stack(parts, -1).reshape(columns, -1)[:, :blocks]
        return relax.const(np.ascontiguousarray(apart).reshape(-1))
    found = unpacked(node, packed, bits)
    if node.shape(node.typed(found))[1] != blocks:
        found = relax.op.strided_slice(found, [1], [0], [blocks])
    return relax.op.reshape(found, [columns * blocks])


def _shaped(node: OnnxNode, position: int, dtypes: tuple[str, ...], shape: tuple[int, ...]) -> relax.Expr:
    """An input with the number of elements of a shape, in any shape, reshaped to that shape."""
    expr = node.tensor(position, dtypes)
    _require_count(node, position, math.prod(shape))
    numbers = node.constant(expr)
    if numbers is not None:
        return relax.const(numbers.reshape(shape))
    return node.typed(relax.op.reshape(expr, shape))


def unpacked(node: OnnxNode, packed: relax.Expr, bits: int) -> relax.Expr:
    """The numbers packed in the bytes of each row."""
    if bits == 8:
        return packed
    rows, width = node.fixed_shape(1, packed)
    mask = relax.const(2**bits - 1, "uint8")
    parts = [
        relax.op.bitwise_and(
            relax.op.right_shift(packed, relax.const(shift, "uint8")) if shift else packed, mask
        )
        for shift in range(0, 8, bits)
    ]
    return relax.op.reshape(relax.op.stack(parts, -1), [rows, width * 8 // bits])


def _require_count(node: OnnxNode, position: int, count: int) -> None:
    """Decline the node unless the input has this number of elements, in any shape."""
    shape = node.fixed_shape(position, node.tensor(position))
    node.require(
        int(np.prod(shape, dtype=object)) == count,
        f"has an input {position} of shape {shape}; its attributes ask for {count} numbers",
    )
