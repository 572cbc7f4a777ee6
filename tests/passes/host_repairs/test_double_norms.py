"""Norms of float64 compute on the host what their definition says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax.op import nn

import annotated_region as ar

N = tirx.Var("n", "int64")
RNG = np.random.default_rng(3)
GIVEN = RNG.standard_normal((2, 6, 5, 4)) * 3 + 1


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def constant(given: np.ndarray) -> relax.Expr:
    return relax.const(given, "float64")


def answer(make: Callable[[relax.Var], relax.Expr]) -> np.ndarray:
    x = relax.Var("x", relax.TensorType((N, *GIVEN.shape[1:]), "float64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(make(x))
        builder.emit_func_output(result)
    machine = relax.VirtualMachine(ar.build(builder.get()), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(GIVEN)).numpy()
    return found


def normed(data: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    deviation = np.sqrt(data.var(axes, keepdims=True) + 1e-3)
    found: np.ndarray = (data - data.mean(axes, keepdims=True)) / deviation
    return found


def require_equal(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axes", [[-1], [2, 3], [1], [3, 1]])
def test_a_layer_norm(axes: Sequence[int]) -> None:
    extents = [GIVEN.shape[axis] for axis in axes]
    scale, shift = numbers(*extents), numbers(*extents)
    found = answer(lambda x: nn.layer_norm(x, constant(scale), constant(shift), list(axes), 1e-3))
    order = np.argsort([axis % 4 for axis in axes])
    shape = [GIVEN.shape[axis] if axis in [each % 4 for each in axes] else 1 for axis in range(4)]
    placed = [each.transpose(order).reshape(shape) for each in (scale, shift)]
    require_equal(found, normed(GIVEN, tuple(axes)) * placed[0] + placed[1])


@pytest.mark.parametrize(("center", "factor"), [(False, True), (True, False)])
def test_a_layer_norm_without_a_scale_or_a_shift(center: bool, factor: bool) -> None:
    scale, shift = numbers(4), numbers(4)
    found = answer(
        lambda x: nn.layer_norm(x, constant(scale), constant(shift), [-1], 1e-3, center=center, scale=factor)
    )
    require_equal(found, normed(GIVEN, (3,)) * (scale if factor else 1) + (shift if center else 0))


@pytest.mark.parametrize(("channels", "axes"), [(1, [2, 3]), (-1, [1, 2])])
def test_an_instance_norm(channels: int, axes: list[int]) -> None:
    extent = GIVEN.shape[channels]
    scale, shift = numbers(extent), numbers(extent)
    found = answer(lambda x: nn.instance_norm(x, constant(scale), constant(shift), channels, axes, 1e-3))
    shape = [1, extent, 1, 1] if channels == 1 else [1, 1, 1, extent]
    require_equal(found, normed(GIVEN, tuple(axes)) * scale.reshape(shape) + shift.reshape(shape))


@pytest.mark.parametrize(("channels", "axes"), [(1, [2, 3]), (-1, [1, 2])])
def test_a_group_norm(channels: int, axes: list[int]) -> None:
    extent = GIVEN.shape[channels]
    scale, shift = numbers(extent), numbers(extent)
    found = answer(lambda x: nn.group_norm(x, constant(scale), constant(shift), 2, channels, axes, 1e-3))
    last = np.moveaxis(GIVEN, channels, -1)
    split = last.reshape(*last.shape[:-1], 2, extent // 2)
    expected = normed(split, (1, 2, 4)).reshape(last.shape) * scale + shift
    require_equal(found, np.moveaxis(expected, -1, channels))
