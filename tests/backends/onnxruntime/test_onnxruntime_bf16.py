"""bfloat16 on ONNX Runtime, which has few kernels for it: one region, each operator rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar

WEIGHT = np.random.default_rng(7).standard_normal((32, 32)).astype(ml_dtypes.bfloat16)
# Eight bits of a number are kept; some operators follow one another.
TOLERANCE = 3 * 2.0**-8
ROWS = np.array([[1, 1, 0, 2], [1, 0, 0, 2]])


def block(x):
    """Linear, norm, activation and softmax, with shapes moved in between."""
    ones, zeros = (relax.const(np.full(32, value, ml_dtypes.bfloat16)) for value in (1, 0))
    hidden = op.nn.layer_norm(op.matmul(x, relax.const(WEIGHT)), ones, zeros, axes=[-1])
    hidden = op.add(op.nn.silu(hidden), x)
    rows = op.reshape(hidden, (2, 4, 16))
    scores = op.nn.softmax(op.matmul(rows, op.permute_dims(rows, [0, 2, 1])), axis=-1)
    return op.maximum(op.matmul(scores, rows), relax.const(np.array(-2, ml_dtypes.bfloat16)))


def in_single_precision(x):
    hidden = x @ WEIGHT.astype("float32")
    hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(hidden.var(-1, keepdims=True) + 1e-5)
    hidden = hidden / (1 + np.exp(-hidden)) + x
    rows = hidden.reshape(2, 4, 16)
    scores = rows @ rows.transpose(0, 2, 1)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return np.maximum(scores / scores.sum(-1, keepdims=True) @ rows, -2)


def test_bfloat16_is_one_region_and_rounded_as_its_type_is():
    x = var("x", (4, 32), "bfloat16")
    partitioned = ar.partition(module([x], lambda _: block(x)), ["onnxruntime"], prepare=False)
    externals = [each for each in partitioned.functions.values() if "Codegen" in (each.attrs or {})]
    assert len(externals) == 1
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    data = np.random.default_rng(3).standard_normal((4, 32)).astype(ml_dtypes.bfloat16)
    found = machine["main"](tvm.runtime.tensor(data)).numpy()
    assert found.dtype == ml_dtypes.bfloat16
    wanted = in_single_precision(data.astype("float32"))
    error = np.abs(found.astype("float32") - wanted).max() / np.abs(wanted).max()
    assert error <= TOLERANCE


def padded(x, _):
    return op.nn.pad(x, [1, 0, 0, 2], "constant", -1.5)


def added_up(x, updates):
    return op.scatter_elements(x, relax.const(ROWS, "int64"), updates, axis=0, reduction="add")


def squared(x, _):
    return op.power(x, relax.const(2.0, x.ty.dtype))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("compute", [padded, added_up, squared])
def test_all_data_of_an_operator_is_widened(compute, dtype):
    """Numbers of the type of the data stand behind operands of other types, or, as an exponent, beside it."""
    x, updates = var("x", (3, 4), np.dtype(dtype).name), var("updates", (2, 4), np.dtype(dtype).name)
    made = module([x, updates], lambda _: compute(x, updates))
    partitioned = ar.partition(made, ["onnxruntime"], prepare=False)
    assert any("Codegen" in (each.attrs or {}) for each in partitioned.functions.values())
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    data, more = np.arange(12).reshape(3, 4).astype(dtype), np.arange(8).reshape(2, 4).astype(dtype)
    found = machine["main"](*map(tvm.runtime.tensor, (data, more))).numpy()
    wanted = np.pad(data, ((1, 0), (0, 2)), constant_values=-1.5)
    if compute is squared:
        wanted = data * data
    if compute is added_up:
        wanted = data.astype("float32")
        for (place, column), row in np.ndenumerate(ROWS):
            wanted[row, column] += more[place, column].astype("float32")
    np.testing.assert_array_equal(found.astype("float32"), wanted.astype("float32"))
