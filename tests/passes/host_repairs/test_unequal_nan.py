"""On the host NaN differs from every number, and from itself."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar

LEFT = np.array([np.nan, 0, 1, -0.0, np.nan, np.inf])
RIGHT = np.array([0, 0, 0, np.nan, np.nan, np.inf])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("other", ["tensor", "constant", "itself"])
def test_nan_is_not_equal(other: str, dtype: str) -> None:
    x, y = (relax.Var(name, relax.TensorType(LEFT.shape, dtype)) for name in "xy")
    operand = {"tensor": y, "constant": relax.const(0.0, dtype), "itself": x}[other]
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.not_equal(x, operand))
        builder.emit_func_output(result)
    machine = relax.VirtualMachine(ar.build(builder.get()).jit(), tvm.cpu())
    left, right = (each.astype(dtype) for each in (LEFT, RIGHT))
    found = machine["main"](tvm.runtime.tensor(left), tvm.runtime.tensor(right)).numpy()
    expected = left != {"tensor": right, "constant": np.zeros_like(left), "itself": left}[other]
    assert found.tolist() == expected.tolist()
