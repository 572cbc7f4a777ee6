"""Logarithms of sums of exponentials of all magnitudes are those of numpy."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar

NUMBERS = np.array([-np.inf, -3751.0, -104.5, -1.0, 0.0, 0.3, 88.0, 89.0, 3e38, np.inf, np.nan], "float32")


def test_the_logarithm_of_two_exponentials() -> None:
    left, right = NUMBERS[:, None], NUMBERS
    given = [
        relax.Var(name, relax.TensorType(each.shape, "float32"))
        for name, each in zip("xy", (left, right), strict=True)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            result = builder.emit_output(relax.op.log_add_exp(*given))
        builder.emit_func_output(result)
    machine = relax.VirtualMachine(ar.build(builder.get()), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, (left, right))).numpy()
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp(left.astype("float64"), right.astype("float64"))
    np.testing.assert_allclose(found, expected.astype("float32"), rtol=1e-6, atol=1e-7)
