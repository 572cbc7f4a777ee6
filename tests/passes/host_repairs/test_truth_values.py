"""Functions of truth values compute on the host what numpy does."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar

FUNCTIONS = ("add", "multiply", "minimum", "maximum", "equal", "not_equal")
ORDERS = ("greater", "greater_equal", "less", "less_equal")


@pytest.mark.parametrize("name", FUNCTIONS + ORDERS)
@pytest.mark.parametrize("is_known", [False, True], ids=["computed", "constant"])
def test_a_function_of_truth_values(name: str, is_known: bool) -> None:
    x, y = np.array([[False], [True]]), np.array([False, True])
    left, right = (
        relax.Var("x", relax.TensorType((2, 1), "bool")),
        relax.Var("y", relax.TensorType((2,), "bool")),
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [left, right]):
        with builder.dataflow():
            other = relax.const(y) if is_known else right
            result = builder.emit_output(getattr(relax.op, name)(left, other))
        builder.emit_func_output(result)
    machine = relax.VirtualMachine(ar.build(builder.get()), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y)).numpy()
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, getattr(np, name)(x, y))
