"""Arithmetic with constants goes into the weight before it, or collapses; the numbers stay the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.passes.preparation.preparation_kit import (
    becomes,
    constant,
    constants,
    module,
    ops,
    prepare,
    run,
    stays,
    values,
)
from tvm import relax

import annotated_region as ar

op = relax.op
Body = Callable[..., relax.Expr]
CHANNELS = (1, 4, 1, 1)


def conv(x: relax.Expr, seed: int = 0, **attrs: object) -> relax.Expr:
    return op.nn.conv2d(x, constant(4, 3, 3, 3, seed=seed), **attrs)


def on_image(body: Body) -> tvm.IRModule:
    return module(lambda _builder, x: body(x), x=(1, 3, 6, 6))


def assert_same_numbers(before: tvm.IRModule, *arrays: np.ndarray) -> tvm.IRModule:
    after = prepare(before)
    for now, then in zip(run(after, *arrays), run(before, *arrays), strict=True):
        np.testing.assert_allclose(now, then, rtol=1e-5, atol=1e-5)
    return after


AFTER_CONV: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "a scale": lambda x: op.multiply(x, constant(*CHANNELS, seed=1)),
    "a scale on the left": lambda x: op.multiply(constant(*CHANNELS, seed=1), x),
    "a scale of lower rank": lambda x: op.multiply(x, constant(4, 1, 1, seed=1)),
    "one number": lambda x: op.multiply(x, relax.const(0.3)),
    "a quotient": lambda x: op.divide(x, constant(*CHANNELS, seed=1)),
}


@pytest.mark.parametrize("name", AFTER_CONV)
def test_a_scale_goes_into_the_weight(name: str) -> None:
    before = on_image(lambda x: op.nn.relu(AFTER_CONV[name](conv(x))))
    after = assert_same_numbers(before, values(1, 3, 6, 6))
    assert ops(after) == {"nn.conv2d": 1, "nn.relu": 1}


def test_the_weight_is_the_product_to_the_last_bit() -> None:
    factors = values(4, seed=1)
    before = on_image(lambda x: op.multiply(conv(x), relax.const(factors.reshape(CHANNELS))))
    product = values(4, 3, 3, 3) * factors.reshape(4, 1, 1, 1)
    becomes(before, on_image(lambda x: op.nn.conv2d(x, relax.const(product))))


BIASES = [(1, 4, 1, 1), (4, 1, 1), (1, 1, 1), (1,), ()]


@pytest.mark.parametrize("shape", BIASES)
def test_a_bias_stands_on_the_right_with_one_number_a_channel(shape: tuple[int, ...]) -> None:
    bias = values(*shape, seed=1)
    full = relax.const(np.broadcast_to(bias, CHANNELS).copy())
    expected = on_image(lambda x: op.add(conv(x), full))
    becomes(on_image(lambda x: op.add(conv(x), relax.const(bias))), expected)
    becomes(on_image(lambda x: op.add(relax.const(bias), conv(x))), expected)
    becomes(on_image(lambda x: op.subtract(conv(x), relax.const(-bias))), expected)


def test_the_normal_form_stays() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var, shortcut: relax.Var) -> relax.Expr:
        biased = builder.emit(op.add(conv(x), constant(*CHANNELS)))
        return op.nn.relu(op.add(biased, shortcut))

    stays(module(body, x=(1, 3, 6, 6), shortcut=(1, 4, 4, 4)))


def test_a_whole_chain_becomes_weight_and_bias() -> None:
    def chain(x: relax.Expr) -> relax.Expr:
        x = op.add(conv(x), constant(*CHANNELS, seed=1))
        x = op.divide(op.subtract(x, constant(4, 1, 1, seed=2)), constant(*CHANNELS, seed=3))
        return op.nn.relu(op.add(op.multiply(x, relax.const(0.5)), constant(*CHANNELS, seed=4)))

    after = assert_same_numbers(on_image(chain), values(1, 3, 6, 6))
    assert ops(after) == {"nn.conv2d": 1, "add": 1, "nn.relu": 1}
    assert [array.shape for array in constants(after)] == [(4, 3, 3, 3), CHANNELS]


def test_a_bias_that_cancels_goes() -> None:
    before = on_image(lambda x: op.subtract(op.add(conv(x), constant(*CHANNELS)), constant(*CHANNELS)))
    becomes(before, on_image(conv))


def test_a_value_read_twice_is_not_computed_twice() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        convolved = builder.emit(conv(x))
        scaled = builder.emit(op.multiply(convolved, constant(*CHANNELS)))
        return op.add(scaled, builder.emit(op.nn.relu(convolved)))

    stays(module(body, x=(1, 3, 6, 6)))


def test_a_step_read_twice_is_not_computed_twice() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        biased = builder.emit(op.add(conv(x), constant(*CHANNELS)))
        scaled = builder.emit(op.multiply(biased, constant(*CHANNELS, seed=1)))
        return op.add(scaled, builder.emit(op.nn.relu(biased)))

    stays(module(body, x=(1, 3, 6, 6)))


def test_the_readers_of_another_name_count() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        convolved = builder.emit(conv(x))
        same = builder.emit(op.reshape(convolved, (1, 4, 4, 4)))
        scaled = builder.emit(op.multiply(same, constant(*CHANNELS)))
        return op.add(scaled, builder.emit(op.nn.relu(same)))

    assert ops(prepare(module(body, x=(1, 3, 6, 6)))) == {
        "nn.conv2d": 1,
        "multiply": 1,
        "nn.relu": 1,
        "add": 1,
    }


def test_what_is_returned_as_well_stays() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        convolved = builder.emit(conv(x))
        return relax.Tuple([convolved, builder.emit(op.multiply(convolved, relax.const(2.0)))])

    stays(module(body, x=(1, 3, 6, 6)))


NOT_PER_CHANNEL = [(1, 1, 4, 1), (4,), (1, 4, 4, 1), (1, 4, 4, 4)]


@pytest.mark.parametrize("shape", NOT_PER_CHANNEL)
def test_what_varies_in_space_stays(shape: tuple[int, ...]) -> None:
    stays(on_image(lambda x: op.multiply(conv(x), constant(*shape))))
    stays(on_image(lambda x: op.add(conv(x), constant(*shape))))


def test_what_broadcasts_the_result_stays() -> None:
    stays(on_image(lambda x: op.multiply(conv(x), constant(2, 4, 1, 1))))


def test_a_weight_that_is_an_input_stays() -> None:
    stays(
        module(
            lambda _builder, x, w: op.multiply(op.nn.conv2d(x, w), constant(*CHANNELS)),
            x=(1, 3, 6, 6),
            w=(4, 3, 3, 3),
        )
    )


def test_integers_stay() -> None:
    weight = relax.const(np.ones((4, 3, 3, 3), "int32"), "int32")
    two = relax.const(2, "int32")
    stays(module(lambda _b, x: op.multiply(op.nn.conv2d(x, weight), two), "int32", x=(1, 3, 6, 6)))


def test_a_product_that_overflows_stays() -> None:
    weight = relax.const(np.full((4, 3, 3, 3), 1e38, "float32"))
    stays(on_image(lambda x: op.multiply(op.nn.conv2d(x, weight), relax.const(100.0))))


def test_a_sum_that_overflows_stays() -> None:
    large = relax.const(np.full(4, 60000, "float16"))

    def too_much(x: relax.Expr) -> relax.Expr:
        return op.multiply(op.add(op.add(x, large), large), large)

    stays(module(lambda _builder, x: too_much(x), "float16", x=(2, 4)))
    weight = constant(3, 4, dtype="float16")
    stays(module(lambda _builder, x: too_much(op.matmul(x, weight)), "float16", x=(2, 3)))


def test_a_division_by_zero_stays() -> None:
    stays(on_image(lambda x: op.divide(conv(x), relax.const(np.zeros(CHANNELS, "float32")))))


LAYERS: dict[str, tuple[Body, tuple[int, ...], tuple[int, ...]]] = {
    "grouped": (lambda x: op.nn.conv2d(x, constant(6, 2, 3, 3), groups=2), (1, 4, 5, 5), (1, 6, 1, 1)),
    "depthwise": (lambda x: op.nn.conv2d(x, constant(4, 1, 3, 3), groups=4), (1, 4, 5, 5), (1, 4, 1, 1)),
    "NHWC": (
        lambda x: op.nn.conv2d(x, constant(3, 3, 2, 5), data_layout="NHWC", kernel_layout="HWIO"),
        (1, 5, 5, 2),
        (1, 1, 1, 5),
    ),
    "1d": (lambda x: op.nn.conv1d(x, constant(4, 3, 3)), (1, 3, 7), (1, 4, 1)),
    "3d": (lambda x: op.nn.conv3d(x, constant(4, 3, 2, 2, 2)), (1, 3, 4, 4, 4), (1, 4, 1, 1, 1)),
    "transposed": (lambda x: op.nn.conv2d_transpose(x, constant(3, 4, 2, 2)), (1, 3, 4, 4), (1, 4, 1, 1)),
    "matmul": (lambda x: op.matmul(x, constant(3, 4)), (2, 3), (4,)),
    "batched matmul": (lambda x: op.matmul(x, constant(3, 4)), (2, 5, 3), (4,)),
    "matmul of batches": (lambda x: op.matmul(x, constant(2, 3, 4)), (2, 5, 3), (4,)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_scale_and_bias_of_every_layer_fold(name: str) -> None:
    layer, shape, bias_shape = LAYERS[name]

    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        scaled = op.multiply(layer(x), constant(*bias_shape, seed=1))
        return op.multiply(op.add(scaled, constant(*bias_shape, seed=2)), relax.const(0.5))

    after = assert_same_numbers(module(body, x=shape), values(*shape))
    assert sum(ops(after).values()) == 2
    assert constants(after)[1].shape == bias_shape


def test_a_grouped_transposed_convolution_keeps_its_scale() -> None:
    weight = constant(4, 3, 2, 2)
    layer: Body = lambda x: op.nn.conv2d_transpose(x, weight, groups=2)  # noqa: E731
    stays(module(lambda _builder, x: op.multiply(layer(x), constant(1, 6, 1, 1)), x=(1, 4, 3, 3)))


def test_alpha_and_beta_of_a_gemm_fold() -> None:
    def gemm(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        product = op.matmul(op.multiply(x, relax.const(0.5)), op.permute_dims(constant(4, 3), [1, 0]))
        return op.add(product, op.multiply(constant(4), relax.const(2.0)))

    after = assert_same_numbers(module(gemm, x=(2, 3)), values(2, 3))
    assert ops(after) == {"matmul": 1, "add": 1}


def test_a_scaled_input_that_is_read_elsewhere_stays() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        scaled = builder.emit(op.multiply(x, relax.const(0.5)))
        return relax.Tuple([scaled, builder.emit(op.matmul(scaled, constant(3, 4)))])

    stays(module(body, x=(2, 3)))


def test_a_shifted_input_stays_in_front_of_the_padding() -> None:
    stays(on_image(lambda x: conv(op.add(x, relax.const(0.5)), padding=1)))


def test_without_a_layer_a_chain_is_one_multiplication_and_one_addition() -> None:
    def chain(x: relax.Expr) -> relax.Expr:
        x = op.add(op.multiply(op.nn.relu(x), constant(1, 3, 1, 1)), constant(3, 1, 1, seed=1))
        return op.nn.relu(op.add(op.multiply(x, constant(3, 1, 1, seed=2)), relax.const(0.25)))

    after = assert_same_numbers(on_image(chain), values(1, 3, 6, 6))
    assert ops(after) == {"nn.relu": 2, "multiply": 1, "add": 1}
    assert [array.shape for array in constants(after)] == [(1, 3, 1, 1)] * 2


def test_a_chain_that_would_not_get_shorter_stays() -> None:
    stays(on_image(lambda x: op.divide(op.subtract(x, constant(3, 1, 1)), constant(3, 1, 1, seed=1))))
    stays(on_image(lambda x: op.add(op.multiply(x, relax.const(2.0)), relax.const(1.0))))


def test_steps_along_different_axes_stay_apart() -> None:
    stays(on_image(lambda x: op.multiply(op.multiply(x, constant(3, 1, 1)), constant(6))))


def test_symbolic_shapes_fold() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.nn.relu(op.multiply(op.add(conv(x), constant(*CHANNELS)), constant(*CHANNELS, seed=1)))

    after = assert_same_numbers(module(body, x=("n", 3, "h", 6)), values(2, 3, 5, 6))
    assert ops(after) == {"nn.conv2d": 1, "add": 1, "nn.relu": 1}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats_fold_with_one_rounding(dtype: str) -> None:
    weight, scale = values(3, 4).astype(dtype), values(4, seed=1).astype(dtype)

    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.multiply(op.matmul(x, relax.const(weight, dtype)), relax.const(scale, dtype))

    (folded,) = constants(prepare(module(body, dtype, x=(2, 3))))
    exact = weight.astype(np.float64) * scale.astype(np.float64)
    assert folded.dtype == weight.dtype
    np.testing.assert_array_equal(folded, exact.astype(weight.dtype))


STEPS = [op.add, op.subtract, op.multiply, op.divide]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(BIASES), st.integers(0, 9)), max_size=6))
def test_any_chain_after_a_convolution_is_at_most_a_bias(
    steps: list[tuple[Body, tuple[int, ...], int]],
) -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        result = conv(x)
        for operator, shape, seed in steps:
            result = operator(result, constant(*shape, seed=seed))
        return result

    after = assert_same_numbers(module(body, x=(1, 3, 6, 6)), values(1, 3, 6, 6))
    assert ops(after)["nn.conv2d"] == 1
    assert sum(ops(after).values()) <= 2


QUOTIENTS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "alone": lambda x: op.divide(x, relax.const(41.0)),
    "of a product": lambda x: op.divide(op.multiply(x, relax.const(41.0)), relax.const(41.0)),
    "in a product": lambda x: op.multiply(op.divide(x, relax.const(41.0)), relax.const(3.0)),
    "of a sum": lambda x: op.divide(op.add(x, relax.const(41.0)), relax.const(41.0)),
    "by a vector": lambda x: op.divide(
        op.multiply(x, constant(3)), relax.const(np.array([2, 3, 41], "float32"))
    ),
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_quotient_stays_one(name: str) -> None:
    stays(module(lambda _builder, x: op.floor(QUOTIENTS[name](x)), x=(2, 3)))


def test_a_whole_quotient_stays_whole() -> None:
    numbers = np.arange(1, 1000, dtype="float32")
    for divisor in (3.0, 7.0, 41.0, 49.0, 0.1):
        body = QUOTIENTS["in a product"]
        mod = module(lambda _builder, x, body=body: op.floor(body(x)), x=(len(numbers),))
        assert_same_numbers(mod, numbers * np.float32(divisor))


def test_a_quotient_by_powers_of_two_is_a_product() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.multiply(op.divide(x, relax.const(np.array([2, -0.25, 8], "float32"))), relax.const(3.0))

    factors = relax.const(np.array([[1.5, -12, 0.375]], "float32"))
    becomes(module(body, x=(2, 3)), module(lambda _builder, x: op.multiply(x, factors), x=(2, 3)))


def test_a_batch_norm_behind_a_quotient_leaves_it_one() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        scaled = op.divide(x, relax.const(255.0))
        parameters = [constant(3, seed=seed) for seed in range(4)]
        return relax.TupleGetItem(op.nn.batch_norm(scaled, *parameters, axis=1, training=False), 0)

    assert ops(prepare(module(body, x=(1, 3, 4, 4)))) == {"divide": 1, "multiply": 1, "add": 1}


def test_what_is_folded_is_called_after_the_binding_that_it_stands_for() -> None:
    """Five convolutions with a bias and a scale, no two bindings of one name, and a pin moves one of them."""

    def chained(_builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        for seed in range(5):
            kernel = constant(3, 3, 1, 1, seed=seed)
            biased = op.add(op.nn.conv2d(x, kernel), constant(1, 3, 1, 1, seed=seed + 9))
            x = op.nn.relu(op.multiply(biased, constant(1, 3, 1, 1, seed=seed)))
        return x

    before = module(chained, x=(1, 3, 6, 6))
    after = prepare(before)
    given = [binding.var.name for block in before["main"].body.blocks for binding in block.bindings]
    names = [binding.var.name for block in after["main"].body.blocks for binding in block.bindings]
    assert len(set(names)) == len(names)
    assert all(any(name == old or name.startswith(f"{old}_") for old in given) for name in names)
    convolution = next(name for name in names if name.endswith("_scaled"))
    report = ar.explain(before, ["dnnl"], pins={convolution: "host"})
    assert [op.name for op in report.functions[0].ops if op.placed == "host"] == [convolution]
