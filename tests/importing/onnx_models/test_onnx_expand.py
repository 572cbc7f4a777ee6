"""Expand of symbolic tensors, and to shapes that only a run knows, and ranges, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from kits.importing.onnx_texts import HEAD, run

import annotated_region as ar
from annotated_region.errors import ModelError

KNOWN = {
    "a constant": "(float[n, 1] x) => (float[a, b] y) <int64[2] k = {1, 4}> { y = Expand(x, k) }",
    "a constant of fewer axes": """(float[n, 3, 1] x) => (float[a, b, c] y)
        <int64[2] k = {1, 4}> { y = Expand(x, k) }""",
    "a constant of more axes": """(float[n, 4] x) => (float[a, b, c] y)
        <int64[3] k = {2, 1, 4}> { y = Expand(x, k) }""",
    "nothing to do": """(float[n, 4] x) => (float[a, b] y)
        <int64[2] k = {1, 4}> { z = Relu(x) y = Expand(z, k) }""",
    "known parts": """(float[n, 1] x) => (float[a, b] y)
        <int64[1] one = {1}, int64[1] four = {4}> { k = Concat<axis = 0>(one, four) y = Expand(x, k) }""",
    "an extent of itself": """(float[n, 1] x) => (float[a, b] y) <int64[1] at = {0}, int64[1] four = {4}>
        { s = Shape(x) n0 = Gather<axis = 0>(s, at) k = Concat<axis = 0>(n0, four) y = Expand(x, k) }""",
    "an extent by a scalar": """(float[n, 1] x) => (float[a, b] y)
        <int64 at = {0}, int64[1] axis = {0}, int64[1] four = {4}>
        { s = Shape(x) e = Gather<axis = 0>(s, at) n0 = Unsqueeze(e, axis)
          k = Concat<axis = 0>(n0, four) y = Expand(x, k) }""",
}
COMPUTED = "(float[n, 1] x, int64[2] k) => (float[a, b] y) { z = Relu(x) y = Expand(z, k) }"
FIXED = "(float[5, 1] x, int64[2] k) => (float[a, b] y) { z = Relu(x) y = Expand(z, k) }"

TO_A_NUMBER = "(float[n, 2] x) => (float[a, b] y) <int64[2] k = {4, 2}> { z = Relu(x) y = Expand(z, k) }"
RUNS = ((3, (3, 4)), (1, (5, 2)), (1, (1, 1)), (4, (1, 2)), (1, (900, 3)))


each_target = pytest.mark.parametrize("targets", [[], ["dnnl"], ["onnxruntime"]], ids=str)


def tensor(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


@pytest.mark.sweep
@each_target
@pytest.mark.parametrize("name", KNOWN)
def test_a_symbolic_tensor_to_a_shape_known_in_part(name: str, targets: list[str]) -> None:
    rest = {"a constant of fewer axes": (3, 1), "a constant of more axes": (4,), "nothing to do": (4,)}
    shape = rest.get(name, (1,))
    run(KNOWN[name], targets, (tensor(3, *shape),), (tensor(1, *shape),))


@each_target
def test_a_shape_that_only_a_run_knows(targets: list[str]) -> None:
    calls = [(tensor(rows, 1), np.array(k, "int64")) for rows, k in RUNS]
    run(COMPUTED, targets, *calls)


@each_target
def test_an_extent_that_is_one_or_the_number_asked_for(targets: list[str]) -> None:
    run(TO_A_NUMBER, targets, (tensor(1, 2),), (tensor(4, 2),))


def test_a_number_of_the_tensor_is_the_results_whatever_a_run_asks_for() -> None:
    run(FIXED, [], (tensor(5, 1), np.array([1, 4], "int64")), (tensor(5, 1), np.array([5, 2], "int64")))


def test_extents_that_do_not_fit_are_a_line() -> None:
    text = "(float[5, 1] x) => (float[a, b] y) <int64[2] k = {4, 1}> { z = Relu(x) y = Expand(z, k) }"
    with pytest.raises(ar.ModelError, match=r"\(Expand\) asks for an extent of 4 in the place of 5"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


BEFORE = """<int64 at = {0}, int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3},
    int64[1] last = {1}>
    { s = Shape(x) n0 = Gather<axis = 0>(s, at) """
ROWS = "f = Cast<to = 1>(r) c = Unsqueeze(f, last) y = Add(x, c) }"
RANGES = {
    "of an axis": f"(float[n, 4] x) => (float[a, b] y) {BEFORE} r = Range(zero, n0, one) {ROWS}",
    "behind an axis": f"""(float[n, 4] x, float[m, 4] p) => (float[a, b] y) {BEFORE}
        t = Shape(p) m0 = Gather<axis = 0>(t, at) end = Add(m0, n0) r = Range(m0, end, one) {ROWS}""",
}


@each_target
@pytest.mark.parametrize("name", RANGES)
def test_a_range_is_as_long_as_extents_state(name: str, targets: list[str]) -> None:
    module = ar.from_onnx(onnx.parser.parse_model(HEAD + RANGES[name]))
    assert module["main"].ret_ty.shape.values[0].same_as(module["main"].params[0].ty.shape.values[0])
    more = [(tensor(5, 4),), (tensor(1, 4),)] if name == "behind an axis" else [(), ()]
    run(RANGES[name], targets, (tensor(3, 4), *more[0]), (tensor(1, 4), *more[1]))


@pytest.mark.parametrize("ends", ["zero, n0, two", "zero, n0, three", "three, n0, one", "n0, zero, one"])
def test_a_range_with_steps_and_one_that_may_be_empty(ends: str) -> None:
    text = f"(float[n] x) => (int64[a] y) {BEFORE} y = Range({ends}) }}"
    run(text, [], *((tensor(rows),) for rows in (1, 2, 3, 7)))


EXTENTS = {
    "numbers in a shape": "k = Concat<axis = 0>(rows, minus, four) y = Equal(k, minus) }",
    "an extent that may be the number": "y = Equal(s, one) }",
    "an extent of itself": "z = Relu(x) t = Shape(z) y = Equal(s, t) }",
    "numbers that are one": """z = Relu(x) t = Shape(z) m0 = Gather<axis = 0>(t, at) e = Equal(n0, m0)
        d = Not(e) y = Unsqueeze(d, axis) }""",
    "numbers that may be one": """m0 = Gather<axis = 0>(s, last) e = Equal(n0, m0) d = Not(e)
        y = Unsqueeze(d, axis) }""",
    "a number and a list": "y = Equal(one, n0) }",
    "a number that is never below zero": "e = Equal(n0, below) y = Unsqueeze(e, axis) }",
    "a computed number": "k = Cast<to = 7>(x) e = ReduceMax<keepdims = 0>(k) y = Equal(s, e) }",
}


@each_target
@pytest.mark.parametrize("name", EXTENTS)
def test_extents_are_compared_with_numbers(name: str, targets: list[str]) -> None:
    head = """(float[n, 4] x) => (bool[k] y)
        <int64 at = {0}, int64[1] axis = {0}, int64[1] minus = {-1}, int64[1] one = {1}, int64[1] four = {4},
         int64 last = {1}, int64 below = {-1}>
        { s = Shape(x) n0 = Gather<axis = 0>(s, at) rows = Unsqueeze(n0, axis) """
    run(head + EXTENTS[name], targets, (tensor(3, 4),), (tensor(1, 4),), (tensor(4, 4),))


def test_a_minus_one_that_is_replaced_as_pytorch_does() -> None:
    """The shape of an expansion: each -1 stands for 1."""
    text = """(float[n, 1, 4] x) => (float[a, b, c] y)
        <int64 at = {0}, int64[1] axis = {0}, int64[3] ones = {1, 1, 1}, int64 less = {-1},
         int64[2] rest = {-1, 4}>
        { s = Shape(x) n0 = Gather<axis = 0>(s, at) rows = Unsqueeze(n0, axis)
          k = Concat<axis = 0>(rows, rest) m = Mul(ones, less) e = Equal(k, m) w = Where(e, ones, k)
          y = Expand(x, w) }"""
    run(text, [], (tensor(3, 1, 4),), (tensor(1, 1, 4),))


PERMUTED = """(float[n, 2, 4] x) => (float[a, b, c] y) <int64[3] places = {PLACES}>
    { s = Shape(x) k = Gather<axis = 0>(s, places) z = Relu(x) y = Reshape(z, k) }"""


@each_target
def test_extents_that_are_permuted_remain_known(targets: list[str]) -> None:
    text = PERMUTED.replace("PLACES", "2, 0, -2")
    module = ar.from_onnx(onnx.parser.parse_model(HEAD + text))
    assert module["main"].ret_ty.shape.values[1].same_as(module["main"].params[0].ty.shape.values[0])
    run(text, targets, (tensor(3, 2, 4),), (tensor(1, 2, 4),))


EXTENT = """<int64 at = {0}, int64[1] rest = {-1}, int64[1] two = {2}, int64[2] square = {1, 1}>
    { s = Shape(x) n0 = Gather<axis = 0>(s, at) """
LISTED = f"(float[n, 4] x) => (float[a, b, c] y) {EXTENT} k = Reshape(n0, rest) " + (
    "t = Concat<axis = 0>(two, k, two) y = Reshape(x, t) }"
)


@each_target
def test_one_extent_is_reshaped_to_a_list(targets: list[str]) -> None:
    module = ar.from_onnx(onnx.parser.parse_model(HEAD + LISTED))
    assert module["main"].ret_ty.shape.values[1].same_as(module["main"].params[0].ty.shape.values[0])
    run(LISTED, targets, (tensor(3, 4),), (tensor(1, 4),))


def test_one_extent_is_reshaped_to_a_matrix() -> None:
    text = f"(float[n, 4] x) => (int64[a, b] y) {EXTENT} y = Reshape(n0, square) }}"
    run(text, [], (tensor(3, 4),), (tensor(1, 4),))


def test_an_extent_that_is_not_there_is_declined() -> None:
    with pytest.raises(ModelError, match=r"Gather\) reads the extents \[2, 0, 3\] of 3"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + PERMUTED.replace("PLACES", "2, 0, 3")))


def test_a_negative_extent_is_declined() -> None:
    text = "(float[n, 1] x) => (float[a, b] y) <int64[2] k = {-1, 4}> { z = Relu(x) y = Expand(z, k) }"
    with pytest.raises(ModelError, match=r"Expand\) asks for a negative extent"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))
