"""Extents as polynomials: what is simplified, what is equal, and that values stay, of any numbers."""

from __future__ import annotations

import operator
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from annotated_region.functions.polynomials import are_equal, simplified
from annotated_region.tvm_adapter.arithmetic import provably_equal

N, M = (tirx.Var(name, "int64") for name in "nm")
COMPUTED = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
}


def whole(number):
    return tirx.IntImm("int64", number)


WHOLE = N + (64 - N % 64) % 64


def test_blocks_of_a_padded_length_are_simple():
    assert str(simplified(WHOLE // 64)) == str((N + 63) // 64)
    assert str(simplified(WHOLE // (WHOLE // 64))) == str(whole(64))
    assert str(simplified(M * WHOLE * 4 * 16 // (M * 64 * 4 * 16))) == str((N + 63) // 64)


@pytest.mark.parametrize("extent", [N, N + M, N * M, (N + 63) // 64, N % 64, tirx.Max(N, M) // 2])
def test_what_is_simple_stays_as_it_is(extent):
    assert simplified(extent) is extent


@pytest.mark.parametrize(
    "extent", [N // (M - M), (N // M) % (M - M), tirx.Cast("int32", N) // tirx.IntImm("int32", 2)]
)
def test_what_has_no_meaning_in_whole_numbers_stays_as_it_is(extent):
    assert simplified(extent) is extent


def test_lengths_of_whole_blocks_are_equal_though_tvm_cannot_prove_it():
    opposite = N - N % whole(-64)
    assert not provably_equal(WHOLE // (WHOLE // 64), 64)
    assert are_equal(WHOLE // (WHOLE // 64), 64)
    assert are_equal(WHOLE, opposite)
    assert not are_equal(WHOLE, N)
    assert not are_equal(WHOLE // 64, N // 64)


def test_large_polynomials_are_left_as_they_are():
    extent = N
    for _ in range(40):
        extent = (extent + M) * (extent // 2 + N)
    assert simplified(extent) is extent


def _any_extent(choose, depth):
    if depth == 0:
        return choose.choice([N, M, *map(whole, (1, 2, 3, 4, 6, 64, -2, -4))])
    kind = choose.choice(list(COMPUTED))
    return kind(_any_extent(choose, depth - 1), _any_extent(choose, choose.randrange(depth)))


def _value(extent, values):
    if isinstance(extent, tirx.IntImm):
        return int(extent)
    if isinstance(extent, tirx.Var):
        return values[extent.name]
    return COMPUTED[type(extent)](_value(extent.a, values), _value(extent.b, values))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(-70, 200), st.integers(-9, 9))
def test_what_is_simplified_has_the_same_value(seed, n, m):
    """The reference is Python, whose quotients are rounded down as well."""
    extent = _any_extent(random.Random(seed), seed % 6)
    values = {"n": n, "m": m}
    try:
        expected = _value(extent, values)
    except ZeroDivisionError:
        return
    assert _value(simplified(extent), values) == expected
