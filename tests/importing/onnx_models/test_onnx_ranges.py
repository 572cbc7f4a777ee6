"""`Range` between numbers computed from extents, and extents that are below zero for small inputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from kits.importing.onnx_texts import HEAD, run
from kits.passes.preparation.preparation_kit import ops

import annotated_region as ar

START = (
    "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 back = {-1}, int64 far = {-3}, int64 at = {1}"
)
RANGES = {
    "falling from the end": ("a = Sub(n, one)", "Range(a, back, back)"),
    "falling through zero, as relative positions": ("a = Sub(n, one) b = Neg(n)", "Range(a, b, back)"),
    "falling in steps": ("a = Mul(n, two)", "Range(a, zero, far)"),
    "falling from a number": ("a = Neg(n)", "Range(two, a, back)"),
    "rising, which may be empty": ("a = Sub(n, two)", "Range(zero, a, one)"),
    "rising in steps, which may be empty": ("a = Sub(n, two) b = Mul(n, two)", "Range(two, a, two)"),
    "rising from an extent": ("a = Mul(n, two)", "Range(n, a, two)"),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_between_extents_are_of_known_length(name: str) -> None:
    """TVM's were of a length that the call computes, on the host."""
    numbers, places = RANGES[name]
    text = f"""(float[b, n] x) => (int64[k] y) <{START}> {{
        s = Shape(x) n = Gather(s, at) {numbers} r = {places} y = Add(r, one) }}"""
    run(text, ["dnnl"], *[(np.zeros((1, extent), "float32"),) for extent in (1, 2, 5, 6)])
    mod = ar.partition(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"])
    assert set(ops(mod)) <= {"GlobalVar", "call_dps_packed"}


BEHIND_A_CONVOLUTION = {
    "positions": "r = Range(zero, l, one) f = Cast<to = 1>(r) y = Add(c, f)",
    "backwards": "z = Slice(c, ends, last, axes, ends) y = Add(c, z)",
    "masks": """r = Range(zero, l, one) m = Less(r, two) i = Equal(s, minus) o = ConstantOfShape(t)
        j = Cast<to = 7>(o) k = Add(j, one) h = Where(i, k, s) e = Expand(m, h)
        f = Cast<to = 1>(e) y = Add(c, f)""",
}


@pytest.mark.parametrize("name", BEHIND_A_CONVOLUTION)
def test_an_extent_behind_a_convolution_is_no_negative_number(name: str) -> None:
    """``(n - 6) // 4 + 1`` would be below zero for short lines, of which there is no convolution."""
    text = f"""(float[b, 1, n] x) => (float[b, 1, k] y) <{START}, int64[1] ends = {{-1}},
        int64[1] axes = {{2}}, int64[1] last = {{-9223372036854775807}}, int64[1] minus = {{-1}},
        int64[1] t = {{3}}, int64 third = {{2}}, float[1, 1, 6] w = {{1, 2, 3, -1, -2, 0.5}}> {{
        c = Conv<strides = [4]>(x, w) s = Shape(c) l = Gather(s, third) {BEHIND_A_CONVOLUTION[name]} }}"""
    lines = [
        np.random.default_rng(1).standard_normal((2, 1, extent)).astype("float32") for extent in (6, 13, 30)
    ]
    run(text, ["dnnl"], *[(each,) for each in lines])
    imported = ar.from_onnx(onnx.parser.parse_model(HEAD + text))
    assert "strided_slice" not in ops(imported)  # a line backwards has as many elements
    assert set(ops(ar.partition(imported, ["dnnl"]))) <= {"GlobalVar", "call_dps_packed"}


def test_columns_are_counted_by_the_rows_of_another_input() -> None:
    """PyTorch's exporter does so for a mask whose batch has a name of its own."""
    text = f"""(float[b, n] x, float[a, k] m) => (float[b, q] y) <{START}, int64[1] rest = {{-1}}> {{
        s = Shape(m) a = Gather(s, zero) k = Gather(s, one) u = Mul(a, k) t = Shape(x) b = Gather(t, zero)
        d = Div(u, b) r = Range(zero, d, one) f = Cast<to = 1>(r) i = Unsqueeze(b, axis)
        w = Concat<axis = 0>(i, rest) v = Reshape(m, w) y = Add(v, f) }}""".replace(
        "int64 at", "int64[1] axis = {0}, int64 at"
    )
    masks = [np.random.default_rng(3).standard_normal(shape).astype("float32") for shape in ((2, 4), (6, 2))]
    machine = run(text, ["dnnl"], *[(np.zeros((2, 3), "float32"), mask) for mask in masks])
    mod = ar.partition(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"])
    assert set(ops(mod)) <= {"GlobalVar", "call_dps_packed"}
    with pytest.raises(ValueError, match=r"min\(b, 1\) must be 1"):
        machine["main"](*map(tvm.runtime.tensor, (np.zeros((0, 3), "float32"), masks[0])))


COUNTED = """(float[n, 3] x) => (float[n, 3] y) <int64[1] zero = {0}, int64[1] one = {1}> {
    s = Shape(x) n0 = Slice(s, zero, one) ones = ConstantOfShape<value = int64[1] {1}>(n0) p = NonZero(ones)
    t = Transpose<perm = [1, 0]>(p) rows = Squeeze(t, one) g = Gather(x, rows)
    f = Cast<to = 1>(t) y = Add(g, f) }"""


def test_places_of_ones_are_as_many_as_there_are_ones() -> None:
    """So PyTorch's exporter counts rows for an assignment; how many are not zero was for the call to find."""
    run(COUNTED, ["dnnl"], *((numbers_of_rows(rows),) for rows in (4, 1, 7, 0)))
    mod = ar.partition(ar.from_onnx(onnx.parser.parse_model(HEAD + COUNTED)), ["dnnl"])
    assert set(ops(mod)) <= {"GlobalVar", "call_dps_packed"}


@pytest.mark.parametrize("data", ["z = Mul(x, x)", "z = ConstantOfShape<value = float[1] {0}>(s)"])
def test_places_of_other_numbers_are_counted_in_the_call(data: str) -> None:
    text = f"(float[n] x) => (int64[one, m] y) {{ s = Shape(x) {data} y = NonZero(z) }}"
    run(text, [], (np.array([2, 0, 1], "float32"),), (np.zeros(2, "float32"),))


FIRST_ROW = """(float[n, 1] x, float[m, 1] z) => (float[k, 4] y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}> {
    both = Concat<axis = 0>(x, z) first = Slice(z, zero, one, zero) s = Shape(first)
    rows = Slice(s, zero, one) k = Concat<axis = 0>(rows, four) e = Expand(both, k) y = Add(e, both) }"""


def test_as_many_rows_as_a_first_row_has_are_all_rows() -> None:
    """So PyTorch's exporter adds rows at places (`index_add`, in graph networks): min(1, m) of n + m rows."""
    calls = [(numbers_of_rows(n)[:, :1], numbers_of_rows(m)[:, :1]) for n, m in ((3, 2), (0, 1), (5, 4))]
    run(FIRST_ROW, ["dnnl"], *calls)
    mod = ar.partition(ar.from_onnx(onnx.parser.parse_model(HEAD + FIRST_ROW)), ["dnnl"])
    assert set(ops(mod)) <= {"GlobalVar", "call_dps_packed"}


def numbers_of_rows(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, 3)).astype("float32")
