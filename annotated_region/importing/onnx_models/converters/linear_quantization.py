"""`QuantizeLinear` and `DequantizeLinear`: TVM's conversion after a check of the scale, and blocks.

A constant matrix whose numbers fit 4 bits, with a scale for each column or each block of a column, becomes
the ops that `block_weights.py` describes, so that targets keep it packed. The node says which axis the blocks
divide: the columns are those of the matrix or of its transpose.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.block_weights import unpacked
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_BYTES = ("int8", "uint8")
_BITS = 4
_UNIT = 8
"""Of these numbers a block is a multiple: 32 bits, which runtimes read at once."""


@converts("", "QuantizeLinear", (2, 3), "axis block_size output_dtype precision saturate")
def _quantized(node: OnnxNode) -> relax.Expr:
    _require_finite_scale(node)
    return node.by_tvm()


@converts("", "DequantizeLinear", (2, 3), "axis block_size output_dtype")
def _dequantized(node: OnnxNode) -> relax.Expr:
    _require_finite_scale(node)
    size = node.integer("block_size", 0, 0)
    packed = _packed(node, size)
    if packed is not None:
        return packed
    return _by_blocks(node, size) if size else node.by_tvm()


def _require_finite_scale(node: OnnxNode) -> None:
    """Calibration over a masked tensor makes scales of infinity, with which every number is NaN.

    ONNX leaves the conversion of NaN to integers undefined, so that each runtime computes something else.
    """
    scale = node.constant(node.tensor(1))
    is_finite = scale is None or bool(np.isfinite(scale.astype("float64")).all())
    advice = "exclude the tensor from quantization, or calibrate it anew"
    node.require(is_finite, f"has a scale that is not finite; {advice}")


def _axis(node: OnnxNode, rank: int) -> int:
    axis = node.integer("axis", 1)
    node.require(-rank <= axis < rank, f"has the attribute 'axis' of {axis} for a tensor of rank {rank}")
    return axis % rank


def _result_type(node: OnnxNode) -> str:
    """The type of the scale; another one is left to a cast behind the node."""
    scale = node.tensor(1, ("float32", "float16"))
    node.require(not node.integer("output_dtype", 0), "has the attribute 'output_dtype' beside blocks")
    return dtype_of(scale)


def _by_blocks(node: OnnxNode, size: int) -> relax.Expr:
    """``(x - zero) * scale`` in float32, each scale repeated for the numbers of its block."""
    data, dtype = node.tensor(0, (*_BYTES, "int32")), _result_type(node)
    shape = node.fixed_shape(0, data)
    axis = _axis(node, len(shape))
    blocks = (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :])
    numbers = node.typed(relax.op.astype(data, "float32"))
    for place, operation in ((2, relax.op.subtract), (1, relax.op.multiply)):
        if not node.has(place):
            continue
        given = node.tensor(place)
        node.require_shape(place, given, blocks)
        whole = node.typed(relax.op.repeat(relax.op.astype(given, "float32"), size, axis))
        if shape[axis] % size:
            whole = node.typed(relax.op.strided_slice(whole, [axis], [0], [shape[axis]]))
        numbers = node.typed(operation(numbers, whole))
    return numbers if dtype == "float32" else node.typed(relax.op.astype(numbers, dtype))


def _packed(node: OnnxNode, size: int) -> relax.Expr | None:
    """A constant matrix of 4 bits as packed words; None if it is something else."""
    given = [node.constant(node.tensor(place)) if node.has(place) else None for place in range(3)]
    words, scales, zeros = given
    if words is None or scales is None or (node.has(2) and zeros is None) or words.ndim != 2:
        return None
    axis = _axis(node, 2)
    if scales.ndim != (2 if size else 1) or not _fits(words):
        return None
    if zeros is not None and (zeros.shape != scales.shape or not _fits(zeros)):
        return None
    # The contracted axis is the one that blocks divide, or the one without scales; it becomes the last one.
    is_turned = (axis == 0) if size else (axis == 1)
    rows = words.T if is_turned else words
    columns, depth = rows.shape
    group = size or depth
    groups = (scales.T if is_turned else scales) if size else scales[:, None]
    if group % _UNIT or depth % group or groups.shape != (columns, depth // group):
        return None
    middle = 2 ** (_BITS - 1) if words.dtype == np.int8 else 0
    numbers = (rows.astype("int16") + middle).astype("uint8").reshape(-1, group)
    zero = relax.const(middle, "uint8")
    if zeros is not None:
        laid = (zeros.T if is_turned else zeros) if size else zeros
        zero = relax.const((laid.reshape(-1).astype("int16") + middle).astype("uint8"))
    pairs = relax.const(np.ascontiguousarray(numbers[:, ::2] | numbers[:, 1::2] << _BITS))
    dtype = _result_type(node)
    factors = relax.const(np.ascontiguousarray(groups).reshape(-1))
    floats = relax.op.dequantize(unpacked(node, pairs, _BITS), factors, zero, axis=0, out_dtype=dtype)
    whole = relax.op.reshape(floats, [columns, depth])
    return relax.op.permute_dims(whole, [1, 0]) if is_turned else whole


def _fits(numbers: np.ndarray) -> bool:
    """Whether bytes are numbers of 4 bits."""
    if str(numbers.dtype) not in _BYTES or not numbers.size:
        return False
    least = -(2 ** (_BITS - 1)) if numbers.dtype == np.int8 else 0
    return int(numbers.min()) >= least and int(numbers.max()) < least + 2**_BITS
