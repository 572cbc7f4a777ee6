"""Small graphs of what transformers and newer convolutional networks add: parts, choices, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from kits.backends.dnnl.dnnl_cases import Shape, case, const
from kits.backends.dnnl.dnnl_fusion_cases import CASES

__all__ = ["CASES"]


def number(value: float) -> relax.Expr:
    return relax.const(value, "float32")


def unary(name: str, make: Any, *shapes: Shape, **attrs: Any) -> None:
    case(name, *shapes)(lambda *values: make(*values, **attrs))


# --- parts


@case("split_even", (2, 6, 4))
def _(x: relax.Expr) -> Any:
    parts = op.split(x, 3, axis=1)
    return op.add(op.nn.relu(parts[0]), op.multiply(parts[1], parts[2]))


@case("split_uneven_results", (2, 7))
def _(x: relax.Expr) -> Any:
    parts = op.split(x, [2, 5], axis=-1)
    return parts[0], op.exp(parts[1]), parts[2]


@case("split_after_conv", (1, 8, 6, 6))
def _(x: relax.Expr) -> Any:
    low, high = (op.split(op.nn.conv2d(x, const(32, 8, 3, 3), padding=1), 2, axis=1)[i] for i in (0, 1))
    return op.multiply(low, op.sigmoid(high))


@case("split_heads", (2, 5, 24))
def _(x: relax.Expr) -> Any:
    parts = op.split(x, 3, axis=2)
    q, k, v = (op.permute_dims(op.reshape(parts[index], (2, 5, 2, 4)), [0, 2, 1, 3]) for index in range(3))
    return op.matmul(op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])), v)


unary("slice_rows", op.strided_slice, (6, 5), axes=[0], begin=[1], end=[4])
unary("slice_steps", op.strided_slice, (7, 9), axes=[0, 1], begin=[1, 0], end=[7, 9], strides=[2, 3])
unary("slice_from_the_end", op.strided_slice, (7, 4), axes=[0], begin=[-3], end=[100])
unary("slice_of_one_number", op.strided_slice, (1, 1, 1, 2), axes=[3], begin=[1], end=[2])


@case("slice_of_one_truth", (1, 1, 1, 2))
def _(x: relax.Expr) -> Any:
    return op.strided_slice(op.greater(x, number(0.0)), axes=[3], begin=[1], end=[2])


@case("slice_of_one_column_of_truths", (3, 4, 5))
def _(x: relax.Expr) -> Any:
    return op.strided_slice(op.greater(x, number(0.0)), axes=[2, 1], begin=[4, 0], end=[5, 4], strides=[1, 2])


unary("slice_of_all", op.strided_slice, (3, 4), axes=[0], begin=[0], end=[3])
unary("pad_image", op.nn.pad, (1, 3, 5, 5), pad_width=(0, 0, 0, 0, 1, 2, 2, 1), pad_value=0.5)
unary("pad_rows", op.nn.pad, (3, 4), pad_width=(1, 0, 0, 2))
case("stack_first", (3, 4), (3, 4))(lambda x, y: op.stack([x, y], axis=0))
case("stack_last", (3, 4), (3, 4))(lambda x, y: op.stack([x, op.negative(y)], axis=-1))


@case("slice_in_place_is_not_reused", (4, 8))
def _(x: relax.Expr) -> Any:
    y = op.exp(x)
    low, high = op.split(y, 2, axis=1)[0], op.split(y, 2, axis=1)[1]
    return op.concat((op.nn.relu(op.negative(low)), op.sigmoid(high)), axis=1), op.add(y, y)


@case("take_one", (3, 5, 4))
def _(x: relax.Expr) -> Any:
    return op.nn.relu(op.take(x, relax.const(2, "int64"), axis=1))


@case("take_neighbours", (6, 4))
def _(x: relax.Expr) -> Any:
    return op.take(x, relax.const(np.array([1, 2, 3])), axis=0)


@case("rotary", (1, 2, 5, 8))
def _(x: relax.Expr) -> Any:
    low = op.strided_slice(x, [3], [0], [4])
    high = op.strided_slice(x, [3], [4], [8])
    turned = op.concat((op.negative(high), low), axis=-1)
    return op.add(op.multiply(x, const(1, 1, 5, 8)), op.multiply(turned, const(1, 1, 5, 8, seed=8)))


# --- choices


def _chosen(name: str, compare: Any) -> None:
    case(f"where_{name}", (3, 4), (3, 4))(lambda x, y: op.where(compare(x, y), x, op.negative(y)))


_chosen("greater", op.greater)
_chosen("less_equal", op.less_equal)
case("greater_equal", (3, 4), (4,))(op.greater_equal)
case("less_than_number", (3, 4))(lambda x: op.less(x, number(0.25)))
case("number_is_less", (3, 4))(lambda x: op.less(number(0.25), op.expand_dims(x, 0)))
case("equal_of_rounded", (3, 4))(lambda x: op.equal(op.maximum(x, number(0.0)), op.nn.relu(x)))
case("not_equal_smaller_left", (4,), (3, 4))(op.not_equal)
case("greater_smaller_left", (4,), (3, 4))(op.greater)
for _name, _other in (("channel", (1, 3, 1, 1)), ("tensor", (2, 3, 4, 4)), ("number", (1, 1, 1, 1))):
    case(f"sum_less_than_{_name}", (2, 3, 4, 4), (2, 3, 4, 4), _other)(
        lambda x, y, z: op.less(op.add(x, y), z)
    )
case("where_broadcast", (1, 4), (3, 1))(lambda x, y: op.where(op.less(x, number(0.0)), x, y))
case("where_number", (3, 4))(lambda x: op.where(op.less(x, number(0.0)), number(-1e9), x))
case("where_infinite", (3, 4))(lambda x: op.where(op.less(x, number(0.0)), number(-np.inf), x))


@case("logic", (3, 4), (3, 4))
def _(x: relax.Expr, y: relax.Expr) -> Any:
    a, b = op.greater(x, number(0.0)), op.less(y, number(0.5))
    return op.logical_or(op.logical_and(a, b), op.logical_not(op.logical_xor(a, b)))


@case("truth_as_numbers", (3, 4))
def _(x: relax.Expr) -> Any:
    return op.multiply(op.astype(op.greater(x, number(0.0)), "float32"), x)


@case("causal_mask", (2, 5, 5))
def _(x: relax.Expr) -> Any:
    return op.where(relax.const(np.tri(5, dtype=bool)[None]), x, number(-3.4028234663852886e38))


def _any(truth: relax.Expr, axis: int) -> relax.Expr:
    """As PyTorch's importer writes it."""
    return op.astype(op.max(op.astype(truth, "int8"), axis=[axis], keepdims=True), "bool")


case("any_of_truths", (3, 5, 4))(lambda x: _any(op.greater(x, number(1.0)), -1))
case("any_of_truths_is_used", (3, 5, 4))(
    lambda x: op.where(op.logical_not(_any(op.greater(x, number(1.0)), 1)), x, number(7.0))
)
case("equal_to_infinity", (3, 5))(
    lambda x: op.equal(op.where(op.less(x, number(0.0)), number(-np.inf), x), number(-np.inf))
)
case("less_than_infinity", (3, 5))(
    lambda x: op.less(op.where(op.less(x, number(0.0)), number(np.inf), x), number(np.inf))
)


def guarded_softmax(scores: relax.Expr) -> relax.Expr:
    """PyTorch's: where nothing is seen, all weights are zero."""
    unseen = op.logical_not(_any(op.logical_not(op.equal(scores, number(-np.inf))), -1))
    return op.where(unseen, number(0.0), op.nn.softmax(scores))


def hidden(scores: relax.Expr, mask: relax.Expr) -> relax.Expr:
    return op.where(op.less(mask, number(0.0)), number(-np.inf), scores)


case("guarded_softmax", (4, 5, 3), (4, 5, 1))(lambda x, mask: guarded_softmax(hidden(x, mask)))


# --- functions and norms


def ones(size: int) -> relax.Expr:
    return relax.const(np.ones(size, "float32"))


def zeros(size: int) -> relax.Expr:
    return relax.const(np.zeros(size, "float32"))


unary("erf", op.erf, (3, 7))
unary("variance_last", op.variance, (2, 5, 16), axis=[-1], keepdims=True)
unary("variance_of_an_image", op.variance, (2, 3, 4, 5), axis=[2, 3])
case("instance_norm_of_a_batch", (1, 6, 5, 5))(
    lambda x: op.nn.instance_norm(x, const(6, shift=1.0), const(6), 1, [0, 2, 3])
)
unary("relu6", op.nn.relu6, (3, 70))
unary("sin", op.sin, (3, 7))
unary("cos", op.cos, (2, 3, 7))
unary("tile_last", op.tile, (3, 4), repeats=[1, 2])
unary("tile_all", op.tile, (3, 4), repeats=[2, 3])
unary("tile_to_a_higher_rank", op.tile, (3, 4), repeats=[2, 1, 2])
unary("repeat_rows", op.repeat, (3, 4), repeats=3, axis=0)
unary("repeat_last", op.repeat, (2, 3, 4), repeats=2, axis=-1)
unary("prelu", op.nn.prelu, (2, 6, 3, 3), (6,))
unary("reduce_prod", op.prod, (2, 4, 3), axis=[1])
case("layer_norm_two_axes", (2, 3, 4, 5))(
    lambda x: op.nn.layer_norm(x, const(4, 5, shift=1.0), const(4, 5), axes=[2, 3])
)
case("rms_norm", (2, 5, 24))(lambda x: op.nn.rms_norm(x, const(24, shift=1.0), axes=[-1]))
case("rms_norm_two_axes", (3, 4, 5))(lambda x: op.nn.rms_norm(x, const(4, 5, shift=1.0), axes=[1, 2]))
case("group_norm", (2, 8, 5, 5))(lambda x: op.nn.group_norm(x, const(8, shift=1.0), const(8), 4, 1, [2, 3]))
case("instance_norm", (2, 6, 5, 5))(
    lambda x: op.nn.instance_norm(x, const(6, shift=1.0), const(6), 1, [2, 3])
)
unary(
    "layer_norm_of_ones_and_zeros", lambda x: op.nn.layer_norm(x, ones(24), zeros(24), axes=[-1]), (2, 5, 24)
)
unary("rms_norm_of_ones", lambda x: op.nn.rms_norm(x, ones(24), axes=[-1]), (2, 5, 24))
unary(
    "group_norm_of_ones_and_zeros",
    lambda x: op.nn.group_norm(x, ones(8), zeros(8), 4, 1, [2, 3], center=False, scale=False),
    (2, 8, 5, 5),
)
unary(
    "instance_norm_of_ones_and_zeros",
    lambda x: op.nn.relu(op.nn.instance_norm(x, ones(6), zeros(6), 1, [2, 3])),
    (2, 6, 5, 5),
)
case("conv1d_transpose", (1, 8, 9))(
    lambda x: op.nn.conv1d_transpose(x, const(8, 6, 3), strides=2, padding=1, output_padding=1)
)
case("resize_nearest", (1, 3, 4, 5))(
    lambda x: op.image.resize2d(
        x, (12, 10), layout="NCHW", method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric", rounding_method="floor",
    )
)  # fmt: skip
case("resize_nearest_half_pixel_nhwc", (1, 4, 5, 3))(
    lambda x: op.image.resize2d(x, (8, 15), layout="NHWC", method="nearest_neighbor")
)
case("resize_linear", (2, 3, 4, 5))(lambda x: op.image.resize2d(x, (9, 3), layout="NCHW", method="linear"))


# --- the parts of functions that exporters take apart


@case("gelu_by_parts", (3, 20))
def _(x: relax.Expr) -> Any:
    e = op.add(op.erf(op.divide(x, number(2**0.5))), number(1.0))
    return op.multiply(op.multiply(x, e), number(0.5))


@case("gelu_by_parts_half_first", (3, 20))
def _(x: relax.Expr) -> Any:
    e = op.add(number(1.0), op.erf(op.multiply(x, number(2**-0.5))))
    return op.multiply(op.multiply(number(0.5), x), e)


@case("gelu_tanh_by_parts", (3, 20))
def _(x: relax.Expr) -> Any:
    cube = op.multiply(op.power(x, number(3.0)), number(0.044715))
    inner = op.multiply(op.add(x, cube), number((2 / np.pi) ** 0.5))
    return op.multiply(op.multiply(x, number(0.5)), op.add(op.tanh(inner), number(1.0)))


@case("silu_by_parts", (3, 20))
def _(x: relax.Expr) -> Any:
    return op.multiply(x, op.sigmoid(x))


@case("rms_norm_by_parts", (2, 5, 16))
def _(x: relax.Expr) -> Any:
    mean = op.mean(op.power(x, number(2.0)), axis=[-1], keepdims=True)
    return op.multiply(op.divide(x, op.sqrt(op.add(mean, number(1e-5)))), const(16, shift=1.0))


@case("almost_gelu", (3, 20))
def _(x: relax.Expr) -> Any:
    e = op.add(op.erf(op.divide(x, number(2.0))), number(1.0))
    return op.multiply(op.multiply(x, e), number(0.5))


# --- attention

HEADS: Shape = (2, 4, 6, 8)


def _scores(q: relax.Expr, k: relax.Expr, scale: float = 0.25) -> relax.Expr:
    return op.multiply(op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])), number(scale))


@case("attention_added_mask", HEADS, HEADS, HEADS, (2, 1, 1, 6))
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr, mask: relax.Expr) -> Any:
    return op.matmul(op.nn.softmax(op.add(_scores(q, k), mask)), v)


@case("attention_causal_selected", HEADS, HEADS, HEADS)
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr) -> Any:
    causal = relax.const(np.tri(6, dtype=bool)[None, None])
    return op.matmul(op.nn.softmax(op.where(causal, _scores(q, k), number(-3.4028234663852886e38))), v)


@case("attention_of_joined_heads", (2, 6, 96))
def _(x: relax.Expr) -> Any:
    parts = op.split(x, 3, axis=2)
    q, k, v = (op.permute_dims(op.reshape(parts[index], (2, 6, 4, 8)), [0, 2, 1, 3]) for index in range(3))
    mixed = op.matmul(op.nn.softmax(_scores(q, k)), v)
    flat = op.reshape(op.permute_dims(mixed, [0, 2, 1, 3]), (2, 6, 32))
    return op.add(op.matmul(flat, const(32, 16)), const(16))


@case("attention_other_depth_and_length", (3, 5, 8), (3, 7, 8), (3, 7, 4))
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr) -> Any:
    return op.matmul(op.nn.softmax(op.matmul(q, op.permute_dims(k, [0, 2, 1]))), v)


@case("attention_scores_used_again", HEADS, HEADS, HEADS)
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr) -> Any:
    weights = op.nn.softmax(_scores(q, k))
    return op.matmul(weights, v), weights


@case("attention_repeated_heads", HEADS, (2, 2, 6, 8), (2, 2, 6, 8))
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr) -> Any:
    def repeated(x: relax.Expr) -> relax.Expr:
        return op.reshape(op.broadcast_to(op.expand_dims(x, 2), (2, 2, 2, 6, 8)), HEADS)

    return op.matmul(op.nn.softmax(_scores(q, repeated(k))), repeated(v))


@case("attention_long", (1, 2, 300, 16), (1, 2, 700, 16), (1, 2, 700, 16))
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr) -> Any:
    return op.matmul(op.nn.softmax(_scores(q, k)), v)


POSITIONS: Shape = (2, 6, 4, 8)
unary("attention_op", op.nn.attention, POSITIONS, POSITIONS, POSITIONS)
unary("attention_op_bias", op.nn.attention, POSITIONS, (2, 5, 4, 8), (2, 5, 4, 8), (2, 4, 6, 5), scale=0.5)
unary("attention_op_causal", op.nn.attention, POSITIONS, POSITIONS, POSITIONS, causal_mask="TopLeft")
unary(
    "attention_op_causal_lower", op.nn.attention, (2, 3, 4, 8), POSITIONS, POSITIONS,
    causal_mask="BottomRight",
)  # fmt: skip


unary(
    "attention_op_causal_lower_tall", op.nn.attention, (1, 400, 1, 4), (1, 3, 1, 4), (1, 3, 1, 4),
    causal_mask="BottomRight",
)  # fmt: skip


@case("attention_of_a_flat_stack", HEADS, HEADS, HEADS)
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr) -> Any:
    """As PyTorch's core operators have it: the factor on both sides, one axis for batches and heads."""
    keys = op.multiply(op.permute_dims(k, [0, 1, 3, 2]), number(0.5))
    scores = op.matmul(op.reshape(op.multiply(q, number(0.5)), (8, 6, 8)), op.reshape(keys, (8, 8, 6)))
    weights = guarded_softmax(op.reshape(scores, (2, 4, 6, 6)))
    mixed = op.matmul(op.reshape(weights, (8, 6, 6)), op.reshape(v, (8, 6, 8)))
    return op.reshape(mixed, (2, 4, 6, 8))


@case("attention_that_sees_nothing", HEADS, HEADS, HEADS, (2, 1, 6, 1), (2, 1, 6, 6))
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr, rows: relax.Expr, some: relax.Expr) -> Any:
    """Whole rows are hidden, and of others a part."""
    nothing = number(-np.inf)
    mask = op.where(op.less(rows, number(0.0)), nothing, op.where(op.less(some, number(-1.0)), nothing, some))
    return op.matmul(guarded_softmax(op.add(_scores(q, k), mask)), v)


@case("stacks_flattened_differently", (2, 3, 4, 5), (3, 2, 5, 4))
def _(x: relax.Expr, y: relax.Expr) -> Any:
    return op.matmul(op.reshape(x, (6, 4, 5)), op.reshape(y, (6, 5, 4)))


@case("stacks_flattened_with_rows", (2, 3, 4, 5), (2, 3, 5, 4))
def _(x: relax.Expr, y: relax.Expr) -> Any:
    return op.matmul(op.reshape(x, (2, 12, 5)), op.reshape(op.permute_dims(y, [0, 2, 1, 3]), (2, 5, 12)))


@case("guarded_otherwise", (4, 5, 3), (4, 5, 1))
def _(x: relax.Expr, mask: relax.Expr) -> Any:
    """Nothing is the largest finite number here, and the guard does not hold it for a softmax of `x`."""
    scores = hidden(x, mask)
    unseen = op.logical_not(_any(op.logical_not(op.equal(scores, number(-np.inf))), -1))
    return op.where(unseen, number(0.0), op.nn.softmax(x))
