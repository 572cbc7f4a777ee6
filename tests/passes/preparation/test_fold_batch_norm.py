"""Batch norm at inference folds; in training, or where its statistics are read, it stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import (
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

op = relax.op


def norm(x: relax.Expr, channels: int = 4, dtype: str = "float32", **attrs: Any) -> relax.Call:
    """A batch norm with four different constants; inference unless told otherwise."""
    parameters = [constant(channels, seed=seed, dtype=dtype) for seed in range(1, 5)]
    return op.nn.batch_norm(x, *parameters, **{"axis": 1, "training": False, **attrs})


def normed(x: relax.Expr, **attrs: Any) -> relax.Expr:
    return relax.TupleGetItem(norm(x, **attrs), 0)


def conv(x: relax.Expr) -> relax.Expr:
    return op.nn.conv2d(x, constant(4, 3, 3, 3))


def on_image(body: Callable[[relax.Expr], relax.Expr]) -> tvm.IRModule:
    return module(lambda _builder, x: body(x), x=(1, 3, 6, 6))


def assert_same_numbers(before: tvm.IRModule, *arrays: np.ndarray) -> tvm.IRModule:
    after = prepare(before)
    for now, then in zip(run(after, *arrays), run(before, *arrays), strict=True):
        np.testing.assert_allclose(now, then, rtol=2e-5, atol=2e-5)
    return after


BEFORE: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "a convolution": conv,
    "a convolution with a bias": lambda x: op.add(conv(x), constant(1, 4, 1, 1, seed=9)),
    "a convolution and arithmetic": lambda x: op.multiply(
        op.add(conv(x), relax.const(2.0)), relax.const(0.5)
    ),
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_batch_norm_folds_into_what_is_before_it(name: str) -> None:
    after = assert_same_numbers(on_image(lambda x: op.nn.relu(normed(BEFORE[name](x)))), values(1, 3, 6, 6))
    assert ops(after) == {"nn.conv2d": 1, "add": 1, "nn.relu": 1}
    assert constants(after)[1].shape == (1, 4, 1, 1)


def test_arithmetic_behind_it_folds_too() -> None:
    def scale_layer(x: relax.Expr) -> relax.Expr:  # as Caffe writes a batch norm
        return op.add(op.multiply(normed(conv(x)), constant(4, 1, 1, seed=7)), constant(4, 1, 1, seed=8))

    after = assert_same_numbers(on_image(scale_layer), values(1, 3, 6, 6))
    assert ops(after) == {"nn.conv2d": 1, "add": 1}


def test_without_a_layer_before_it_it_is_one_multiplication_and_one_addition() -> None:
    before = module(lambda _builder, x: op.nn.relu(normed(op.nn.relu(x))), x=(2, 4, 3, 3))
    after = assert_same_numbers(before, values(2, 4, 3, 3))
    assert ops(after) == {"nn.relu": 2, "multiply": 1, "add": 1}
    assert [array.shape for array in constants(after)] == [(1, 4, 1, 1)] * 2


@pytest.mark.parametrize("attrs", [{"center": False}, {"scale": False}, {"epsilon": 0.5}])
def test_its_attributes_count(attrs: dict[str, Any]) -> None:
    after = assert_same_numbers(on_image(lambda x: normed(conv(x), **attrs)), values(1, 3, 6, 6))
    assert ops(after) == {"nn.conv2d": 1, "add": 1}


def test_its_axis_counts() -> None:
    before = module(lambda _builder, x: normed(op.nn.relu(x), channels=3, axis=3), x=(2, 4, 5, 3))
    after = assert_same_numbers(before, values(2, 4, 5, 3))
    assert [array.shape for array in constants(after)] == [(1, 1, 1, 3)] * 2


def test_symbolic_shapes_fold() -> None:
    before = module(lambda _builder, x: op.nn.relu(normed(conv(x))), x=("n", 3, "h", "w"))
    after = assert_same_numbers(before, values(2, 3, 5, 4))
    assert ops(after) == {"nn.conv2d": 1, "add": 1, "nn.relu": 1}


def test_float16_folds_in_higher_precision() -> None:
    before = module(lambda _b, x: normed(op.nn.relu(x), dtype="float16"), "float16", x=(2, 4, 3, 3))
    scale, shift = constants(prepare(before))
    gamma, beta, mean, variance = (values(4, seed=n).astype("float16").astype("float64") for n in range(1, 5))
    exact = gamma / np.sqrt(variance + 1e-5)
    np.testing.assert_array_equal(scale.reshape(4), exact.astype("float16"))
    np.testing.assert_array_equal(shift.reshape(4), (beta - mean * exact).astype("float16"))


def test_training_mode_stays() -> None:
    stays(on_image(lambda x: normed(conv(x), training=True)))


@pytest.mark.parametrize("index", [1, 2])
def test_a_running_statistic_that_is_read_keeps_it(index: int) -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        result = builder.emit(norm(conv(x)))
        first = builder.emit(relax.TupleGetItem(result, 0))
        return relax.Tuple([first, builder.emit(relax.TupleGetItem(result, index))])

    stays(module(body, x=(1, 3, 6, 6)))


def test_a_result_that_is_read_as_a_whole_keeps_it() -> None:
    stays(on_image(lambda x: norm(conv(x))))


def test_statistics_that_only_dead_code_reads_do_not_keep_it() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        result = builder.emit(norm(conv(x)))
        builder.emit(relax.TupleGetItem(result, 1))
        return builder.emit(relax.TupleGetItem(result, 0))

    assert ops(prepare(module(body, x=(1, 3, 6, 6)))) == {"nn.conv2d": 1, "add": 1}


def test_two_readers_of_the_first_field_share_one_convolution() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        result = builder.emit(norm(conv(x)))
        first = builder.emit(relax.TupleGetItem(result, 0))
        again = builder.emit(relax.TupleGetItem(result, 0))
        return op.add(op.nn.relu(first), op.tanh(again))

    assert ops(prepare(module(body, x=(1, 3, 6, 6))))["nn.conv2d"] == 1


def test_parameters_that_are_inputs_keep_it() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var, gamma: relax.Var) -> relax.Expr:
        rest = [constant(3, seed=seed) for seed in range(3)]
        return relax.TupleGetItem(op.nn.batch_norm(x, gamma, *rest, axis=1, training=False), 0)

    stays(module(body, x=(1, 3, 6, 6), gamma=(3,)))


def test_a_negative_variance_keeps_it() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        ones, negative = relax.const(np.ones(3, "float32")), relax.const(-np.ones(3, "float32"))
        return relax.TupleGetItem(op.nn.batch_norm(x, ones, ones, ones, negative, axis=1, training=False), 0)

    stays(module(body, x=(1, 3, 6, 6)))
