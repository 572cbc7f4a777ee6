"""`MatMulNBits`: products with weights of 2, 4 or 8 bits, quantized in blocks.

The weight of a column is cut into blocks along the summed axis; each has a scale, and may have a zero point.
Several numbers share a byte, the first one in the lowest bits. What the model holds stays as it is:

    words = stack([(packed >> 4 * k) & 15 for k in 0, 1], -1)        uint8 [columns * blocks, block size]
    weight = reshape(dequantize(words, scales, zeros, axis=0))       [columns, blocks * block size]
    y = x @ weight[:, :rows].T

`dequantize` of a constant is what preparation leaves to targets, so the weights do not become floats there.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_converters.registry import CONTRIBUTED, converts

__all__: list[str] = []

_BITS = (2, 4, 8)
_HALVES = ("float32", "float16")
_LARGEST = 2**31


@converts(CONTRIBUTED, "MatMulNBits", (3, 6), "K N bits block_size accuracy_level weight_prepacked")
def _product(node: OnnxNode) -> relax.Expr:
    """The attribute ``accuracy_level`` permits less than the precision of the data, and asks for nothing."""
    bits = node.integer("bits", 4)
    node.require(bits in _BITS, f"has the attribute 'bits' of {bits}; known are 2, 4 and 8")
    node.integer("weight_prepacked", 0, 0, 0)
    node.integer("accuracy_level", 0, 0, 4)
    node.no_input(4, "g_idx")
    rows, columns = (node.integer(name, None, 1, _LARGEST) for name in "KN")
    size = node.integer("block_size", None, 16, 2**16)
    node.require(
        size & (size - 1) == 0, f"has the attribute 'block_size' of {size}, which is no power of two"
    )
    data = node.tensor(0, _HALVES)
    node.require(
        rank_of(data) >= 1 and node.shape(data)[-1] == rows,
        f"has an input 0 whose last extent is not its attribute 'K', {rows}",
    )
    weight = _weight(node, bits, rows, columns, size, dtype_of(data))
    result = relax.op.matmul(data, relax.op.permute_dims(weight, [1, 0]))
    if node.has(5):
        return relax.op.add(result, node.vector(5, (dtype_of(data),), columns))
    return result


def _weight(node: OnnxNode, bits: int, rows: int, columns: int, size: int, dtype: str) -> relax.Expr:
    """The floats [columns, rows], as ops over what the model holds."""
    blocks = -(-rows // size)
    packed = node.tensor(1, ("uint8",))
    _require_count(node, 1, columns * blocks * size * bits // 8)
    words = _unpacked(node, relax.op.reshape(packed, [columns * blocks, size * bits // 8]), bits)
    scales = node.tensor(2, (dtype,))
    _require_count(node, 2, columns * blocks)
    floats = _dequantized(node, words, relax.op.reshape(scales, [columns * blocks]), bits, (columns, blocks))
    whole = relax.op.reshape(floats, [columns, blocks * size])
    return whole if rows == blocks * size else relax.op.strided_slice(whole, [1], [0], [rows])


def _dequantized(
    node: OnnxNode, words: relax.Expr, scales: relax.Expr, bits: int, shape: tuple[int, int]
) -> relax.Expr:
    """Zero points are packed like the weights, a whole number of bytes a column; or they are floats."""
    columns, blocks = shape
    dtype = dtype_of(node.tensor(2))
    if not node.has(3):
        middle = relax.const(2 ** (bits - 1), "uint8")
        return relax.op.dequantize(words, scales, middle, axis=0, out_dtype=dtype)
    zeros = node.tensor(3, ("uint8", dtype))
    if dtype_of(zeros) == "uint8":
        width = -(-blocks * bits // 8)
        _require_count(node, 3, columns * width)
        found = _unpacked(node, relax.op.reshape(zeros, [columns, width]), bits)
        if width * 8 // bits != blocks:
            found = relax.op.strided_slice(found, [1], [0], [blocks])
        flat = relax.op.reshape(found, [columns * blocks])
        return relax.op.dequantize(words, scales, flat, axis=0, out_dtype=dtype)
    _require_count(node, 3, columns * blocks)
    column = [columns * blocks, 1]
    shifted = relax.op.subtract(relax.op.astype(words, dtype), relax.op.reshape(zeros, column))
    return relax.op.multiply(shifted, relax.op.reshape(scales, column))


def _unpacked(node: OnnxNode, packed: relax.Expr, bits: int) -> relax.Expr:
    """The numbers in the bytes of each row."""
    packed = node.typed(packed)
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
    """Decline the node unless the input holds this many numbers, in whatever shape."""
    shape = node.fixed_shape(position, node.tensor(position))
    node.require(
        int(np.prod(shape, dtype=object)) == count,
        f"has an input {position} of shape {shape}; its attributes ask for {count} numbers",
    )
