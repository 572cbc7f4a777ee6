"""Elements at indices that only a call shows to be in range."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

pytestmark = needs_onednn

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


@pytest.mark.parametrize("rows", [[2], [1, 2], [3, 1], [0, 2]], ids=str)
def test_constant_rows_of_a_symbolic_axis_are_taken_or_refused(rows):
    x = var("x", (2, N, 3))
    made = offload(module([x], lambda _: op.take(x, relax.const(np.array(rows)), 1)))
    assert not ops_on_host(made.module)
    for extent in (4, 9):
        given = numbers(2, extent, 3)
        np.testing.assert_array_equal(made.call("main", given)[0], given[:, rows])
    with pytest.raises(RuntimeError, match=r"index [123] is out of range for an axis of 1"):
        made.call("main", numbers(2, 1, 3))


def test_a_constant_row_drops_its_axis():
    x = var("x", (2, N, 3))
    made = offload(module([x], lambda _: op.take(x, relax.const(2, "int64"), 1)))
    assert not ops_on_host(made.module)
    given = numbers(2, 5, 3)
    np.testing.assert_array_equal(made.call("main", given)[0], given[:, 2])


def test_elements_are_gathered_where_the_call_has_enough_of_them():
    x, places = var("x", (N, 5)), var("places", (M, 4), "int64")
    made = offload(module([x, places], lambda _: op.gather_elements(x, places, 1)))
    assert not ops_on_host(made.module)
    indices = np.random.default_rng(1).integers(0, 5, (3, 4))
    for extent in (3, 6):
        given = numbers(extent, 5)
        (found,) = made.call("main", given, indices)
        np.testing.assert_array_equal(found, np.take_along_axis(given[:3], indices, 1))
    with pytest.raises(RuntimeError, match="there are 3 indices for 2 elements along axis 0"):
        made.call("main", numbers(2, 5), indices)
