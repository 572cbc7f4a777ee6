"""Tensors of infinity and NaN compile on the host."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

NUMBERS = (-np.inf, np.inf, np.nan, 1.5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("is_like", [False, True])
def test_a_tensor_of_any_extent_may_be_infinite_everywhere(dtype, is_like):
    x = var("x", (tirx.Var("n", "int64"), 3), dtype)

    shape = relax.ShapeExpr([*x.ty.shape.values, 2])

    def filled(builder):
        numbers = [relax.const(number, dtype) for number in NUMBERS]
        calls = [op.full_like(x, each) if is_like else op.full(shape, each, dtype) for each in numbers]
        return relax.Tuple([builder.emit(call) for call in calls])

    machine = relax.VirtualMachine(ar.build(module([x], filled)), tvm.cpu())
    for count in (2, 1, 5):
        given = relax.const(np.ones((count, 3), "float32"), dtype).value
        for result, number in zip(machine["main"](given), NUMBERS, strict=True):
            assert result.shape == ((count, 3) if is_like else (count, 3, 2))
            np.testing.assert_array_equal(result.numpy().astype("float32"), np.float32(number))
