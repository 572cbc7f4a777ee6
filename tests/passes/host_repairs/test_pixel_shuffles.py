"""Pixel shuffles on the host compute what PyTorch documents."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar


@pytest.mark.parametrize("outer", [(), (2,), (2, 3)], ids=str)
def test_channels_become_squares_of_pixels(outer):
    n = tirx.Var("n", "int64")
    x = var("x", (*outer, 12, n, 3), "float32")
    built = ar.build(module([x], lambda _: op.nn.pixel_shuffle(x, 2)))
    given = np.random.default_rng(1).standard_normal((*outer, 12, 2, 3)).astype("float32")
    found = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(given)).numpy()
    expected = np.zeros((*outer, 3, 4, 6), "float32")
    for channel, down, right in np.ndindex(3, 2, 2):
        expected[..., channel, down::2, right::2] = given[..., channel * 4 + down * 2 + right, :, :]
    np.testing.assert_array_equal(found, expected)
