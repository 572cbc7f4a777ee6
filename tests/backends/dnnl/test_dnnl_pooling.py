"""Maxima of windows of nothing but -inf, beside windows whose largest number is the lowest finite one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, ops_on_host, single
from tvm import relax
from tvm.relax import op

LOWEST = np.finfo("float32").min
LARGEST = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}


def given(*shape: int) -> np.ndarray:
    """Mostly -inf, so that many windows hold nothing else."""
    random = np.random.default_rng(len(shape))
    return random.choice(np.array([-np.inf, LOWEST, -3.5], "float32"), shape, p=[0.9, 0.07, 0.03])


def largest(
    data: np.ndarray, size: int, stride: int, padding: int, dilation: int, count: list[int]
) -> np.ndarray:
    """By definition; `count` is how many windows there are along each axis."""
    extents, cells = data.shape[2:], data.reshape(*data.shape[:2], -1)
    found = np.full((*data.shape[:2], np.prod(count)), -np.inf, "float32")
    for number, place in enumerate(itertools.product(*map(range, count))):
        window = found[:, :, number]
        for step in itertools.product(range(size), repeat=len(count)):
            at = [p * stride - padding + s * dilation for p, s in zip(place, step, strict=True)]
            if all(0 <= each < extent for each, extent in zip(at, extents, strict=True)):
                np.maximum(window, cells[:, :, np.ravel_multi_index(at, extents)], out=window)
    return found.reshape(*data.shape[:2], *count)


def pooled(x: relax.Expr, rank: int, size: int, stride: int, padding: int, dilation: int) -> relax.Expr:
    each = [[value] * rank for value in (size, stride, dilation)]
    return LARGEST[rank](x, each[0], each[1], [padding] * 2 * rank, each[2])


def whole(x: relax.Var, result: relax.Expr) -> Offloaded:
    machine = offload(single([x], result))
    assert not ops_on_host(machine.module)
    return machine


@needs_onednn
@pytest.mark.parametrize("window", [(2, 2, 0, 1), (3, 1, 1, 1), (2, 1, 0, 2)], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_largest_of_minus_infinities_is_one(rank: int, window: tuple[int, int, int, int]) -> None:
    shape = (2, 3, *[7, 6, 5][:rank])
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    (found,) = whole(x, pooled(x, rank, *window)).call("main", data := given(*shape))
    expected = largest(data, *window, list(found.shape[2:]))
    np.testing.assert_array_equal(found, expected)
    assert {-np.inf, LOWEST} < set(expected.reshape(-1).tolist())


@needs_onednn
@pytest.mark.parametrize("channels", [16, 19])
def test_so_it_is_in_the_layout_of_a_convolution(channels: int) -> None:
    """Channels last, or in blocks, of which the last one need not be full."""
    x = relax.Var("x", relax.TensorType((2, channels, 9, 8), "float32"))
    ones = relax.const(np.ones((channels, 1, 1, 1), "float32"))
    convolved = op.nn.conv2d(x, ones, groups=channels)
    machine = whole(x, op.nn.avg_pool2d(pooled(convolved, 2, 3, 2, 1, 1), [1, 1]))
    (found,) = machine.call("main", data := given(2, channels, 9, 8))
    np.testing.assert_array_equal(found, largest(data, 3, 2, 1, 1, list(found.shape[2:])))


@needs_onednn
def test_nan_is_passed_over_beside_minus_infinity() -> None:
    x = relax.Var("x", relax.TensorType((1, 1, 8), "float32"))
    data = np.array([[[-np.inf, np.nan, np.nan, -np.inf, LOWEST, -np.inf, np.nan, LOWEST]]], "float32")
    (found,) = whole(x, pooled(x, 1, 2, 2, 0, 1)).call("main", data)
    np.testing.assert_array_equal(found, np.array([[[-np.inf, -np.inf, LOWEST, LOWEST]]], "float32"))


@needs_onednn
def test_behind_a_relu_no_window_is_looked_at_again() -> None:
    x = relax.Var("x", relax.TensorType((1, 3, 6, 6), "float32"))
    machine = whole(x, pooled(op.nn.relu(x), 2, 2, 2, 0, 1))
    (found,) = machine.call("main", given(1, 3, 6, 6))
    np.testing.assert_array_equal(found, np.zeros((1, 3, 3, 3), "float32"))
    (symbol,) = machine.symbols_of("main")
    assert not any("-inf" in line for line in machine.plan(symbol))


@needs_onednn
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_largest_byte_is_one(dtype: str) -> None:
    """As quantizers pool them that leave no floats around."""
    shape, window = (2, 24, 7, 6), (3, 2, 1, 1)
    x = relax.Var("x", relax.TensorType(shape, dtype))
    limits = np.iinfo(dtype)
    data = np.random.default_rng(0).integers(limits.min, limits.max + 1, shape).astype(dtype)
    machine = whole(x, pooled(x, 2, *window))
    (found,) = machine.call("main", data)
    np.testing.assert_array_equal(found, largest(data.astype("float32"), *window, list(found.shape[2:])))
    (symbol,) = machine.symbols_of("main")
    assert not [step for step in machine.plan(symbol) if "ref" in step or "simple" in step]
