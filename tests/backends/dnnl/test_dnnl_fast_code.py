"""Graphs of networks for which oneDNN's first choice is reference code, or that of older processors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import answered, needs_onednn, tvm_alone
from kits.backends.dnnl.dnnl_harness import run as run_alone
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

pytestmark = needs_onednn


def numbers(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def weights(*shape: int, seed: int = 1) -> relax.Expr:
    return relax.const(numbers(*shape, seed=seed) / np.float32(np.sqrt(np.prod(shape[1:]))))


def run(make: Callable[..., relax.Expr], *given: np.ndarray) -> tuple[np.ndarray, str]:
    """What a function of one result computes, and the plan by which it does."""
    (found,), plan = answered(lambda *params: relax.Tuple([make(*params)]), *given, prepare=True)
    return found, plan


def plan_of(make: Callable[..., relax.Expr], *given: np.ndarray) -> str:
    """The plan of a function, which computes what TVM alone does."""
    params = [var(f"x{place}", each.shape) for place, each in enumerate(given)]
    found, plan = run(make, *given)
    (expected,) = run_alone(
        tvm_alone(module(params, lambda _builder: relax.Tuple([make(*params)]))), "main", given
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    return plan


def convolved(x: relax.Expr, seed: int, channels: int = 32, inner: int = 32, taps: int = 3) -> relax.Expr:
    return op.nn.conv2d(x, weights(channels, inner, taps, taps, seed=seed), padding=taps // 2)


def test_a_sum_behind_an_activation_where_channels_are_joined():
    """Of YOLO's CSP blocks, with channels in blocks."""

    def joined(x: relax.Expr) -> relax.Expr:
        y = op.nn.leakyrelu(convolved(x, 1), 0.1)
        for seed in (2, 3):
            inner = op.nn.leakyrelu(convolved(y, seed, taps=1), 0.1)
            y = op.add(y, op.nn.leakyrelu(convolved(inner, seed), 0.1))
        return convolved(op.concat([x, y], 1), 4, 32, 64, 1)

    assert "ref:" not in plan_of(joined, numbers(1, 32, 12, 12))


def test_a_scaled_product_of_a_part_is_added():
    """Of CoaT: the queries are a part of what one product makes, so that their rows are far apart."""

    def attended(x: relax.Expr, y: relax.Expr, z: relax.Expr) -> relax.Expr:
        parts = op.reshape(op.matmul(x, weights(64, 3 * 152)), (1, 50, 3, 8, 19))
        queries = op.squeeze(op.strided_slice(parts, [2], [0], [1]), [2])
        product = op.matmul(op.permute_dims(queries, [0, 2, 1, 3]), y)
        return op.add(op.multiply(product, relax.const(np.float32(0.229))), op.nn.relu(z))

    given = numbers(1, 50, 64), numbers(1, 8, 19, 19, seed=2), numbers(1, 8, 50, 19, seed=3)
    assert "ref:" not in plan_of(attended, *given)


def test_parts_of_a_block_are_no_blocks_of_half_a_vector():
    """Of Res2Net: 104 channels in four parts of 26. oneDNN's code for blocks of eight is that for AVX2."""

    def parts(x: relax.Expr) -> relax.Expr:
        whole = op.nn.relu(convolved(x, 1, 104, 104, 1))
        first, *others = (op.strided_slice(whole, [1], [at], [at + 26]) for at in (0, 26, 52, 78))
        made = [op.nn.relu(convolved(first, 2, 26, 26))]
        for seed, part in enumerate(others[:-1], 3):
            made.append(op.nn.relu(convolved(op.add(made[-1], part), seed, 26, 26)))
        return convolved(op.concat([*made, others[-1]], 1), 9, 64, 104, 1)

    plan = plan_of(parts, numbers(1, 104, 14, 14))
    assert "ref:" not in plan
    assert "avx2" not in plan or "avx512" not in plan


def test_factors_and_terms_of_channels_behind_joined_channels():
    """Of DPN, whose convolutions follow norms."""

    def normed(x: relax.Expr) -> relax.Expr:
        y = op.concat([convolved(x, 1, 24, 40, 1), convolved(x, 2, 64, 40, 1)], 1)
        scaled = op.multiply(y, weights(1, 88, 1, 1, seed=3))
        return convolved(op.nn.relu(op.add(scaled, weights(1, 88, 1, 1, seed=4))), 5, 16, 88, 1)

    assert "ref:" not in plan_of(normed, numbers(1, 40, 10, 10))


def test_what_follows_arithmetic_of_repeated_rows():
    """First the sum alone, then its chain; the operand of a later step is broadcast as well."""
    shapes = (4, 6, 1, 5), (4, 1, 3, 5), (1, 6, 3, 1), (4, 6, 3, 5)
    given = [numbers(*shape, seed=seed) for seed, shape in enumerate(shapes)]

    def chain(w: relax.Expr, x: relax.Expr, y: relax.Expr, z: relax.Expr) -> relax.Expr:
        product = op.multiply(op.add(w, x), z)
        return op.clip(op.subtract(op.nn.relu(op.multiply(product, y)), z), -1, 1)

    found, plan = run(chain, *given)
    assert "ref:" not in plan
    w, x, y, z = (each.astype("float64") for each in given)
    expected = np.clip(np.maximum((w + x) * z * y, 0) - z, -1, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("data", "kernel", "attrs"),
    [
        ((2, 16, 1), (32, 4, 7), {"groups": 4, "dilation": 2, "padding": 6, "strides": 2}),
        ((1, 1, 7, 10), (16, 1, 4, 11), {"padding": (1, 5), "strides": 3}),
    ],
    ids=str,
)
def test_what_follows_a_convolution_for_which_matrices_are_multiplied(data, kernel, attrs):
    """oneDNN's code for all convolutions appends a curve; arithmetic only by reference code."""
    weight = weights(*kernel)
    convolution = op.nn.conv1d if len(data) == 3 else op.nn.conv2d

    def chain(x: relax.Expr) -> relax.Expr:
        made = convolution(x, weight, **attrs)
        other = op.nn.relu(convolution(x, weights(*kernel, seed=2), **attrs))
        return op.nn.relu(op.maximum(op.multiply(made, other), relax.const(np.float32(0.1))))

    assert "ref:" not in plan_of(chain, numbers(*data))


def test_a_computed_norm_of_single_pixels():
    """The chain behind the first step has reference code alone, too."""
    shapes = (2, 2, 1), (2,), (2,), (2,), (2,)
    x, scale, shift, mean, spread = (np.abs(numbers(*shape, seed=at)) for at, shape in enumerate(shapes))

    def normed(x: relax.Expr, g: relax.Expr, b: relax.Expr, m: relax.Expr, v: relax.Expr) -> relax.Expr:
        return op.nn.batch_norm(x, g, b, m, v, axis=1, epsilon=0.01, training=False)[0]

    found, plan = run(normed, x, scale, shift, mean, spread)
    g, b, m, v = (each[None, :, None].astype("float64") for each in (scale, shift, mean, spread))
    np.testing.assert_allclose(found, (x - m) / np.sqrt(v + 0.01) * g + b, rtol=1e-5, atol=1e-6)
    assert "ref:" not in plan


COMPARISONS: dict[str, tuple[Callable[..., relax.Expr], Callable[..., np.ndarray]]] = {
    "equal": (op.equal, np.equal),
    "not_equal": (op.not_equal, np.not_equal),
    "less": (op.less, np.less),
    "less_equal": (op.less_equal, np.less_equal),
    "greater": (op.greater, np.greater),
    "greater_equal": (op.greater_equal, np.greater_equal),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_repeated_rows(name):
    make, expected = COMPARISONS[name]
    data, other = np.round(numbers(2, 5, 3, 4)), np.round(numbers(2, 1, 3, 1, seed=2))
    data[0, :2], other[1, 0, 0] = np.nan, np.nan
    two, three = (relax.const(np.float32(each)) for each in (2, 3))
    found, plan = run(lambda x, y: op.where(make(x, y), two, three), data, other)
    np.testing.assert_array_equal(found, np.where(expected(data, other), 2, 3))
    assert "ref:" not in plan


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: op.nn.max_pool1d(x, 3, 2),
        lambda x: op.nn.avg_pool1d(x, 2, 2),
        lambda x: op.nn.max_pool1d(x, 2, 1, padding=1),
    ],
)
def test_windows_of_lines_take_vector_code(pool):
    plan = plan_of(lambda x: pool(op.nn.relu(x)), numbers(2, 7, 33))
    assert "ref:" not in plan
    assert "simple" not in plan


def test_a_dilated_convolution_of_a_long_line_reads_a_copy_with_the_padding():
    """Of vocoders: oneDNN's descriptor takes time in proportion to the length, and each length has a plan."""

    def residual(x: relax.Expr) -> relax.Expr:
        y = op.nn.conv1d(op.nn.leakyrelu(x, 0.1), weights(24, 24, 3), padding=[5, 3], dilation=4)
        return op.add(op.nn.conv1d(op.nn.relu(y), weights(24, 24, 3, seed=2), padding=1), x)

    plan = plan_of(residual, numbers(2, 24, 1100))
    assert plan.count("padding") == 1
    assert "padding" not in plan_of(residual, numbers(1, 24, 100))


DEPTHWISE: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, int | tuple[int, ...]]]] = {
    "dilation": ((2, 64, 13, 17), (64, 1, 3, 5), {"dilation": (4, 3), "padding": (4, 6)}),
    "dilation and strides": (
        (1, 32, 15, 40),
        (32, 1, 3, 3),
        {"dilation": 2, "padding": (1, 0, 3, 5), "strides": (2, 3)},
    ),
    "beyond the image": ((1, 16, 5, 4), (16, 1, 3, 3), {"dilation": 6, "padding": 6}),
    "volumes": ((2, 54, 5, 6, 13), (54, 1, 3, 3, 3), {"padding": 1}),
    "volumes and strides": ((1, 24, 6, 7, 9), (24, 1, 5, 1, 3), {"padding": (2, 0, 1), "strides": (1, 2, 2)}),
}


@pytest.mark.parametrize("has_chain", [False, True], ids=["alone", "chain"])
@pytest.mark.parametrize("case", DEPTHWISE)
def test_each_channel_alone(case, has_chain):
    """oneDNN has no code for these with channels last, and multiplies with one channel of a vector."""
    data, kernel, attributes = DEPTHWISE[case]

    def channelwise(x: relax.Expr) -> relax.Expr:
        convolve = op.nn.conv2d if len(data) == 4 else op.nn.conv3d
        y = convolve(x, weights(*kernel), groups=data[1], **attributes)
        shift = relax.const(numbers(1, data[1], *[1] * (len(data) - 2), seed=3))
        return op.nn.relu(op.add(y, shift)) if has_chain else y

    steps = plan_of(channelwise, numbers(*data)).splitlines()
    assert any(step.startswith(("depthwise convolution", "convolution jit_dw")) for step in steps)


@pytest.mark.parametrize("channels", [3, 20])
def test_the_largest_of_windows_with_dilation(channels):
    def largest(x: relax.Expr) -> relax.Expr:
        return op.nn.max_pool2d(x, (3, 2), (1, 2), (2, 1, 1, 0), (2, 3))

    assert "largest of windows" in plan_of(largest, numbers(2, channels, 14, 15))


def test_the_largest_of_windows_with_dilation_behind_a_convolution():
    """Its channels are last."""

    def largest(x: relax.Expr) -> relax.Expr:
        return op.nn.max_pool2d(convolved(x, 1), 3, 1, 2, 2)

    assert "largest of windows" in plan_of(largest, numbers(1, 32, 14, 15))


def test_the_largest_of_windows_of_one_channel():
    def peaks(x: relax.Expr) -> relax.Expr:
        return op.nn.max_pool2d(x, 9, 1, 4)

    assert "largest of windows" in plan_of(peaks, numbers(2, 1, 24, 37))
