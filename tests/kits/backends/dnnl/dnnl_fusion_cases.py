"""Small graphs of what moves values, of ops that are fused, and of several results."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax import op

from kits.backends.dnnl.dnnl_cases import CASES, case, const, norm

__all__ = ["CASES"]


# --- shapes


@case("reshape", (2, 3, 4))
def _(x: relax.Expr) -> Any:
    return op.reshape(x, (4, 6))


@case("flatten_after_conv", (2, 3, 6, 6))
def _(x: relax.Expr) -> Any:
    return op.flatten(op.nn.conv2d(x, const(16, 3, 3, 3)))


@case("expand_and_squeeze", (2, 1, 4))
def _(x: relax.Expr) -> Any:
    return op.expand_dims(op.squeeze(op.exp(x), [1]), [0, 3])


@case("permute", (2, 3, 4))
def _(x: relax.Expr) -> Any:
    return op.permute_dims(op.exp(x), [2, 0, 1])


@case("permute_all", (2, 3, 4))
def _(x: relax.Expr) -> Any:
    return op.permute_dims(x)


@case("channel_shuffle", (1, 3, 6, 6))
def _(x: relax.Expr) -> Any:
    y = op.nn.conv2d(x, const(32, 3, 1, 1))
    y = op.reshape(op.permute_dims(op.reshape(y, (1, 4, 8, 6, 6)), [0, 2, 1, 3, 4]), (1, 32, 6, 6))
    return op.nn.conv2d(y, const(32, 1, 3, 3), groups=32)


@case("broadcast_to", (3, 1))
def _(x: relax.Expr) -> Any:
    return op.exp(op.broadcast_to(x, (2, 3, 4)))


def _branches(x: relax.Expr, widths: tuple[int, ...], channels: int) -> list[relax.Expr]:
    emit = relax.BlockBuilder.current().emit
    return [emit(op.nn.conv2d(x, const(width, channels, 1, 1, seed=width))) for width in widths]


@case("concat_channels", (1, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    return op.nn.relu(op.concat(_branches(x, (16, 32, 20), 16), axis=1))


@case("concat_channels_odd", (1, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    return op.nn.relu(op.concat(_branches(x, (3, 16, 5), 16), axis=1))


@case("concat_channels_batch", (3, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    return op.nn.relu(op.concat(_branches(x, (16, 32), 16), axis=1))


@case("concat_of_input_and_computed", (1, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    return op.concat((x, *_branches(x, (16,), 16), x), axis=1)


@case("concat_same_twice", (1, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    (y,) = _branches(x, (16,), 16)
    return op.concat((y, y), axis=1)


@case("concat_used_again", (1, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    a, b = _branches(x, (16, 32), 16)
    joined = relax.BlockBuilder.current().emit(op.concat((a, b), axis=1))
    return op.add(op.nn.conv2d(joined, const(16, 48, 1, 1)), a)


@case("dense_block", (1, 32, 6, 6))
def _(x: relax.Expr) -> Any:
    emit = relax.BlockBuilder.current().emit
    features = emit(op.nn.conv2d(x, const(32, 16, 1, 1), groups=2))  # so that channels are in blocks
    for step in range(3):
        y = op.nn.relu(norm(features, 32 + 16 * step))
        y = emit(op.nn.conv2d(y, const(16, 32 + 16 * step, 3, 3, seed=step, scale=0.1), padding=1))
        features = emit(op.concat((features, y), axis=1))
    return features


@case("concat_rows", (2, 3), (4, 3))
def _(x: relax.Expr, y: relax.Expr) -> Any:
    return op.concat((x, op.exp(y)), axis=0)


@case("concat_last", (2, 3, 4), (2, 3, 2))
def _(x: relax.Expr, y: relax.Expr) -> Any:
    return op.concat((x, y), axis=-1)


# --- fusion


def _convolved(x: relax.Expr, seed: int = 7) -> relax.Expr:
    y = op.nn.conv2d(x, const(16, 16, 3, 3, seed=seed, scale=0.1), padding=1)
    return op.add(y, const(1, 16, 1, 1, seed=seed))


@case("conv_bias_relu", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    return op.nn.relu(_convolved(x))


@case("conv_bias_chain", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    y = op.multiply(op.clip(_convolved(x), -1, 1), const(1, 16, 1, 1))
    return op.sigmoid(op.subtract(y, relax.const(0.5, "float32")))


@case("conv_bias_added_first", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    return op.add(const(1, 16, 1, 1), op.nn.conv2d(x, const(16, 16, 1, 1)))


@case("conv_subtracted_from_input", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    return op.subtract(x, _convolved(x))


@case("conv_divided_by_input", (1, 16, 6, 6), positive=True)
def _(x: relax.Expr) -> Any:
    return op.divide(_convolved(x), x)


@case("conv_divides_input", (1, 16, 6, 6), positive=True)
def _(x: relax.Expr) -> Any:
    return op.divide(x, op.add(op.abs(_convolved(x)), relax.const(1.0, "float32")))


@case("residual_block", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    emit = relax.BlockBuilder.current().emit
    a = emit(op.nn.relu(_convolved(x)))
    b = emit(op.nn.relu(_convolved(a, 8)))
    c = emit(op.nn.relu(op.add(_convolved(b, 9), a)))
    d = emit(op.nn.relu(op.add(_convolved(c, 10), _convolved(b, 11))))
    return op.nn.relu(op.add(c, _convolved(d, 12)))


@case("residual_used_later", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    emit = relax.BlockBuilder.current().emit
    a = emit(op.nn.relu(_convolved(x)))
    b = emit(op.add(_convolved(x, 8), a))
    return op.multiply(b, a)


@case("residual_is_the_operand", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    a = relax.BlockBuilder.current().emit(_convolved(x))
    return op.nn.relu(op.add(_convolved(a, 8), a))


@case("residual_view_of_the_operand", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    a = relax.BlockBuilder.current().emit(_convolved(x))
    view = op.reshape(op.reshape(a, (16, 36)), (1, 16, 6, 6))
    return op.nn.relu(op.add(_convolved(a, 8), view))


@case("conv_times_spatial_mask", (1, 16, 6, 6), (1, 1, 6, 6))
def _(x: relax.Expr, mask: relax.Expr) -> Any:
    return op.multiply(_convolved(x), mask)


@case("squeeze_and_excite", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    emit = relax.BlockBuilder.current().emit
    y = emit(_convolved(x))
    gate = op.sigmoid(op.nn.conv2d(op.mean(y, [2, 3], keepdims=True), const(16, 16, 1, 1)))
    return op.multiply(y, gate)


@case("scalar_factor_twice", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    y = op.add(op.multiply(x, relax.const(3.0, "float32")), relax.const(1.0, "float32"))
    return op.multiply(y, relax.const(0.5, "float32"))


# --- several results


@case("two_results", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    a = relax.BlockBuilder.current().emit(op.nn.relu(_convolved(x)))
    return a, op.nn.max_pool2d(a, (2, 2))


@case("result_and_its_view", (2, 3, 4))
def _(x: relax.Expr) -> Any:
    a = relax.BlockBuilder.current().emit(op.exp(x))
    return a, op.reshape(a, (6, 4)), op.permute_dims(a)


@case("part_of_a_concat_is_a_result", (1, 16, 5, 5))
def _(x: relax.Expr) -> Any:
    a, b = _branches(x, (16, 16), 16)
    return a, op.concat((a, b), axis=1)


@case("result_is_added_to_later", (1, 16, 6, 6))
def _(x: relax.Expr) -> Any:
    a = relax.BlockBuilder.current().emit(_convolved(x))
    return a, op.nn.relu(op.add(_convolved(x, 8), a))


@case("view_of_input", (2, 3, 4))
def _(x: relax.Expr) -> Any:
    return op.reshape(x, (3, 8)), op.exp(x)
