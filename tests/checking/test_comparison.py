"""Results beside the reference: which values are wrong, by how much and where, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tvm import relax

from annotated_region.checking import comparison
from annotated_region.checking.comparison import compared
from annotated_region.checking.tolerance import Tolerance, tolerance_for

EXACT = Tolerance(0.0, 0.0, 0.0, "asked for")
NAN, INF = math.nan, math.inf


def verdict(found, wanted, tolerance=EXACT, dtype="float32"):
    return compared("y", np.array(found, dtype), np.array(wanted, dtype), tolerance)


@pytest.mark.parametrize(
    ("found", "wanted", "nan", "inf"),
    [
        (NAN, 1.0, 1, 0),
        (1.0, NAN, 1, 0),
        (INF, 1.0, 0, 1),
        (1.0, -INF, 0, 1),
        (INF, -INF, 0, 1),
        (NAN, INF, 1, 1),
    ],
)
def test_what_is_finite_on_one_side_only_is_wrong(found, wanted, nan, inf):
    result = verdict([0.0, found], [0.0, wanted], Tolerance(1e9, 1e9, 0.0, "wide"))
    assert (result.ok, result.wrong, result.nan, result.inf, result.where) == (False, 1, nan, inf, (1,))


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_what_is_the_same_on_both_sides_is_right(value):
    result = verdict([value, 1.0], [value, 1.0])
    assert (result.ok, result.wrong, result.nan, result.inf, result.where) == (True, 0, 0, 0, None)


def test_a_value_is_allowed_the_sum_of_both_tolerances():
    tolerance = Tolerance(0.25, 0.5, 0.0, "asked for")
    assert verdict([4.0 + 1.5], [4.0], tolerance).ok
    result = verdict([0.5, -5.5625], [0.0, -4.0], tolerance)
    assert (result.ok, result.wrong, result.where, result.allowed) == (False, 1, (1,), 0.5)


def test_a_part_of_the_largest_value_is_allowed():
    tolerance = Tolerance(0.0, 0.0, 0.25, "derived")
    assert verdict([8.0, 2.0], [8.0, 0.0], tolerance).ok
    assert not verdict([8.0, 2.5], [8.0, 0.0], tolerance).ok


def test_masked_scores_do_not_widen_the_tolerance():
    """-1e9 in two places is a mask; the largest score is 4."""
    tolerance = Tolerance(0.0, 0.0, 0.25, "derived")
    wanted = [-1e9, 4.0, 1.0, -1e9]
    assert verdict([-1e9, 4.0, 2.0, -1e9], wanted, tolerance).ok
    result = verdict([-1e9, 4.0, 2.5, -1e9], wanted, tolerance)
    assert (result.wrong, result.where, result.relative) == (1, (2,), 1.5 / 4)


def test_whole_numbers_have_no_tolerance():
    wide = Tolerance(1.0, 9.0, 1.0, "float32")
    assert not verdict([3], [2], wide, "int32").ok
    assert not verdict([True], [False], wide, "bool").ok
    assert not verdict([3], [2], wide, "int8").ok
    assert verdict([3], [2], Tolerance(0.0, 0.0, 1 / 127, "one step", in_int8=True), "int8").ok


def test_the_place_is_found_behind_the_first_block(monkeypatch):
    monkeypatch.setattr(comparison, "_BLOCK", 4)
    wanted = np.arange(15, dtype="float32").reshape(3, 5)
    found = wanted.copy()
    found[0, 1], found[2, 3] = 1.5, 11.0
    result = compared("y", found, wanted, EXACT)
    assert (result.where, result.found, result.wanted) == ((2, 3), 11.0, 13.0)
    assert (result.wrong, result.absolute, result.relative) == (2, 2.0, 2.0 / 14.0)
    one, other = found.reshape(-1).astype("float64"), wanted.reshape(-1).astype("float64")
    assert result.cosine == pytest.approx(
        one @ other / np.linalg.norm(one) / np.linalg.norm(other), rel=1e-12
    )


@pytest.mark.parametrize(("shape", "dtype"), [((3, 2), "float32"), ((2, 3), "float64")])
def test_another_shape_or_type_is_wrong(shape, dtype):
    result = compared("y", np.zeros(shape, dtype), np.zeros((2, 3), "float32"), Tolerance(1.0, 1.0, 0.0, ""))
    assert result.failure == f"it is {dtype}{list(shape)} instead of float32[2, 3]"


def chain(length):
    """A function of a number of negations."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(length):
                value = builder.emit(relax.op.negative(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()["main"]


def test_the_tolerance_grows_with_the_root_of_the_ops():
    """By Higham's rule: independent roundings."""
    few, many = (tolerance_for(chain(length - 1), "dnnl", {}) for length in (4, 100))
    assert many.rtol / few.rtol == pytest.approx((1 + math.sqrt(100)) / (1 + math.sqrt(4)))


def test_one_tolerance_that_is_asked_for_sets_the_other_to_zero():
    assert tolerance_for(chain(1), "dnnl", {}, rtol=0.5) == Tolerance(0.5, 0.0, 0.0, "asked for")
    assert tolerance_for(chain(1), "dnnl", {}, atol=0.5) == Tolerance(0.0, 0.5, 0.0, "asked for")
