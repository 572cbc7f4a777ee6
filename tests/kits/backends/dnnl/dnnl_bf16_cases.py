"""Products of two operands, and what can stand between two products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.relax import op

__all__ = [
    "BETWEEN",
    "IMAGE",
    "PRODUCTS",
    "Between",
    "Make",
    "Product",
    "Shape",
    "kernel",
    "numbers",
    "whole_numbers",
]

Make = Callable[..., relax.Expr]
Shape = tuple[int, ...]

IMAGE: Shape = (1, 16, 6, 6)
"""What goes into the first of two convolutions."""


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


def whole_numbers(*shape: int, largest: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(-largest, largest, shape, endpoint=True).astype("float32")


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products of two operands.

    Attributes
    ----------
    name
        Also of its function.
    left, right
        The shapes of the operands.
    make
        From the operands to the result.
    terms
        How many products are added up.
    """

    name: str
    left: Shape
    right: Shape
    make: Make
    terms: int


PRODUCTS = (
    Product("conv2d", (1, 32, 9, 9), (24, 32, 3, 3), lambda x, w: op.nn.conv2d(x, w, padding=1), 288),
    Product("conv2d_strided", (2, 16, 9, 9), (16, 16, 3, 3), lambda x, w: op.nn.conv2d(x, w, strides=2), 144),
    Product("conv2d_pointwise", (1, 64, 5, 5), (40, 64, 1, 1), op.nn.conv2d, 64),
    Product("conv2d_grouped", (1, 64, 8, 8), (64, 16, 3, 3), lambda x, w: op.nn.conv2d(x, w, groups=4), 144),
    Product(
        "conv2d_last",
        (1, 9, 9, 16),
        (16, 16, 3, 3),
        lambda x, w: op.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OIHW"),
        144,
    ),
    Product("conv1d", (2, 16, 20), (8, 16, 5), op.nn.conv1d, 80),
    Product("conv3d", (1, 16, 6, 6, 6), (16, 16, 3, 3, 3), op.nn.conv3d, 432),
    Product(
        "deconv2d", (1, 16, 6, 6), (16, 24, 4, 4), lambda x, w: op.nn.conv2d_transpose(x, w, strides=2), 64
    ),
    Product("matmul", (20, 96), (96, 40), op.matmul, 96),
    Product("matmul_of_one_row", (1, 640), (640, 512), op.matmul, 640),
    Product("matmul_batched", (3, 20, 48), (3, 48, 40), op.matmul, 48),
    Product("matmul_transposed", (20, 96), (40, 96), lambda x, w: op.matmul(x, op.permute_dims(w)), 96),
)


@dataclass(frozen=True, slots=True)
class Between:
    """What is computed between two convolutions of bfloat16.

    Attributes
    ----------
    name
        Also of its function.
    make
        From the result of the first convolution, (1, 16, 6, 6), to the operand of the second.
    step
        What the plan has to say of it.
    exact
        Whether small whole numbers give numbers of eight bits, so that nothing is rounded.
    """

    name: str
    make: Make
    step: str
    exact: bool = True


def pooled(x: relax.Expr) -> relax.Expr:
    """Keeps what follows out of the first convolution's chain of post-ops."""
    return op.nn.max_pool2d(x, (2, 2))


def constant(*values: float) -> relax.Expr:
    return relax.const(np.array(values, "float32").reshape(1, -1, 1, 1))


def per_channel(start: float) -> relax.Expr:
    return relax.const((np.arange(16) % 4 + start).astype("float32"))


def kernel(seed: int, inputs: int = 16) -> relax.Expr:
    """Few of the weights are not zero, so that sums stay below 256."""
    values = whole_numbers(16, inputs, 1, 1, largest=1, seed=seed)
    return relax.const(values * (np.random.default_rng(seed).random(values.shape) < 0.25))


def normalized(x: relax.Expr) -> relax.Expr:
    """Statistics that make the factor a power of two."""
    mean, variance = per_channel(0), relax.const(np.full(16, 4.0, "float32"))
    result = op.nn.batch_norm(
        x, per_channel(1), per_channel(2), mean, variance, 1, epsilon=0.0, training=False
    )
    return relax.TupleGetItem(result, 0)


ONE, NONE = relax.const(1.0, "float32"), relax.const(0, "int8")
"""A scale and a zero point that leave small whole numbers as they are."""


def in_int8(x: relax.Expr) -> relax.Expr:
    """A convolution of int8."""
    small = op.dequantize(op.quantize(x, ONE, NONE, 1, "int8"), ONE, NONE, 1)
    weights = relax.const(kernel(3).value.numpy().astype("int8"))
    return op.nn.conv2d(small, op.dequantize(weights, ONE, NONE, 0))


ROWS = whole_numbers(1, 16, 1, 5, largest=2)
"""oneDNN repeats rows of bfloat16 by reference code alone."""

BETWEEN = (
    Between("int8", in_int8, "convolution int8"),
    Between("int8_and_a_residual", lambda x: op.add(in_int8(x), x), "convolution int8"),
    Between("max_pool", pooled, "pooling bf16"),
    Between("avg_pool", lambda x: op.nn.avg_pool2d(x, (3, 3)), "pooling bf16", exact=False),
    Between("relu_in_the_chain", op.nn.relu, "convolution bf16 +eltwise"),
    Between("relu", lambda x: op.nn.relu(pooled(x)), "eltwise bf16"),
    Between("clip", lambda x: op.clip(pooled(x), -3, 6), "eltwise bf16"),
    Between("tanh", lambda x: op.tanh(pooled(x)), "eltwise bf16", exact=False),
    Between("gelu", lambda x: op.nn.gelu(pooled(x)), "eltwise bf16", exact=False),
    Between("exp", lambda x: op.exp(op.multiply(pooled(x), constant(0.125))), "exp f32", exact=False),
    Between("add", lambda x: op.add(pooled(x), op.nn.max_pool2d(x, (4, 4), padding=1)), "binary bf16"),
    Between(
        "times_image",
        lambda x: op.multiply(pooled(x), relax.const(whole_numbers(1, 1, 5, 5, largest=2))),
        "binary bf16",
    ),
    Between("times_row", lambda x: op.multiply(pooled(x), relax.const(ROWS)), "combine f32"),
    Between(
        "times_row_with_a_chain",
        lambda x: op.nn.relu(op.multiply(pooled(x), relax.const(ROWS))),
        "combine f32",
    ),
    Between("divided", lambda x: op.divide(pooled(x), constant(3.0)), "binary bf16", exact=False),
    Between("residual", lambda x: op.add(op.nn.conv2d(x, kernel(3)), x), "convolution bf16 +binary"),
    Between(
        "residual_in_place",
        lambda x: op.add(op.nn.conv2d(x, kernel(3)), op.nn.max_pool2d(x, (3, 3), padding=1)),
        "convolution bf16 +sum",
    ),
    Between(
        "residual_read_later", lambda x: op.subtract(op.add(op.nn.conv2d(x, kernel(3)), x), x), "+binary"
    ),
    Between(
        "concat",
        lambda x: op.concat((op.nn.conv2d(x, kernel(3)), op.nn.conv2d(x, kernel(4))), 1),
        "convolution bf16",
    ),
    Between(
        "concat_with_pool",
        lambda x: op.concat((op.nn.max_pool2d(x, (3, 3), padding=1), op.nn.conv2d(x, kernel(3))), 1),
        "pooling bf16",
    ),
    Between("batch_norm", lambda x: normalized(pooled(x)), "binary jit:uni bf16"),
    Between("prelu", lambda x: op.nn.prelu(pooled(x), per_channel(1)), "prelu bf16"),
    Between(
        "resized",
        lambda x: op.image.resize2d(
            x,
            (12, 12),
            layout="NCHW",
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        "resampling bf16",
    ),
    Between("largest", lambda x: op.max(x, [2, 3], keepdims=True), "bf16"),
    Between("mean", lambda x: op.mean(pooled(x), [3], keepdims=True), "bf16", exact=False),
    Between("reshaped", lambda x: op.reshape(x, (1, 16, 4, 9)), "convolution bf16"),
    Between("permuted", lambda x: op.permute_dims(pooled(x), [0, 1, 3, 2]), "convolution bf16"),
    Between("part", lambda x: op.strided_slice(x, [2], [1], [5]), "convolution bf16"),
    Between("padded", lambda x: op.nn.pad(pooled(x), (0, 0, 0, 0, 1, 1, 1, 1)), "fill"),
    Between(
        "chosen",
        lambda x: op.where(op.greater(pooled(x), constant(2.0)), pooled(x), constant(1.0)),
        "select f32",
    ),
    Between(
        "depthwise",
        lambda x: op.nn.conv2d(x, relax.const(whole_numbers(16, 1, 3, 3, largest=1)), groups=16),
        "convolution f32",
    ),
    Between(
        "softmax",
        lambda x: op.nn.softmax(op.multiply(pooled(x), constant(0.125)), 1),
        "softmax f32",
        exact=False,
    ),
    Between(
        "layer_norm",
        lambda x: op.nn.layer_norm(
            pooled(x), relax.const(np.ones(5, "float32")), relax.const(np.zeros(5, "float32")), [3]
        ),
        "layer_normalization bf16",
        exact=False,
    ),
    Between(
        "rms_norm",
        lambda x: op.nn.rms_norm(pooled(x), relax.const(np.ones(5, "float32")), [3]),
        "rms_norm bf16",
        exact=False,
    ),
)
