"""Medians and reversed beginnings of rows, which are made of sorted places and gathers, beside NumPy."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import Offloaded, joined, needs_onednn, offload, ops_on_host
from kits.backends.relax_kit import module, var
from tvm import tirx
from tvm.relax import op

import annotated_region as ar

pytestmark = needs_onednn


def one_op(function, *given, shapes=None):
    """A module of one op for arrays; parameters may have other, symbolic shapes."""
    params = [
        var(f"x{place}", shape, str(each.dtype))
        for place, (each, shape) in enumerate(zip(given, shapes or [x.shape for x in given], strict=True))
    ]
    return module(params, lambda _builder: function(*params))


def claimed_call(function, *given, shapes=None):
    """The results of a function of one op, which is claimed."""
    made = ar.partition(one_op(function, *given, shapes=shapes), ["dnnl"], prepare=False)
    assert not ops_on_host(made, "main")
    return offload(made).call("main", *given)


def drawn(*shape, dtype="float32"):
    return np.random.default_rng(3).integers(-4, 5, shape).astype(dtype)


MEDIANS = list(itertools.product((0, 1, -1), (False, True), (1, 2, 5, 6), ("float32", "int64", "int32")))
"""An axis, whether it is kept, its extent, and the type."""


def with_extent(axis, extent, dtype):
    shape = [3, 4, 2]
    shape[axis] = extent
    return drawn(*shape, dtype=dtype)


@cache
def medians() -> Offloaded:
    """A function for each of `MEDIANS`."""
    return offload(
        joined(
            [
                one_op(lambda x, axis=axis, keepdims=keepdims: op.median(x, [axis], keepdims), given)
                for axis, keepdims, extent, dtype in MEDIANS
                for given in [with_extent(axis, extent, dtype)]
            ]
        )
    )


@pytest.mark.parametrize("case", range(len(MEDIANS)), ids=[str(each) for each in MEDIANS])
def test_medians_along_an_axis_have_the_place_of_the_first_in_a_stable_order(case):
    """The lower one of two in the middle; numbers that are alike keep their order."""
    axis, keepdims, extent, dtype = MEDIANS[case]
    given = with_extent(axis, extent, dtype)
    assert not ops_on_host(medians().module, f"case{case}")
    value, place = medians().call(f"case{case}", given)
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


REVERSED = list(
    itertools.product((0, 1), ("float32", "int64", "bool", "uint8", "float16"), ("int64", "int32"))
)
"""The axis of the batch, the type of the numbers, and the type of the lengths."""


def numbers_and_lengths(dtype, kind):
    return drawn(6, 6, 2, dtype=dtype), np.array([0, 1, 3, 6, 9, -2], kind)


@cache
def reversals() -> Offloaded:
    """A function for each of `REVERSED`."""
    return offload(
        joined(
            [
                one_op(
                    lambda x, n, batch=batch: op.reverse_sequence(x, n, 1 - batch, batch),
                    *numbers_and_lengths(dtype, kind),
                )
                for batch, dtype, kind in REVERSED
            ]
        )
    )


@pytest.mark.parametrize("case", range(len(REVERSED)), ids=[str(each) for each in REVERSED])
def test_beginnings_of_rows_are_reversed(case):
    """As long as a length says: not at all, a part, all of it, or more than there is."""
    batch, dtype, kind = REVERSED[case]
    given, lengths = numbers_and_lengths(dtype, kind)
    assert not ops_on_host(reversals().module, f"case{case}")
    (found,) = reversals().call(f"case{case}", given, lengths)
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
