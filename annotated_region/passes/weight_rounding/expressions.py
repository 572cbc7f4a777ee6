"""The ops that reconstruct the float weight of a product from packed integers.

::

    words  = reshape(stack([packed & 15, packed >> 4 & 15], -1), (groups, size))     uint8, 4 bits
    floats = reshape(dequantize(words, scales, zeros, axis=0), (columns, rows))
    weight = permute_dims(floats, (1, 0))

The importer uses the same ops for ONNX's `MatMulNBits`, so targets need only one pattern. Preparation does
not fold the unpacking of bytes, nor `dequantize` of more than one number.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.tensors import constant_of
from annotated_region.passes.weight_rounding.rounding import RoundedWeight, packed

__all__ = ["weight_of"]


def weight_of(rounded: RoundedWeight, bits: int, columns: int, editor: Editor) -> relax.Expr:
    """The weight [rows, columns] of a product; its intermediate values are bound before the product."""
    words = _stored(rounded.words, bits, editor)
    zeros = rounded.zeros.reshape(()) if rounded.zeros.size == 1 else rounded.zeros
    scales, dtype = constant_of(rounded.scales), rounded.scales.dtype.name
    dequantized = relax.op.dequantize(words, scales, constant_of(zeros), axis=0, out_dtype=dtype)
    floats = editor.emit(dequantized, "floats")
    whole = editor.emit(relax.op.reshape(floats, [columns, rounded.words.size // columns]), "columns")
    return editor.emit(relax.op.permute_dims(whole, [1, 0]), "weight")


def _stored(words: np.ndarray, bits: int, editor: Editor) -> relax.Expr:
    """The integers as an expression; 4-bit integers are unpacked from bytes that hold two each."""
    if bits == 8 or words.shape[1] % 2:
        return constant_of(words)
    pairs, mask = constant_of(packed(words)), relax.const(15, "uint8")
    low = editor.emit(relax.op.bitwise_and(pairs, mask), "low")
    shifted = editor.emit(relax.op.right_shift(pairs, relax.const(4, "uint8")), "shifted")
    high = editor.emit(relax.op.bitwise_and(shifted, mask), "high")
    stacked = editor.emit(relax.op.stack([low, high], -1), "pairs")
    return editor.emit(relax.op.reshape(stacked, list(words.shape)), "words")
