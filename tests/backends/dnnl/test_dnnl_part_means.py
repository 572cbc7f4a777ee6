"""Means of parts of different sizes, beside TVM on the host and PyTorch's definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host, run, tvm_alone
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

pytestmark = needs_onednn

POOLS = {3: op.nn.adaptive_avg_pool1d, 4: op.nn.adaptive_avg_pool2d, 5: op.nn.adaptive_avg_pool3d}


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def bounds(extent, parts):
    return [(part * extent // parts, -(-(part + 1) * extent // parts)) for part in range(parts)]


def means(data, size):
    """In double precision."""
    result = np.zeros((*data.shape[:2], *size))
    lines = [bounds(extent, parts) for extent, parts in zip(data.shape[2:], size, strict=True)]
    for place in itertools.product(*map(range, size)):
        parts = (slice(*line[part]) for line, part in zip(lines, place, strict=True))
        window: tuple[slice, ...] = (slice(None), slice(None), *parts)
        one: tuple[slice | int, ...] = (slice(None), slice(None), *place)
        result[one] = data[window].mean(tuple(range(2, data.ndim)), dtype="float64")
    return result


def pooling(shape, size, **attrs):
    x = var("x", shape)
    return module([x], lambda _: POOLS[len(shape)](x, size, **attrs))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 3, 7), (3,)),
        ((2, 3, 7, 13), (3, 6)),
        ((2, 3, 12, 13), (6, 6)),
        ((1, 2, 3, 4), (5, 6)),
        ((2, 3, 5, 7, 4), (2, 3, 3)),
    ],
    ids=str,
)
def test_parts_of_different_sizes_have_their_means(shape, size):
    mod, given = pooling(shape, size), numbers(shape)
    made = offload(mod)
    assert not ops_on_host(made.module)
    (found,) = made.call("main", given)
    np.testing.assert_allclose(found, means(given, size), 1e-5, 1e-6)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", [given])[0], 1e-5, 1e-6)


def test_extents_may_be_symbols():
    """As in AlexNet and VGG of any image."""
    b, c, h, w = (tirx.Var(name, "int64") for name in "bchw")
    made = offload(pooling((b, c, h, w), (6, 6)))
    assert not ops_on_host(made.module)
    for shape in ((2, 3, 13, 7), (1, 1, 1, 6), (3, 2, 12, 60)):
        given = numbers(shape)
        (found,) = made.call("main", given)
        np.testing.assert_allclose(found, means(given, (6, 6)), 1e-5, 1e-6)


def test_a_convolution_hands_its_channels_over_as_it_left_them():
    x, kernel = var("x", (2, 16, 9, 11)), relax.const(numbers((32, 16, 3, 3), 4) / 12)

    def make(builder):
        y = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(x, kernel, padding=1))))
        parts = builder.emit(op.nn.adaptive_avg_pool2d(y, (4, 6)))
        return op.nn.conv2d(parts, relax.const(numbers((4, 32, 3, 3), 5) / 17), padding=1)

    mod, given = module([x], make), (numbers((2, 16, 9, 11)),)
    made = offload(mod)
    (found,) = made.call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-3, 1e-4)
    assert any(step.startswith("part means") for step in made.plan("dnnl_main_0"))


def test_channels_may_be_the_last_axis():
    mod, given = pooling((2, 7, 5, 3), (3, 2), layout="NHWC"), numbers((2, 7, 5, 3))
    made = offload(mod)
    assert not ops_on_host(made.module)
    (found,) = made.call("main", given)
    expected = np.moveaxis(means(np.moveaxis(given, -1, 1), (3, 2)), 1, -1)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
