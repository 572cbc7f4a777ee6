"""A static shape as a tensor is a constant; one that is not known stays."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import module, prepare
from tvm import relax

op = relax.op


def shape_of(*shape: int | str) -> tvm.IRModule:
    return module(lambda _builder, x: op.shape_to_tensor(op.shape_of(x)), x=shape)


def written(*shape: int) -> tvm.IRModule:
    return module(lambda _builder, _x: op.shape_to_tensor(relax.ShapeExpr(shape)), x=(1,))


def result_of(mod: tvm.IRModule) -> np.ndarray:
    """The constant that a function returns."""
    result = prepare(mod)["main"].body.body
    assert isinstance(result, tvm.ir.GenericConst)
    array: np.ndarray = result.value.numpy()
    assert array.dtype == np.int64
    return array


@pytest.mark.parametrize("make", [shape_of, written])
def test_a_static_shape_is_a_constant(make) -> None:
    np.testing.assert_array_equal(result_of(make(2, 3, 1)), [2, 3, 1])


def test_what_is_computed_from_a_static_shape_is_a_constant() -> None:
    def second_extent(_builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        shape = op.shape_to_tensor(op.shape_of(x))
        return op.take(shape, relax.const([1], "int64"), axis=0)

    np.testing.assert_array_equal(result_of(module(second_extent, x=(2, 3))), [3])


def test_a_symbolic_shape_is_written_down() -> None:
    """As targets claim it: `shape_of` stayed on the host, and cut their regions."""
    prepared = prepare(shape_of("n", 3))["main"]
    (binding,) = prepared.body.blocks[0].bindings
    assert str(binding.value.args[0]) == "R.shape([n, 3])"
