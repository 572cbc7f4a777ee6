"""Splits with empty parts on the host are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar


@pytest.mark.parametrize("places", [[0, 2], [2, 2], [0, 0], [1, 3], [5], [2, 5], [5, 5], [0]], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_parts_may_be_empty(places, axis):
    shape = (5, 3) if axis == 0 else (3, 5)
    batch = tirx.Var("n", "int64")
    x = var("x", (5, batch) if axis == 0 else (batch, 5), "float32")
    built = ar.build(module([x], lambda _: op.split(x, places, axis)))
    given = np.random.default_rng(0).standard_normal(shape).astype("float32")
    found = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(given))
    expected = np.split(given, places, axis)
    assert len(found) == len(expected)
    for part, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part.numpy(), wanted)
