"""Local response normalization in half precision, as AlexNet has it, beside numpy in double precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar

TEXT = """<ir_version: 10, opset_import: ["" : 22]> g (TYPE[2, 7, 5, 6] x) => (TYPE[2, 7, 5, 6] y) {
    y = LRN<size = 5, alpha = 0.5, beta = 0.75, bias = 2.0>(x)
}"""
UNITS = {"float16": (np.float16, 2.0**-11), "bfloat16": (ml_dtypes.bfloat16, 2.0**-8)}
"""The type, and the largest relative error of rounding to it."""


def expected_of(data: np.ndarray) -> np.ndarray:
    """Each number over a power of the sum of the squares of five channels."""
    squares = np.pad(data.astype("float64") ** 2, ((0, 0), (2, 2), (0, 0), (0, 0)))
    sums = sum(squares[:, channel : channel + data.shape[1]] for channel in range(5))
    found: np.ndarray = data / (2 + 0.5 / 5 * sums) ** 0.75
    return found


@needs_onednn
@pytest.mark.parametrize("target", [[], ["dnnl"]], ids=str)
@pytest.mark.parametrize("dtype", UNITS)
def test_half_precision_is_normalized_in_float32(dtype, target):
    """One number is 300, whose square is no float16."""
    type_, unit = UNITS[dtype]
    data = np.random.default_rng(0).standard_normal((2, 7, 5, 6)) * 4
    data[0, 3, 2, 1] = 300
    data = data.astype(type_)
    module = ar.partition(ar.from_onnx(onnx.parser.parse_model(TEXT.replace("TYPE", dtype))), target)
    assert bool(ops_on_host(module, "main")) == (not target)
    machine = relax.VirtualMachine(ar.build(module), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(data)).numpy()
    assert found.dtype == type_
    expected = expected_of(data.astype("float64"))
    np.testing.assert_allclose(found.astype("float64"), expected, rtol=1.5 * unit, atol=1e-7)
