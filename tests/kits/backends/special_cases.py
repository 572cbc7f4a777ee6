"""Small graphs for each op that some backend claims, to be fed with what is no number or has no end.

Functions of one tensor, alone and behind products, functions of two tensors, and all other ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

__all__ = ["CASES", "LARGEST", "PLACED", "SPECIAL", "Case", "case", "number", "ordinary"]

Shape = tuple[int | str, ...]
Make = Callable[..., Any]
NAN, INF = math.nan, math.inf
LARGEST = float(np.finfo("float32").max)
DENORMAL = 1e-41
SPECIAL = np.array(
    [NAN, INF, -INF, -0.0, 0.0, LARGEST, -LARGEST, DENORMAL, -DENORMAL, 1, -2.5, 88.8, -95], "float32"
)
"""The extremes, and numbers whose exponential is about to overflow, or is a denormal."""

PLACED = SPECIAL[[0, 1, 2, 3, 5, 6, 7]]
"""What is placed among ordinary numbers."""


@dataclass(frozen=True, slots=True)
class Case:
    """A graph.

    Attributes
    ----------
    name
        Also the name of the function.
    shapes
        The operands; ``"n"`` is an extent that is known at the call.
    make
        From the operands to the result, or to a tuple of results.
    kind
        How the operands are filled: ``"each"`` (element by element), ``"pairs"`` (each number meets each),
        ``"residual"`` (the first operand is ordinary, the other special), or ``"one"`` (ordinary numbers, a
        special one in one place, then in all, of one operand after the other).
    """

    name: str
    shapes: tuple[Shape, ...]
    make: Make
    kind: str = "one"


CASES: dict[str, Case] = {}


def case(name: str, shapes: tuple[Shape, ...], make: Make, kind: str = "one") -> None:
    assert name not in CASES
    CASES[name] = Case(name, shapes, make, kind)


def number(value: float) -> relax.Expr:
    return relax.const(np.float32(value))


def ordinary(*shape: int) -> relax.Expr:
    return relax.const(np.random.default_rng(3).uniform(0.5, 2, shape).astype("float32"))


def number_row(size: int) -> relax.Expr:
    return relax.const(np.ones((1, size), "float32"))


def ones(*shape: int) -> relax.Expr:
    return relax.const(np.ones(shape, "float32"))


# --- functions of one tensor

ACTIVATIONS: dict[str, Make] = {
    **{
        name: getattr(op, name)
        for name in (
            [
                "sigmoid",
                "tanh",
                "exp",
                "log",
                "sqrt",
                "rsqrt",
                "square",
                "abs",
                "negative",
                "erf",
                "sin",
                "cos",
            ]
        )
    },
    **{name: getattr(op.nn, name) for name in ("relu", "gelu", "gelu_tanh", "silu")},
    "leakyrelu": lambda x: op.nn.leakyrelu(x, 0.1),
    "clip": lambda x: op.clip(x, -1, 2),
    "relu6": lambda x: op.clip(x, 0, 6),
    "lower_bound": lambda x: op.clip(x, -1, INF),
    "upper_bound": lambda x: op.clip(x, -INF, 2),
    "linear": lambda x: op.add(op.multiply(x, number(2)), number(0.5)),
    "less_from": lambda x: op.subtract(number(1), x),
    "quotient": lambda x: op.divide(x, number(41)),
    "inverse": lambda x: op.divide(number(41), x),
    "largest": lambda x: op.maximum(x, number(0.5)),
    "largest_zero": lambda x: op.maximum(x, number(0)),
    "largest_from_zero": lambda x: op.maximum(number(0), x),
    "least": lambda x: op.minimum(number(0.5), x),
    "softplus": lambda x: op.log(op.add(op.exp(x), number(1))),
    "hardswish": lambda x: op.multiply(x, op.divide(op.clip(op.add(x, number(3)), 0, 6), number(6))),
    "quick_gelu": lambda x: op.multiply(x, op.sigmoid(op.multiply(x, number(1.702)))),
    "mish": lambda x: op.multiply(x, op.tanh(op.log(op.add(op.exp(x), number(1))))),
    **{
        f"power_{name}": lambda x, e=exponent: op.power(x, number(e))
        for name, exponent in {
            "half": 0.5,
            "minus_half": -0.5,
            "two": 2,
            "three": 3,
            "minus_one": -1,
            "two_fifths": 0.4,
            "zero": 0,
            "one": 1,
        }.items()
    },
    **{
        f"{name}_number": lambda x, f=name: op.astype(getattr(op, f)(x, number(0.5)), "float32")
        for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
    },
    "choice": lambda x: op.where(op.greater(x, number(0.5)), x, number(0)),
    "negated_choice": lambda x: op.where(op.logical_not(op.greater(x, number(0.5))), x, number(0)),
}
"""Functions that a product may take in behind it."""

OTHER_FUNCTIONS: dict[str, Make] = {
    **{
        name: getattr(op, name)
        for name in [
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "ceil",
            "cosh",
            "floor",
            "isfinite",
            "isinf",
            "isnan",
            "round",
            "sign",
            "sinh",
            "tan",
            "trunc",
            "zeros_like",
            "ones_like",
        ]
    },
    "selu": op.nn.selu,
    "softplus_op": lambda x: op.nn.softplus(x, 1.0, 20.0),
    "dropout": lambda x: op.nn.dropout(x)[0],
    "full_like": lambda x: op.add(x, op.full_like(x, number(2))),
    "cast_to_half": lambda x: op.astype(op.astype(x, "float16"), "float32"),
    "clip_by_nan": lambda x: op.clip(x, NAN, 2),
    "clip_between_infinities": lambda x: op.clip(x, -INF, INF),
    "leakyrelu_infinite": lambda x: op.nn.leakyrelu(x, INF),
    "times_zero": lambda x: op.multiply(x, number(0)),
    "times_zero_plus_one": lambda x: op.add(op.multiply(x, number(0)), number(1)),
    **{
        f"{name}_{what}": lambda x, f=name, v=value: getattr(op, f)(x, number(v))
        for name in ("add", "multiply", "divide", "maximum", "minimum", "power")
        for what, value in (("nan", NAN), ("infinity", INF), ("minus_infinity", -INF), ("denormal", DENORMAL))
    },
    **{
        f"{name}_{what}": lambda x, f=name, v=value: op.astype(getattr(op, f)(x, number(v)), "float32")
        for name in ("equal", "less", "greater_equal")
        for what, value in (("nan", NAN), ("infinity", INF), ("minus_infinity", -INF))
    },
}

for _name, _make in {**ACTIVATIONS, **OTHER_FUNCTIONS}.items():
    case(_name, (("n",),), _make, "each")
for _name, _make in ACTIVATIONS.items():
    case(f"matmul_{_name}", (("n", 1),), lambda x, f=_make: f(op.matmul(x, number_row(17))), "each")
    case(f"conv_{_name}", ((1, 1, "n", 1),), lambda x, f=_make: f(op.nn.conv2d(x, ones(16, 1, 1, 1))), "each")
    case(f"product_{_name}", (("n", 17),), lambda x, f=_make: f(op.multiply(x, number_row(17))), "each")


# --- functions of two tensors

PAIRWISE: dict[str, Make] = {
    **{name: getattr(op, name) for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")},
    **{
        f"{name}_pair": lambda a, b, f=name: op.astype(getattr(op, f)(a, b), "float32")
        for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
    },
    "where": lambda a, b: op.where(op.less(a, b), a, b),
    "logic": lambda a, b: op.astype(
        op.logical_xor(
            op.logical_and(op.less(a, b), op.greater(a, number(-1))),
            op.logical_or(op.equal(a, b), op.logical_not(op.less(a, number(2)))),
        ),
        "float32",
    ),
    "prelu": lambda a, b: op.nn.prelu(op.reshape(a, (1, -1)), op.reshape(b, (-1,))),
}
OTHER_PAIRWISE: dict[str, Make] = {
    name: getattr(op, name) for name in ("power", "mod", "floor_mod", "floor_divide")
}
COUNT = len(SPECIAL)

for _name, _make in {**PAIRWISE, **OTHER_PAIRWISE}.items():
    case(f"{_name}_each", ((COUNT, COUNT), (COUNT, COUNT)), _make, "pairs")
for _name, _make in PAIRWISE.items():
    if _name != "prelu":
        case(f"{_name}_row", ((COUNT, COUNT), (1, COUNT)), _make, "pairs")
        case(f"{_name}_column", ((COUNT, 1), (COUNT, COUNT)), _make, "pairs")
        case(
            f"{_name}_behind_matmul",
            ((COUNT, 1), (COUNT, COUNT)),
            lambda a, b, f=_make: f(op.matmul(a, number_row(COUNT)), b),
            "pairs",
        )
        case(
            f"{_name}_in_front_of_matmul",
            ((COUNT, COUNT), (1, COUNT)),
            lambda a, b, f=_make: f(b, op.matmul(op.strided_slice(a, [1], [0], [1]), number_row(COUNT))),
            "pairs",
        )

# --- products and windows


def _convolutions(rank: int) -> None:
    data: Shape = (1, 3, *[5] * rank)
    forward, transposed = getattr(op.nn, f"conv{rank}d"), getattr(op.nn, f"conv{rank}d_transpose")
    case(f"conv{rank}d", (data, (4, 3, *[3] * rank)), lambda x, w: forward(x, w, padding=1))
    case(f"conv{rank}d_transpose", (data, (3, 4, *[3] * rank)), lambda x, w: transposed(x, w, padding=1))


def _pools(rank: int) -> None:
    data: Shape = (1, 17, *[5] * rank)
    largest, average = getattr(op.nn, f"max_pool{rank}d"), getattr(op.nn, f"avg_pool{rank}d")
    adaptive = getattr(op.nn, f"adaptive_avg_pool{rank}d")
    window: Any = [3] * rank if rank > 1 else 3
    case(f"max_pool{rank}d", (data,), lambda x: largest(x, window))
    case(f"max_pool{rank}d_padded", (data,), lambda x: largest(x, window, padding=1))
    case(f"avg_pool{rank}d", (data,), lambda x: average(x, window, padding=1, count_include_pad=True))
    case(
        f"avg_pool{rank}d_exclusive",
        (data,),
        lambda x: average(x, window, padding=1, count_include_pad=False),
    )
    case(f"adaptive_avg_pool{rank}d", (data,), lambda x: adaptive(x, [1] * rank if rank > 1 else 1))


for _rank in (1, 2, 3):
    _convolutions(_rank)
    _pools(_rank)
case("conv2d_depthwise", ((1, 8, 5, 5), (8, 1, 3, 3)), lambda x, w: op.nn.conv2d(x, w, padding=1, groups=8))
case("conv2d_wide", ((1, 32, 6, 6),), lambda x: op.nn.conv2d(x, ordinary(32, 32, 3, 3), padding=1))
case("conv2d_nhwc", ((1, 5, 5, 8),), lambda x: op.nn.conv2d(x, ordinary(16, 8, 3, 3), data_layout="NHWC"))
case(
    "conv2d_infinite_weights",
    ((1, 3, 5, 5),),
    lambda x: op.nn.conv2d(x, relax.const(np.full((4, 3, 1, 1), INF, "float32")), padding=1),
)
case(
    "prelu_infinite_slopes",
    ((5, 4),),
    lambda x: op.nn.prelu(x, relax.const(np.array([1, INF, NAN, 0.5], "float32"))),
)
case(
    "conv2d_bias_relu6",
    ((1, 3, 5, 5), (1, 4, 1, 1)),
    lambda x, b: op.clip(op.add(op.nn.conv2d(x, ordinary(4, 3, 3, 3)), b), 0, 6),
)
case(
    "conv2d_norm_relu",
    ((1, 3, 5, 5), (4,), (4,)),
    lambda x, a, b: op.nn.relu(norm(op.nn.conv2d(x, ordinary(4, 3, 3, 3)), a, b, ordinary(4), ordinary(4))),
)
case("matmul", ((3, 37), (37, 19)), op.matmul)
case("matmul_by_constant", ((3, 37),), lambda x: op.matmul(x, ordinary(37, 19)))
case("matmul_by_zeros", ((3, 37),), lambda x: op.matmul(x, op.multiply(ones(37, 19), number(0))))
case("matmul_batched", ((2, 3, 5), (2, 5, 4)), op.matmul)
case("matmul_vector", ((1, 37), (37, 1)), op.matmul)
case(
    "matmul_infinite_weights", ((3, 2),), lambda x: op.matmul(x, relax.const(np.full((2, 5), INF, "float32")))
)
case("matmul_bias", ((3, 7), (19,)), lambda x, b: op.nn.relu(op.add(op.matmul(x, ordinary(7, 19)), b)))
case("outer", ((5,), (7,)), op.outer)
case("einsum", ((3, 4), (4, 5)), lambda a, b: op.einsum((a, b), "ab,bc->ac"))
_heads: Shape = (1, 5, 2, 8)
for _mask in (None, "TopLeft", "BottomRight"):
    case(
        f"attention_{_mask}",
        (_heads, _heads, _heads),
        lambda q, k, v, m=_mask: op.nn.attention(q, k, v, causal_mask=m),
    )
case(
    "attention_tall",
    ((1, 5, 2, 8), (1, 3, 2, 8), (1, 3, 2, 8)),
    lambda q, k, v: op.nn.attention(q, k, v, causal_mask="BottomRight"),
)
case("attention_bias", (_heads, _heads, _heads, (1, 2, 5, 5)), op.nn.attention)
case(
    "attention_parts",
    ((2, 5, 8), (2, 8, 19), (2, 19, 8), (1, 5, 19)),
    lambda q, k, v, b: op.matmul(op.nn.softmax(op.add(op.multiply(op.matmul(q, k), number(0.3)), b), -1), v),
)

# --- norms


def norm(*operands: relax.Expr) -> relax.Expr:
    return op.nn.batch_norm(*operands, axis=1, training=False)[0]


_channels: Shape = (6,)
case("batch_norm", ((2, 6, 5), *[_channels] * 4), norm)
case("batch_norm_constant", ((2, 6, 5),), lambda x: op.nn.relu(norm(x, *[ordinary(6)] * 4)))
case("layer_norm", ((3, 19), (19,), (19,)), lambda x, a, b: op.nn.layer_norm(x, a, b, axes=[-1]))
case("rms_norm", ((3, 19), (19,)), lambda x, a: op.nn.rms_norm(x, a, axes=[-1]))
_groups = {"num_groups": 2, "channel_axis": 1, "axes": [2, 3]}
for _name, _shape in (("", (2, 6, 3, 3)), ("_of_a_pixel", (2, 6, 1, 1))):
    case(f"group_norm{_name}", (_shape, _channels, _channels), lambda *x: op.nn.group_norm(*x, **_groups))
case(
    "group_norm_silu",
    ((2, 6, 3, 3), _channels, _channels),
    lambda *x: op.nn.silu(op.nn.group_norm(*x, **_groups)),
)
case(
    "group_norm_relu",
    ((2, 6, 3, 3), _channels, _channels),
    lambda *x: op.nn.relu(op.nn.group_norm(*x, **_groups)),
)
case(
    "group_norm_channels_last",
    ((2, 3, 3, 6), _channels, _channels),
    lambda x, a, b: op.nn.group_norm(op.permute_dims(op.negative(x), [0, 3, 1, 2]), a, b, **_groups),
)
case(
    "instance_norm",
    ((2, 6, 3, 3), _channels, _channels),
    lambda *x: op.nn.instance_norm(*x, channel_axis=1, axes=[2, 3]),
)
for _name in ("softmax", "log_softmax"):
    for _axis in (0, 1):
        case(f"{_name}_{_axis}", ((5, 19),), lambda x, f=_name, a=_axis: getattr(op.nn, f)(x, a))
    case(
        f"{_name}_behind_matmul",
        ((5, 1), (5, 19)),
        lambda x, y, f=_name: getattr(op.nn, f)(op.add(op.matmul(x, number_row(19)), y), -1),
    )

# --- reductions

for _name in ("mean", "sum", "max", "min", "prod", "variance", "std", "argmax", "argmin"):
    for _axis, _what in ((0, "columns"), (1, "rows")):
        case(
            f"{_name}_of_{_what}",
            ((19, 37),),
            lambda x, f=_name, a=_axis: getattr(op, f)(x, a if "arg" in f else [a], keepdims=True),
        )
case("mean_of_image", ((1, 3, 5, 7),), lambda x: op.mean(x, [2, 3]))
case("max_of_all", ((3, 5),), lambda x: op.max(x, keepdims=True))
case("any", ((3, 5), (3, 5)), lambda x, y: op.astype(op.max(op.astype(op.less(x, y), "int8"), [1]), "bool"))
case("cumsum", ((3, 7),), lambda x: op.cumsum(x, 1))
case("cumprod", ((3, 7),), lambda x: op.cumprod(x, 1))
case("topk", ((3, 7),), lambda x: op.topk(x, 3, 1, "both", True))

# --- movement

case("concat", ((2, 3), (2, 5)), lambda a, b: op.concat((a, b), 1))
case("stack", ((2, 3), (2, 3)), lambda a, b: op.stack((a, b), 1))
case("tile", ((2, 3),), lambda x: op.tile(x, (2, 2)))
case("repeat", ((2, 3),), lambda x: op.repeat(x, 3, 1))
case("reshape", ((2, 3),), lambda x: op.negative(op.reshape(x, (3, 2))))
case("flatten", ((2, 3),), lambda x: op.negative(op.flatten(x)))
case("batch_flatten", ((2, 3, 2),), lambda x: op.negative(op.nn.batch_flatten(x)))
case("squeeze", ((2, 1, 3),), lambda x: op.negative(op.squeeze(x, [1])))
case("expand_dims", ((2, 3),), lambda x: op.negative(op.expand_dims(x, 1)))
case("permute_dims", ((2, 3),), lambda x: op.negative(op.permute_dims(x)))
case("broadcast_to", ((1, 3),), lambda x: op.broadcast_to(x, (4, 3)))
case("split", ((4, 6),), lambda x: tuple(op.negative(op.split(x, 2, 1)[index]) for index in range(2)))


def middle_third(x: relax.Expr) -> relax.Expr:
    """The second of three parts that are as long as an input."""
    length = x.ty.shape.values[0]
    whole = op.concat([x, op.negative(x), x], 0)
    return op.negative(op.strided_slice(whole, [0], [length], [length + length], assume_inbound=True))


case("strided_slice_of_extents", (("n", 4),), middle_third)
case("strided_slice", ((4, 6),), lambda x: op.negative(op.strided_slice(x, [1], [1], [6], [2])))
case("take", ((4, 6),), lambda x: op.negative(op.take(x, relax.const(np.array([1, 2], "int64"), "int64"), 1)))
case(
    "take_by_computed",
    ((4, 6), (2,)),
    lambda x, i: op.take(x, op.astype(op.multiply(i, number(0)), "int64"), 1, "clip"),
)
case("pad", ((2, 3),), lambda x: op.nn.pad(x, [1, 0, 2, 1], "constant", 1.5))
for _name, _value in (("nan", NAN), ("infinity", INF)):
    case(f"pad_{_name}", ((2, 3),), lambda x, v=_value: op.nn.pad(x, [1, 0, 2, 1], "constant", v))
for _name in ("reflect", "replicate", "circular"):
    case(f"pad_{_name}", ((2, 3),), lambda x, m=_name: op.nn.pad(x, [1, 0, 2, 1], m))
case("flip", ((2, 3),), lambda x: op.flip(x, 1))
case("triu", ((3, 4),), op.triu)
case("tril", ((3, 4),), op.tril)
case("full", ((3,),), lambda x: op.add(x, op.full((3,), number(2), "float32")))
case("zeros", ((3,),), lambda x: op.add(x, op.zeros((3,), "float32")))
case("ones", ((3,),), lambda x: op.multiply(x, op.ones((3,), "float32")))
_rows = relax.const(np.array([[0, 1], [2, 0]], "int64"), "int64")
case("gather_elements", ((3, 2),), lambda x: op.gather_elements(x, _rows, 0))
case("gather_nd", ((3, 2),), lambda x: op.gather_nd(x, _rows))
case("index_tensor", ((3, 2),), lambda x: op.index_tensor(x, [_rows]))
case("take_nan", ((3, 2),), lambda x: op.take(x, _rows, 1, "nan"))
for _name in ("update", "add"):
    case(
        f"scatter_elements_{_name}",
        ((3, 2), (2, 2)),
        lambda x, u, r=_name: op.scatter_elements(x, _rows, u, 0, r),
    )
    case(
        f"scatter_nd_{_name}",
        ((3, 2), (2, 2)),
        lambda x, u, r=_name: op.scatter_nd(x, relax.const(np.array([[0], [2]], "int64"), "int64"), u, r),
    )
for _method, _how in (
    ("linear", {"coordinate_transformation_mode": "half_pixel"}),
    ("nearest_neighbor", {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}),
):
    case(
        f"resize2d_{_method}",
        ((1, 2, 3, 3),),
        lambda x, m=_method, h=_how: op.image.resize2d(x, (6, 6), method=m, **h),
    )

# --- quantization


def quantize(x: relax.Expr, dtype: str = "int8", zero: int = 3) -> relax.Expr:
    return op.quantize(x, number(0.5), relax.const(zero, dtype), out_dtype=dtype)


def dequantize(x: relax.Expr, dtype: str = "int8", zero: int = 3) -> relax.Expr:
    return op.dequantize(x, number(0.5), relax.const(zero, dtype))


case("quantize", (("n", 1),), quantize, "each")
case("quantize_to_uint8", (("n", 1),), lambda x: quantize(x, "uint8"), "each")
case("dequantize", (("n", 1),), lambda x: dequantize(quantize(x)), "each")
case(
    "quantize_by_channel",
    ((2, 19),),
    lambda x: op.quantize(
        x, ordinary(19), relax.const(np.zeros(19, "int8"), "int8"), axis=1, out_dtype="int8"
    ),
)
_bytes = relax.const(np.ones((1, 16), "int8"), "int8")
case(
    "quantized_matmul",
    (("n", 1),),
    lambda x: op.matmul(dequantize(quantize(x)), op.dequantize(_bytes, number(1), relax.const(0, "int8"))),
    "each",
)
case(
    "quantized_result",
    (("n", 1),),
    lambda x: dequantize(
        quantize(op.matmul(dequantize(quantize(x)), op.dequantize(_bytes, number(1), relax.const(0, "int8"))))
    ),
    "each",
)
case(
    "quantized_sum",
    (("n", 1), ("n", 16)),
    lambda x, y: dequantize(
        quantize(
            op.add(
                op.matmul(dequantize(quantize(x)), op.dequantize(_bytes, number(1), relax.const(0, "int8"))),
                y,
            )
        )
    ),
    "residual",
)
