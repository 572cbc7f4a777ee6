"""One strategy an op that computes: a graph with that op, over drawn shapes and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

from kits.backends.onnx_emitter.onnx_case_kit import (
    CASES,
    FLOATS,
    NUMBERS,
    Draw,
    Graph,
    axes_of,
    axis_of,
    broadcast,
    case,
    extents,
    some,
)

__all__ = ["CASES"]


# --- element by element


@case(
    "abs", "exp", "floor", "ceil", "negative", "sigmoid", "sign", "tanh", "round", "square", "trunc",
    "nn.relu", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.selu",
)  # fmt: skip
def unary(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    return Graph((some(draw, extents(draw, 0), dtype, -1.4, 1.4),), function)


@case("atan", "cos", "erf", "sin", "sinh", "cosh", "tan", "asinh", dtypes=("float32",))
def single(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    return Graph((some(draw, extents(draw, 0), dtype, -1.4, 1.4),), function)


@case("log", "sqrt", "rsqrt")
def positive(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    return Graph((some(draw, extents(draw, 0), dtype, 0.1, 3),), function)


@case("acos", "asin", "atanh", dtypes=("float32",))
def within_one(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    return Graph((some(draw, extents(draw), dtype, -0.9, 0.9),), function)


@case("acosh", dtypes=("float32",))
def beyond_one(draw: Draw, dtype: str) -> Graph:
    return Graph((some(draw, extents(draw), dtype, 1.1, 3),), op.acosh)


@case("isnan", "isinf", "isfinite")
def special(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    data = some(draw, extents(draw), dtype)
    data.flat[0] = draw(st.sampled_from([np.nan, np.inf, -np.inf, 1.0]))
    return Graph((data,), function)


@case(
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    dtypes=(*NUMBERS, "int8", "uint8", "uint16", "uint32"),
)
def arithmetic(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    operands = [some(draw, shape, dtype), some(draw, broadcast(draw, shape), dtype)]
    return Graph(tuple(operands[::-1] if draw(st.booleans()) else operands), function)


@case("divide", "power")
def positive_arithmetic(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    other = broadcast(draw, shape)
    return Graph((some(draw, shape, dtype, 0.5, 2), some(draw, other, dtype, 0.5, 2)), function)


@case("mod", "floor_mod", dtypes=("int32", "int64", "float32"))
def remainder(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    divisor = np.asarray(draw(st.sampled_from([2, 3, -3]))).astype(dtype)
    return Graph((some(draw, shape, dtype, -9, 9), divisor), function)


@case("floor_divide", dtypes=(*FLOATS, "int32", "int64", "int8"))
def floor_divide(draw: Draw, dtype: str) -> Graph:
    divisor = np.asarray(draw(st.sampled_from([2.5, -2.5, 4.0]))).astype(dtype)
    return Graph((some(draw, extents(draw), dtype, -9, 9), divisor), op.floor_divide)


@case("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", dtypes=(*NUMBERS, "int8"))
def comparison(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    left = some(draw, shape, dtype)
    return Graph((left, np.where(some(draw, shape, "bool"), left, some(draw, shape, dtype))), function)


@case("logical_and", "logical_or", "logical_xor", dtypes=("bool",))
def logic(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    return Graph((some(draw, shape, dtype), some(draw, broadcast(draw, shape), dtype)), function)


@case("logical_not", dtypes=("bool",))
def negation(draw: Draw, dtype: str) -> Graph:
    return Graph((some(draw, extents(draw), dtype),), op.logical_not)


@case("where", dtypes=(*NUMBERS, "bool", "int8"))
def where(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    choice = some(draw, broadcast(draw, shape), "bool")
    return Graph((choice, some(draw, shape, dtype), some(draw, broadcast(draw, shape), dtype)), op.where)


@case("clip", dtypes=("float32", "float16", "int32", "int8"))
def clip(draw: Draw, dtype: str) -> Graph:
    low = draw(st.integers(-2, 0))
    return Graph((some(draw, extents(draw), dtype),), lambda x: op.clip(x, low, low + 2))


@case("astype", dtypes=(*NUMBERS, "bool", "uint8", "int8"))
def astype(draw: Draw, dtype: str) -> Graph:
    to = draw(st.sampled_from([*NUMBERS, "bool"]))
    return Graph((some(draw, extents(draw), dtype, 0, 4),), lambda x: op.astype(x, to))


@case("nn.leakyrelu")
def leaky_relu(draw: Draw, dtype: str) -> Graph:
    alpha = draw(st.sampled_from([0.01, 0.3]))
    return Graph((some(draw, extents(draw), dtype),), lambda x: op.nn.leakyrelu(x, alpha))


@case("nn.prelu")
def prelu(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw, 2)
    axis = axis_of(draw, shape)
    return Graph(
        (some(draw, shape, dtype), some(draw, shape[axis : axis + 1] or shape[axis:], dtype)),
        lambda x, slope: op.nn.prelu(x, slope, axis),
    )


@case("nn.softplus", dtypes=("float32",))
def softplus(draw: Draw, dtype: str) -> Graph:
    beta = draw(st.sampled_from([1.0, 2.0]))
    return Graph((some(draw, extents(draw), dtype),), lambda x: op.nn.softplus(x, beta, 20.0))


@case("nn.softmax", "nn.log_softmax")
def softmax(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    axis = axis_of(draw, shape)
    return Graph((some(draw, shape, dtype),), lambda x: function(x, axis=axis))


@case("nn.dropout", dtypes=("float32",))
def dropout(draw: Draw, dtype: str) -> Graph:
    return Graph((some(draw, extents(draw), dtype),), lambda x: op.add(op.nn.dropout(x)[0], x))


# --- convolution, pooling, products


@case("nn.conv1d", "nn.conv2d", "nn.conv3d")
def convolution(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    rank = int(function.__name__[-2])
    groups, per_group, out = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    window = [draw(st.integers(1, 3)) for _ in range(rank)]
    attrs: dict[str, Any] = {
        "strides": [draw(st.integers(1, 2)) for _ in range(rank)],
        "padding": [draw(st.integers(0, 2)) for _ in range(2 * rank)],
        "dilation": [draw(st.integers(1, 2)) for _ in range(rank)],
        "groups": groups,
    }
    data, kernel = [2, groups * per_group, *[6] * rank], [groups * out, per_group, *window]
    if rank == 2 and draw(st.booleans()):
        attrs |= {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        data, kernel = [data[0], *data[2:], data[1]], [*window, per_group, groups * out]
        if groups > 1:  # TVM's own convolution in this layout wants kernels of other shape
            attrs["kernel_layout"] = "OIHW"
            kernel = [groups * out, per_group, *window]
    return Graph((some(draw, data, dtype), some(draw, kernel, dtype)), lambda x, w: function(x, w, **attrs))


@case("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", dtypes=("float32",))
def transposed_convolution(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    rank = int(function.__name__.split("_")[0][-2])
    strides = [draw(st.integers(1, 2)) for _ in range(rank)]
    attrs: dict[str, Any] = {
        "strides": strides,
        "padding": [draw(st.integers(0, 1)) for _ in range(2 * rank)],
        "output_padding": [draw(st.integers(0, step - 1)) for step in strides],
    }
    channels = draw(st.integers(1, 3))
    return Graph(
        (some(draw, [1, channels, *[4] * rank], dtype), some(draw, [channels, 2, *[3] * rank], dtype)),
        lambda x, w: function(x, w, **attrs),
    )


@case(*(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)))
def pooling(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    rank, is_average = int(function.__name__[-2]), function.__name__.startswith("avg")
    window = [draw(st.integers(1, 3)) for _ in range(rank)]
    attrs: dict[str, Any] = {
        "pool_size": window,
        "strides": [draw(st.integers(1, 3)) for _ in range(rank)],
        "padding": [draw(st.integers(0, size - 1)) for size in window * 2],
        "ceil_mode": not is_average and rank < 3 and draw(st.booleans()),
    }
    if is_average:
        attrs["count_include_pad"] = draw(st.booleans())
    data = [1, 2, *(draw(st.integers(3, 7)) for _ in range(rank))]
    if rank == 2 and draw(st.booleans()):
        attrs["layout"] = "NHWC"
        data = [data[0], *data[2:], data[1]]
    if attrs["ceil_mode"]:  # an added window that starts in the padding, or is wide, is declined
        attrs["padding"], attrs["strides"] = [0] * (2 * rank), [min(2, size) for size in window]
    return Graph((some(draw, data, dtype),), lambda x: function(x, **attrs))


@case(*(f"nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3)))
def adaptive(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    rank = int(function.__name__[-2])
    after = [1] * rank if draw(st.booleans()) else [draw(st.sampled_from([1, 2, 3, 6])) for _ in range(rank)]
    size: Any = after[0] if rank == 1 else after
    return Graph((some(draw, [2, 3, *[6] * rank], dtype),), lambda x: function(x, size))


@case("matmul")
def matmul(draw: Draw, dtype: str) -> Graph:
    rows, inner, columns = (draw(st.integers(1, 5)) for _ in range(3))
    batch = extents(draw, 0, 2)
    left = draw(st.sampled_from([(inner,), (rows, inner), (*batch, rows, inner)]))
    right = draw(st.sampled_from([(inner,), (inner, columns), (*batch, inner, columns)]))
    if len(left) == len(right) == 1:
        right = (inner, columns)
    return Graph((some(draw, left, dtype), some(draw, right, dtype)), op.matmul)


@case("einsum", dtypes=("float32",))
def einsum(draw: Draw, dtype: str) -> Graph:
    a, b, c = (draw(st.integers(1, 4)) for _ in range(3))
    text = draw(st.sampled_from(["ab,bc->ac", "ab,bc->ca"]))
    return Graph((some(draw, (a, b), dtype), some(draw, (b, c), dtype)), lambda x, y: op.einsum((x, y), text))


@case("outer")
def outer(draw: Draw, dtype: str) -> Graph:
    return Graph((some(draw, extents(draw, 1, 1), dtype), some(draw, extents(draw, 1, 1), dtype)), op.outer)


@case("nn.attention", "nn.attention_bias", dtypes=("float32",))
def attention(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    batch, heads, rows, columns, width = (draw(st.integers(1, 4)) for _ in range(5))
    mask, scale = draw(st.sampled_from([None, "TopLeft", "BottomRight"])), draw(st.sampled_from([None, 0.3]))
    if mask:
        columns = max(rows, columns)  # else TVM and others differ in what a row without any score is
    shapes = [(batch, rows, heads, width), *[(batch, columns, heads, width)] * 2]
    if function.__name__ == "attention_bias":
        shapes.append((batch, heads, rows, columns))
    return Graph(
        tuple(some(draw, shape, dtype) for shape in shapes),
        lambda *operands: function(*operands, causal_mask=mask, scale=scale),
    )


# --- normalisation


@case("nn.batch_norm", dtypes=("float32",))
def batch_norm(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw, 2)
    axis = draw(st.integers(1, len(shape) - 1))
    vectors = [some(draw, (shape[axis],), dtype, 0.5, 2) for _ in range(4)]
    return Graph(
        (some(draw, shape, dtype), *vectors),
        lambda x, *rest: op.add(op.nn.batch_norm(x, *rest, axis=axis, training=False)[0], x),
    )


@case("nn.layer_norm")
def layer_norm(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw, 1)
    first = draw(st.integers(0, len(shape) - 1))
    axes = list(range(first - len(shape), 0))
    vectors = [some(draw, shape[first:], dtype, 0.5, 2) for _ in range(2)]
    return Graph((some(draw, shape, dtype), *vectors), lambda x, a, b: op.nn.layer_norm(x, a, b, axes=axes))


@case("nn.rms_norm")
def rms_norm(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw, 2)
    return Graph(
        (some(draw, shape, dtype), some(draw, shape[-1:], dtype)),
        lambda x, w: op.nn.rms_norm(x, w, axes=[-1]),
    )


@case("nn.group_norm", "nn.instance_norm", dtypes=("float32",))
def group_norm(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    groups = draw(st.integers(1, 3))
    shape = (2, groups * 2, *extents(draw, 1, 2), 3)
    more = {"num_groups": groups} if function.__name__ == "group_norm" else {}
    vectors = [some(draw, shape[1:2], dtype, 0.5, 2) for _ in range(2)]
    return Graph(
        (some(draw, shape, dtype), *vectors),
        lambda x, a, b: function(x, a, b, channel_axis=1, axes=list(range(2, len(shape))), **more),
    )


# --- reductions


@case("sum", "max", "min", dtypes=(*FLOATS, "int32", "int64", "int8", "uint8"))
def reduction(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    axes = draw(st.none()) if draw(st.booleans()) else axes_of(draw, shape)
    keepdims = draw(st.booleans())
    return Graph((some(draw, shape, dtype),), lambda x: function(x, axis=axes, keepdims=keepdims))


@case("mean")
def mean(draw: Draw, dtype: str) -> Graph:
    return reduction(draw, dtype, op.mean)


@case("prod", "variance", "std", dtypes=("float32",))
def float_reduction(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    axes, keepdims = axes_of(draw, shape), draw(st.booleans())
    return Graph((some(draw, shape, dtype),), lambda x: function(x, axis=axes, keepdims=keepdims))


@case("argmax", "argmin", dtypes=("float32", "int32", "int64", "int8", "uint8"))
def extreme(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    axis = None if draw(st.booleans()) else axis_of(draw, shape)
    keepdims = draw(st.booleans())
    return Graph((some(draw, shape, dtype),), lambda x: function(x, axis=axis, keepdims=keepdims))


@case("cumsum", dtypes=("float32", "int32"))
def cumsum(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    axis = None if draw(st.booleans()) else axis_of(draw, shape)
    exclusive = draw(st.booleans())
    return Graph((some(draw, shape, dtype),), lambda x: op.cumsum(x, axis=axis, exclusive=exclusive))


@case("topk", dtypes=("float32",))
def topk(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    axis, largest = axis_of(draw, shape), draw(st.booleans())
    count = draw(st.integers(1, shape[axis]))

    def make(x: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        both = op.topk(x, count, axis, "both", largest)
        return op.add(both[0], both[0]), op.add(both[1], both[1])

    return Graph((some(draw, shape, dtype),), make)
