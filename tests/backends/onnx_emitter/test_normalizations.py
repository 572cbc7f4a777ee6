"""Normalizations of rows and of channels as ONNX operators."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.emitted_models import array, run
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.backends.onnx_emitter import emit
from annotated_region.backends.onnxruntime.rules import DIALECT
from annotated_region.errors import CodegenError


def function(params, make):
    return module(params, make)["main"]


@pytest.mark.parametrize("symbolic", [(3,), (2, 3), (0, 2)])
@pytest.mark.parametrize("groups", [None, 2])
def test_rows_without_numbers_are_normalized_as_no_rows(groups, symbolic):
    """ONNX Runtime's InstanceNormalization reads a number of each row: a computed one may have no memory."""
    symbols = [tirx.Var(f"n{axis}", "int64") for axis in range(4)]
    x = var("x", [symbols[axis] if axis in symbolic else (2, 4, 3, 5)[axis] for axis in range(4)])
    scale, shift = array(4), array(4, seed=4)

    def make(builder):
        given = builder.emit(op.tanh(x)), relax.const(scale), relax.const(shift)
        if groups is None:
            return op.nn.instance_norm(*given, channel_axis=1, axes=[2, 3])
        return op.nn.group_norm(*given, num_groups=groups, channel_axis=1, axes=[2, 3])

    model = emit(function([x], make), DIALECT)
    for extent in (0, 3):
        data = array(*(extent if axis in symbolic else (2, 4, 3, 5)[axis] for axis in range(4)))
        rows = np.tanh(data).reshape(len(data), groups or 4, 4 // (groups or 4), *data.shape[2:])
        expected = data  # empty
        if extent:
            mean, variance = (each((2, 3, 4), keepdims=True) for each in (rows.mean, rows.var))
            normal = ((rows - mean) / np.sqrt(variance + 1e-5)).reshape(data.shape)
            expected = normal * scale[:, None, None] + shift[:, None, None]
        np.testing.assert_allclose(run(model, data)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_the_batch_of_one_that_pytorch_lists_beside_the_other_axes_is_left_out(batch):
    """It folds the batch into the channels; of several images the axis would join their rows."""
    x, scale, shift = var("x", (batch, 4, 3, 5)), array(4), array(4, seed=4)

    def make(_builder):
        constants = relax.const(scale), relax.const(shift)
        return op.nn.instance_norm(x, *constants, channel_axis=1, axes=[0, 2, 3])

    if batch > 1:
        with pytest.raises(CodegenError, match="does not normalize over all axes after the channels"):
            emit(function([x], make), DIALECT)
        return
    data = array(1, 4, 3, 5)
    normal = (data - data.mean((0, 2, 3), keepdims=True)) / np.sqrt(data.var((0, 2, 3), keepdims=True) + 1e-5)
    expected = normal * scale[:, None, None] + shift[:, None, None]
    found = run(emit(function([x], make), DIALECT), data)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
