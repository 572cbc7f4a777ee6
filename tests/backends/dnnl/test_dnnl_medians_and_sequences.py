"""Medians and reversed beginnings of rows, which are made of sorted places and gathers, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host
from kits.backends.relax_kit import module, var
from tvm import tirx
from tvm.relax import op

import annotated_region as ar

pytestmark = needs_onednn


def claimed_call(function, *given, shapes=None):
    """The results of a function of one op, which is claimed; parameters may have other, symbolic shapes."""
    params = [
        var(f"x{place}", shape, str(each.dtype))
        for place, (each, shape) in enumerate(zip(given, shapes or [x.shape for x in given], strict=True))
    ]
    made = ar.partition(module(params, lambda _builder: function(*params)), ["dnnl"], prepare=False)
    assert not ops_on_host(made, "main")
    return offload(made).call("main", *given)


def drawn(*shape, dtype="float32"):
    return np.random.default_rng(3).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("extent", [1, 2, 5, 6])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_medians_along_an_axis_have_the_place_of_the_first_in_a_stable_order(axis, keepdims, extent, dtype):
    """The lower one of two in the middle; numbers that are alike keep their order."""
    shape = [3, 4, 2]
    shape[axis] = extent
    given = drawn(*shape, dtype=dtype)
    value, place = claimed_call(lambda x: op.median(x, [axis], keepdims), given)
    order = np.take(np.argsort(given, axis, kind="stable"), [(extent - 1) // 2], axis)
    expected = np.take_along_axis(given, order, axis)
    if not keepdims:
        order, expected = order.squeeze(axis), expected.squeeze(axis)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(place, order)


@pytest.mark.parametrize("shape", [(1,), (4,), (3, 5), (2, 3, 2)])
def test_the_median_of_all_elements_is_one_number(shape):
    given = drawn(*shape)
    (value,) = claimed_call(op.median, given)
    assert value.shape == ()
    assert value == np.sort(given, None)[(given.size - 1) // 2]


def reversed_rows(given, lengths, batch):
    expected = given.copy()
    rows, whole = (np.moveaxis(each, batch, 0) for each in (expected, given))
    for row, length in enumerate(lengths):
        rows[row, : max(length, 0)] = whole[row, : max(length, 0)][::-1]
    return expected


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "float16"])
@pytest.mark.parametrize("batch", [0, 1])
def test_beginnings_of_rows_are_reversed(batch, dtype, kind):
    """As long as a length says: not at all, a part, all of it, or more than there is."""
    lengths = np.array([0, 1, 3, 6, 9, -2], kind)
    given = drawn(6, 6, 2, dtype=dtype)
    (found,) = claimed_call(lambda x, n: op.reverse_sequence(x, n, 1 - batch, batch), given, lengths)
    np.testing.assert_array_equal(found, reversed_rows(given, lengths, batch))


@pytest.mark.parametrize("batch", [0, 1])
def test_rows_of_any_number_and_length_are_reversed(batch):
    rows, times = (tirx.Var(name, "int64") for name in ("rows", "times"))
    shapes = ((rows, times) if batch == 0 else (times, rows), (rows,))
    for count, extent in ((2, 3), (3, 1), (1, 4)):
        given = drawn(count, extent) if batch == 0 else drawn(extent, count)
        lengths = np.arange(2, 2 + count)
        (found,) = claimed_call(
            lambda x, n: op.reverse_sequence(x, n, 1 - batch, batch), given, lengths, shapes=shapes
        )
        np.testing.assert_array_equal(found, reversed_rows(given, lengths, batch))
