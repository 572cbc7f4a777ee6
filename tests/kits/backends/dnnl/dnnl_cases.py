"""Small graphs that cover what oneDNN claims: ops over extents, strides, paddings and layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

__all__ = ["CASES", "Case", "Shape", "case", "const", "module_of", "norm"]

Shape = tuple[int, ...]
Make = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, and what its inputs look like.

    Attributes
    ----------
    name
        Also the name of the function.
    shapes
        The inputs.
    make
        From the inputs to the result, or to a tuple of results.
    positive
        Whether the inputs have to be positive.
    """

    name: str
    shapes: tuple[Shape, ...]
    make: Make
    positive: bool = False

    def inputs(self) -> list[np.ndarray]:
        """Seeded arguments."""
        rng = np.random.default_rng(len(self.name))
        values = [rng.standard_normal(shape).astype("float32") for shape in self.shapes]
        return [np.abs(value) + 0.1 if self.positive else value for value in values]


CASES: list[Case] = []


def case(name: str, *shapes: Shape, positive: bool = False) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        CASES.append(Case(name, shapes, make, positive))
        return make

    return register


def const(*shape: int, seed: int = 7, scale: float = 0.3, shift: float = 0.0) -> relax.Expr:
    values = np.random.default_rng(seed).standard_normal(shape) * scale + shift
    return relax.const(values.astype("float32"))


def module_of(cases: list[Case]) -> tvm.IRModule:
    """One function a case."""
    builder = relax.BlockBuilder()
    for each in cases:
        params = [
            relax.Var(f"x{index}", relax.TensorType(shape, "float32"))
            for index, shape in enumerate(each.shapes)
        ]
        with builder.function(each.name, params):
            with builder.dataflow():
                result = each.make(*params)
                if isinstance(result, tuple):
                    result = relax.Tuple([builder.emit(part) for part in result])
                output = builder.emit_output(result)
            builder.emit_func_output(output)
    return builder.finalize()


# --- convolutions


def _conv(name: str, data: Shape, kernel: Shape, **attrs: object) -> None:
    CASES.append(Case(f"conv2d_{name}", (data,), lambda x: op.nn.conv2d(x, const(*kernel), **attrs)))


_conv("3x3", (1, 3, 9, 9), (16, 3, 3, 3))
_conv("padded", (2, 16, 9, 9), (32, 16, 3, 3), padding=1)
_conv("asymmetric_padding", (1, 16, 9, 8), (16, 16, 3, 3), padding=(0, 1, 2, 1))
_conv("strided", (1, 16, 11, 10), (16, 16, 3, 3), strides=(2, 3), padding=1)
_conv("dilated", (1, 16, 12, 12), (16, 16, 3, 3), dilation=(2, 3), padding=2)
_conv("grouped", (1, 32, 8, 8), (64, 8, 3, 3), groups=4, padding=1)
_conv("grouped_odd_channels", (1, 12, 8, 8), (20, 3, 3, 3), groups=4, padding=1)
_conv("depthwise", (1, 24, 8, 8), (24, 1, 3, 3), groups=24, padding=1)
_conv("depthwise_multiplier", (1, 8, 8, 8), (16, 1, 3, 3), groups=8, padding=1)
_conv("pointwise", (3, 17, 5, 5), (19, 17, 1, 1))
_conv("kernel_as_large_as_data", (1, 8, 5, 5), (4, 8, 5, 5))
_conv("one_channel", (1, 1, 6, 6), (1, 1, 3, 3))
_conv("nhwc", (1, 9, 9, 16), (16, 16, 3, 3), padding=1, data_layout="NHWC")
_conv("nhwc_hwio", (2, 9, 9, 16), (3, 3, 16, 32), padding=1, data_layout="NHWC", kernel_layout="HWIO")


@case("conv2d_kernel_is_an_input", (1, 16, 8, 8), (16, 16, 3, 3))
def _(x: relax.Expr, w: relax.Expr) -> Any:
    return op.nn.conv2d(x, w, padding=1)


@case("conv1d", (2, 16, 20))
def _(x: relax.Expr) -> Any:
    return op.nn.conv1d(x, const(8, 16, 5), strides=2, padding=2)


@case("conv3d", (1, 8, 6, 7, 8))
def _(x: relax.Expr) -> Any:
    return op.nn.conv3d(x, const(8, 8, 3, 3, 3), padding=1)


@case("conv2d_transpose", (1, 8, 6, 6))
def _(x: relax.Expr) -> Any:
    return op.nn.conv2d_transpose(x, const(8, 12, 3, 3), strides=(2, 2), padding=(1, 1))


@case("conv2d_transpose_output_padding", (1, 8, 6, 6))
def _(x: relax.Expr) -> Any:
    return op.nn.conv2d_transpose(
        x, const(8, 12, 3, 3), strides=(2, 2), padding=(1, 1), output_padding=(1, 1)
    )


@case("conv2d_transpose_grouped_bias_relu", (2, 8, 6, 6))
def _(x: relax.Expr) -> Any:
    y = op.nn.conv2d_transpose(x, const(8, 6, 3, 3), strides=(2, 2), groups=2)
    return op.nn.relu(op.add(y, const(1, 12, 1, 1)))


# --- products


def _matmul(name: str, left: Shape, right: Shape) -> None:
    CASES.append(Case(f"matmul_{name}", (left, right), op.matmul))


_matmul("plain", (5, 7), (7, 3))
_matmul("batched", (2, 3, 5, 7), (2, 3, 7, 4))
_matmul("broadcast_left", (5, 7), (3, 7, 4))
_matmul("broadcast_both", (2, 1, 5, 7), (3, 7, 4))
_matmul("stack_times_matrix", (2, 5, 7), (7, 4))
_matmul("vector_left", (7,), (7, 4))
_matmul("vector_left_of_stack", (7,), (3, 7, 4))
_matmul("vector_right", (2, 5, 7), (7,))


@case("matmul_constant_bias_relu", (4, 32))
def _(x: relax.Expr) -> Any:
    return op.nn.relu(op.add(op.matmul(x, const(32, 10)), const(10)))


@case("matmul_transposed_constant_gelu", (4, 32))
def _(x: relax.Expr) -> Any:
    return op.nn.gelu(op.add(op.matmul(x, op.permute_dims(const(10, 32))), const(10)))


@case("matmul_transposed_inputs", (6, 4), (5, 6))
def _(x: relax.Expr, y: relax.Expr) -> Any:
    return op.matmul(op.permute_dims(x), op.permute_dims(y))


@case("matmul_stack_bias_residual", (2, 5, 8), (2, 5, 6))
def _(x: relax.Expr, y: relax.Expr) -> Any:
    return op.add(op.add(op.matmul(x, const(8, 6)), const(6)), y)


@case("attention", (2, 4, 8, 16), (2, 4, 8, 16), (2, 4, 8, 16))
def _(q: relax.Expr, k: relax.Expr, v: relax.Expr) -> Any:
    scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2]))
    weights = op.nn.softmax(op.multiply(scores, relax.const(0.25, "float32")), axis=-1)
    return op.matmul(weights, v)


# --- pooling


def _pool(name: str, make: Callable[..., relax.Expr], shape: Shape, **attrs: object) -> None:
    CASES.append(Case(name, (shape,), lambda x: make(x, **attrs)))


_pool("max_pool2d", op.nn.max_pool2d, (1, 16, 9, 9), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
_pool("max_pool2d_ceil", op.nn.max_pool2d, (1, 16, 8, 8), pool_size=(3, 3), strides=(2, 2), ceil_mode=True)
_pool("max_pool2d_uneven", op.nn.max_pool2d, (1, 5, 8, 8), pool_size=(3, 2), padding=(0, 0, 1, 1))
_pool("max_pool2d_dilated", op.nn.max_pool2d, (1, 16, 9, 9), pool_size=(3, 3), dilation=(2, 2))
_pool("max_pool2d_nhwc", op.nn.max_pool2d, (1, 9, 9, 6), pool_size=(3, 3), strides=(2, 2), layout="NHWC")
_pool("max_pool1d", op.nn.max_pool1d, (2, 6, 11), pool_size=3, strides=2)
_pool("max_pool3d", op.nn.max_pool3d, (1, 6, 6, 6, 6), pool_size=(2, 2, 2), strides=(2, 2, 2))
_pool("avg_pool2d", op.nn.avg_pool2d, (1, 16, 9, 9), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
_pool(
    "avg_pool2d_with_padding", op.nn.avg_pool2d, (1, 16, 9, 9),
    pool_size=(3, 3), padding=(1, 1), count_include_pad=True,
)  # fmt: skip
_pool("avg_pool2d_asymmetric", op.nn.avg_pool2d, (1, 4, 9, 9), pool_size=(3, 3), padding=(0, 1, 2, 1))
_pool("avg_pool2d_ceil", op.nn.avg_pool2d, (1, 4, 9, 7), pool_size=(2, 2), strides=(2, 2), ceil_mode=True)
_pool(
    "avg_pool2d_ceil_of_all", op.nn.avg_pool2d, (1, 4, 8, 7),
    pool_size=(3, 4), strides=(2, 3), ceil_mode=True, count_include_pad=True,
)  # fmt: skip
_pool(
    "avg_pool2d_ceil_without_padding", op.nn.avg_pool2d, (1, 4, 9, 7),
    pool_size=(3, 4), strides=(2, 3), padding=(1, 1), ceil_mode=True,
)  # fmt: skip
_pool("avg_pool3d_channels", op.nn.avg_pool3d, (1, 1, 8, 5, 5), pool_size=(5, 1, 1), padding=(2, 0, 0),
      count_include_pad=True)  # fmt: skip
_pool("adaptive_avg_pool2d_global", op.nn.adaptive_avg_pool2d, (2, 16, 7, 5), output_size=(1, 1))
_pool("adaptive_avg_pool2d_even", op.nn.adaptive_avg_pool2d, (2, 16, 8, 6), output_size=(4, 3))
_pool("mean_over_image", op.mean, (2, 16, 7, 5), axis=[2, 3])
_pool("mean_over_image_kept", op.mean, (2, 16, 7, 5), axis=[2, 3], keepdims=True)
_pool("mean_of_single_numbers", op.mean, (3, 1, 4), axis=[1])
_pool("max_of_a_single_number", op.max, (1, 1, 1, 1), axis=[0])
_pool("mean_last_axis", op.mean, (2, 4, 6), axis=[-1], keepdims=True)
_pool("sum_middle", op.sum, (2, 4, 6), axis=[1])
_pool("max_two_axes", op.max, (2, 4, 6, 3), axis=[0, 3])
_pool("min_first", op.min, (5, 4), axis=[0])

# --- element-wise functions

for _name in ("exp", "tanh", "sigmoid", "abs", "negative", "square"):
    CASES.append(Case(f"function_{_name}", ((2, 3, 4),), getattr(op, _name)))
for _name in ("relu", "gelu", "gelu_tanh", "silu"):
    CASES.append(Case(f"function_{_name}", ((2, 19),), getattr(op.nn, _name)))
for _name in ("log", "sqrt", "rsqrt"):
    CASES.append(Case(f"function_{_name}", ((3, 5),), getattr(op, _name), positive=True))
for _name, _exponent in (("half", 0.5), ("square", 2.0), ("inverse", -1.0), ("three_quarters", 0.75)):
    CASES.append(
        Case(f"power_{_name}", ((3, 5),), lambda x, e=_exponent: op.power(x, relax.const(e, "float32")), True)
    )


@case("leaky_relu", (4, 5))
def _(x: relax.Expr) -> Any:
    return op.nn.leakyrelu(x, 0.2)


@case("clip", (4, 5))
def _(x: relax.Expr) -> Any:
    return op.clip(x, -0.5, 1)


@case("clip_open", (4, 5))
def _(x: relax.Expr) -> Any:
    return op.clip(x, 0.25, float("inf"))


# --- arithmetic

for _name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
    _make = getattr(op, _name)
    CASES.append(Case(f"{_name}_same", ((2, 3, 4), (2, 3, 4)), _make, positive=True))
    CASES.append(Case(f"{_name}_right_smaller", ((2, 3, 4), (3, 1)), _make, positive=True))
    CASES.append(Case(f"{_name}_left_smaller", ((3, 1), (2, 3, 4)), _make, positive=True))
    CASES.append(Case(f"{_name}_both_smaller", ((2, 1, 4), (1, 3, 1)), _make, positive=True))
    CASES.append(
        Case(
            f"{_name}_number", ((3, 4),), lambda x, m=_make: m(x, relax.const(1.7, "float32")), positive=True
        )
    )
    CASES.append(
        Case(
            f"number_{_name}", ((3, 4),), lambda x, m=_make: m(relax.const(1.7, "float32"), x), positive=True
        )
    )


@case("square_by_multiply", (3, 4))
def _(x: relax.Expr) -> Any:
    return op.multiply(x, x)


@case("number_of_higher_rank", (3,))
def _(x: relax.Expr) -> Any:
    return op.add(x, relax.const(np.full((1, 1, 1), 2.5, "float32")))


# --- normalisation


def norm(x: relax.Expr, channels: int, axis: int = 1) -> relax.Expr:
    return op.nn.batch_norm(
        x,
        const(channels, seed=1, shift=1.0),
        const(channels, seed=2),
        const(channels, seed=3),
        const(channels, seed=4, scale=0.05, shift=1.0),
        axis=axis,
        training=False,
    )[0]


@case("batch_norm", (2, 6, 5, 5))
def _(x: relax.Expr) -> Any:
    return norm(x, 6)


@case("batch_norm_last_axis", (2, 5, 5, 6))
def _(x: relax.Expr) -> Any:
    return norm(x, 6, axis=3)


@case("batch_norm_scaled_shifted_relu", (2, 6, 5, 5))
def _(x: relax.Expr) -> Any:
    y = op.add(op.multiply(norm(x, 6), const(1, 6, 1, 1)), const(1, 6, 1, 1, seed=8))
    return op.nn.relu(y)


@case("scale_shift_relu", (1, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    pooled = op.nn.max_pool2d(x, (2, 2))
    return op.nn.relu(op.subtract(op.multiply(pooled, const(1, 16, 1, 1)), const(1, 16, 1, 1, seed=8)))


@case("layer_norm", (2, 5, 12))
def _(x: relax.Expr) -> Any:
    return op.nn.layer_norm(x, const(12, shift=1.0), const(12, seed=8), axes=[-1])


@case("softmax_last", (3, 10))
def _(x: relax.Expr) -> Any:
    return op.nn.softmax(x)


@case("softmax_channels", (2, 5, 4, 4))
def _(x: relax.Expr) -> Any:
    return op.nn.softmax(x, axis=1)


@case("log_softmax", (3, 10))
def _(x: relax.Expr) -> Any:
    return op.nn.log_softmax(x)


@case("lrn", (1, 24, 6, 6))
def _(x: relax.Expr) -> Any:
    return lrn(op.nn.relu(op.nn.conv2d(x, const(32, 24, 1, 1))), 1e-2, 0.75, 5)


@case("lrn_other_exponent", (1, 8, 6, 6))
def _(x: relax.Expr) -> Any:
    return lrn(x, 1e-1, 0.6, 3)


@case("almost_lrn", (1, 8, 6, 6))
def _(x: relax.Expr) -> Any:
    """The sum divides something else than what was squared."""
    return op.divide(op.nn.relu(x), lrn_divisor(x, 1e-1, 0.75, 3))


def lrn_divisor(x: relax.Expr, alpha: float, beta: float, size: int) -> relax.Expr:
    half = size // 2
    mean = op.nn.avg_pool3d(
        op.expand_dims(op.multiply(x, x), 1),
        (size, 1, 1),
        padding=(half, 0, 0, half, 0, 0),
        count_include_pad=True,
    )
    scaled = op.multiply(op.squeeze(mean, [1]), relax.const(alpha, "float32"))
    return op.power(op.add(scaled, relax.const(1.0, "float32")), relax.const(beta, "float32"))


def lrn(x: relax.Expr, alpha: float, beta: float, size: int) -> relax.Expr:
    x = relax.BlockBuilder.current().emit(x)
    return op.divide(x, lrn_divisor(x, alpha, beta, size))
