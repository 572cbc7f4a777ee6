"""One strategy an op of whole numbers, quantized numbers, or numbers in an order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

from kits.backends.onnx_emitter.onnx_case_kit import Draw, Graph, axis_of, broadcast, case, extents, some
from kits.backends.onnx_emitter.onnx_shape_cases import CASES

__all__ = ["CASES"]

WHOLE = ("int8", "uint8", "int32", "int64")


# --- bits


@case("bitwise_and", "bitwise_or", "bitwise_xor", dtypes=(*WHOLE, "bool"))
def bits(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    operands = [some(draw, shape, dtype, -9, 9), some(draw, broadcast(draw, shape), dtype, -9, 9)]
    return Graph(tuple(operands), function)


@case("bitwise_not", dtypes=(*WHOLE, "bool"))
def inverted(draw: Draw, dtype: str) -> Graph:
    return Graph((some(draw, extents(draw), dtype, -9, 9),), op.bitwise_not)


@case("left_shift", "right_shift", dtypes=(*WHOLE, "int16", "uint16", "uint32"))
def shift(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    data, counts = some(draw, shape, dtype, -20, 20), some(draw, broadcast(draw, shape), dtype, 0, 2)
    if dtype.startswith("uint") and draw(st.booleans()):
        return Graph((data, counts), function)
    return Graph((data,), lambda x: function(x, relax.const(counts, dtype)))


# --- quantized numbers


def parameters(draw: Draw, channels: int, dtype: str, number: str) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point: one number, a vector of one, or one number a channel."""
    scales = draw(st.sampled_from([(), (1,), (channels,)]))
    zeros = draw(st.sampled_from([(), (channels,)])) if scales == (channels,) else scales
    low, high = (-8, 8) if dtype.startswith("int") else (0, 9)
    zero = some(draw, zeros, "int64", low / 3, high / 3).astype(dtype)
    scale = np.asarray(2.0 ** draw(st.integers(-4, 1)) * (1 + some(draw, scales, "float64", 0, 1)), number)
    return scale, zero


@case("quantize", dtypes=("float32", "float16"))
def quantize(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    axis, to = axis_of(draw, shape), draw(st.sampled_from(["int8", "uint8"]))
    scale, zero = parameters(draw, shape[axis], to, dtype)
    data = some(draw, shape, dtype, -9, 9)
    if not scale.shape:  # ties, and what is beyond every byte
        scale = np.asarray(0.5, dtype)
        data = (some(draw, shape, "int64", -4, 4) * 0.25).astype(dtype)
        data.flat[0] = draw(st.sampled_from([900.0, -900.0, np.inf, -np.inf]))
    return Graph((data, scale, zero), lambda x, s, z: op.quantize(x, s, z, axis, to))


@case("dequantize", dtypes=("int8", "uint8", "int32"))
def dequantize(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    axis, to = axis_of(draw, shape), draw(st.sampled_from(["float32", "float16"]))
    scale, zero = parameters(draw, shape[axis], dtype, to)
    data = some(draw, shape, "int64", -42, 42).astype(dtype)
    return Graph((data, scale, zero), lambda x, s, z: op.dequantize(x, s, z, axis, to))


# --- in an order


@case("sort", "argsort", dtypes=("float32", "int32", "int64"))
def in_order(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    axis, descending = axis_of(draw, shape), draw(st.booleans())
    return Graph((some(draw, shape, dtype),), lambda x: function(x, axis, descending))


@case("median", dtypes=("float32", "int64"))
def median(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw, 1, 3)
    axis = draw(st.sampled_from([None, axis_of(draw, shape)]))
    keepdims = axis is not None and draw(st.booleans())
    count = int(np.prod(shape))
    data = np.asarray(draw(st.permutations(range(count))), dtype).reshape(shape)

    def make(x: relax.Expr) -> Any:
        made = op.median(x, axis, keepdims)
        return op.negative(made) if axis is None else (op.negative(made[0]), op.negative(made[1]))

    return Graph((data,), make)


@case("bucketize", dtypes=("float32", "int32"))
def bucketize(draw: Draw, dtype: str) -> Graph:
    right, narrow = draw(st.booleans()), draw(st.booleans())
    boundaries = np.sort(some(draw, (draw(st.integers(1, 5)),), dtype))
    return Graph(
        (some(draw, extents(draw), dtype), boundaries), lambda x, b: op.bucketize(x, b, narrow, right)
    )


@case("log_add_exp", dtypes=("float32",))
def log_of_sum(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    return Graph((some(draw, shape, dtype, -9, 9), some(draw, shape, dtype, -9, 9)), op.log_add_exp)
