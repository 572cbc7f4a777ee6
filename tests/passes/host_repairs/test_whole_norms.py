"""A root mean square norm along all axes computes what numpy does."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)], ids=str)
def test_a_norm_of_everything(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(shape).astype("float32") for _ in range(2))
    builder = relax.BlockBuilder()
    given = [relax.Var(name, relax.TensorType(shape, "float32")) for name in ("x", "w")]
    with builder.function("main", given):
        with builder.dataflow():
            axes = list(range(-len(shape), 0))
            result = builder.emit_output(relax.op.nn.rms_norm(*given, axes=axes, epsilon=1e-2))
        builder.emit_func_output(result)
    machine = relax.VirtualMachine(ar.build(builder.get()), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, (x, w))).numpy()
    expected = x / np.sqrt((x.astype("float64") ** 2).mean() + 1e-2) * w
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
