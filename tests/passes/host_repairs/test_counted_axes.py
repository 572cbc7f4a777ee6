"""Ops with negative axes compute on the host what numpy does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.passes.host_repairs.repairing import repaired

N = tirx.Var("n", "int64")


def module(param: relax.Var, make: Callable[[relax.Var], relax.Expr]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    with builder.function("main", [param]):
        with builder.dataflow():
            result = builder.emit_output(make(param))
        builder.emit_func_output(result)
    return builder.get()


def answer(mod: tvm.IRModule, given: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(ar.build(mod), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(given)).numpy()
    return found


@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_a_slice_between_symbolic_bounds(axis: int) -> None:
    x = relax.Var("x", relax.TensorType((N, N, N), "float32"))
    mod = module(x, lambda x: op.strided_slice(x, [axis], [N - 2], [N], assume_inbound=True))
    given = np.arange(64, dtype="float32").reshape(4, 4, 4)
    np.testing.assert_array_equal(answer(mod, given), np.take(given, [2, 3], axis))


@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_a_slice_whose_bounds_may_be_outside(axis: int) -> None:
    """TVM infers other formulas for its extents where axes are counted from the front."""
    x = relax.Var("x", relax.TensorType((N, N, N), "float32"))
    mod = module(x, lambda x: op.strided_slice(op.concat([x, x], 0), [axis], [1], [2 * N]))
    given = np.arange(27, dtype="float32").reshape(3, 3, 3)
    twice = np.concatenate([given, given])
    np.testing.assert_array_equal(answer(mod, given), np.take(twice, range(1, twice.shape[axis]), axis))


@pytest.mark.parametrize(("channels", "axes"), [(-3, [-2, -1]), (-1, [1, 2]), (-2, [1, 3])])
def test_an_instance_norm(channels: int, axes: list[int]) -> None:
    shape = (2, 3, 4, 5)
    rng = np.random.default_rng(7)
    scale, shift = (rng.standard_normal(shape[channels]).astype("float32") for _ in range(2))
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    mod = module(
        x, lambda x: op.nn.instance_norm(x, relax.const(scale), relax.const(shift), channels, axes, 1e-2)
    )
    given = rng.standard_normal(shape).astype("float32")
    wide, along = given.astype("float64"), tuple(axes)
    normal = (wide - wide.mean(along, keepdims=True)) / np.sqrt(wide.var(along, keepdims=True) + 1e-2)
    extents = [1] * 4
    extents[channels] = -1
    expected = normal * scale.reshape(extents) + shift.reshape(extents)
    np.testing.assert_allclose(answer(mod, given), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_a_one_hot_tensor(axis: int) -> None:
    x = relax.Var("x", relax.TensorType((2, 3), "int64"))
    mod = module(x, lambda x: op.one_hot(x, 1.5, -0.5, 4, axis))
    given = np.array([[0, 3, 1], [2, 2, 0]])
    expected = np.moveaxis(np.where(given[..., None] == np.arange(4), 1.5, -0.5), -1, axis)
    np.testing.assert_array_equal(answer(mod, given), expected.astype("float32"))


def test_axes_from_the_front_are_left() -> None:
    x = relax.Var("x", relax.TensorType((N, 4), "float32"))
    mod = module(x, lambda x: op.strided_slice(x, [0, 1], [0, 1], [N, 3]))
    tvm.ir.assert_structural_equal(repaired(mod), mod)
