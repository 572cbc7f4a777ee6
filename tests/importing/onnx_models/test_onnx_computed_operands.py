"""Paddings, sizes of parts and axes that a model computes from the extents of its inputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from kits.importing.onnx_texts import HEAD, machine_of, run, run_model

import annotated_region as ar

TARGETS = ("onnxruntime", "dnnl", "openvino")


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


TO_LENGTH = """(float[2, n, 3] x) => (float[a, b, c] y)
    <int64 one = {{1}}, int64 length = {{6}}, int64[1] at = {{0}}, int64[2] front = {{0, {before}}},
     int64[2] rest = {{0, 0}}> {{
    s = Shape(x) n = Gather(s, one) d = Sub(length, n) u = Unsqueeze(d, at)
    p = Concat<axis = 0>(front, rest, u, at) y = Pad<mode = "{mode}">(x, p)
}}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("mode", "before"), [("constant", 0), ("edge", 2), ("reflect", 1)])
def test_data_is_padded_or_cropped_to_a_length(mode: str, before: int, target: str) -> None:
    text = TO_LENGTH.format(mode=mode, before=before)
    run(text, [target], *((numbers(2, extent, 3),) for extent in (4, 6, 9)))


def test_calls_that_mirror_more_than_there_is_are_refused() -> None:
    machine = machine_of(onnx.parser.parse_model(HEAD + TO_LENGTH.format(mode="reflect", before=0)))
    with pytest.raises(ValueError, match="extents for which its model is not defined"):
        machine["main"](tvm.runtime.tensor(numbers(2, 2, 3)))


VECTORS = """(float[2, n, 3] x) => (float[a, b, c] y)
    <int64[1] one = {1}, int64[1] eight = {8}, int64[1] at = {0}, int64[3] front = {0, 0, 0}> {
    s = Shape(x) n = Gather(s, one) m = Mod(n, eight) d = Sub(eight, m) r = Mod(d, eight)
    p = Concat<axis = 0>(front, at, r, at) y = Pad(x, p)
}"""


def test_paddings_are_computed_as_vectors_of_one_number() -> None:
    run(VECTORS, ["dnnl"], *((numbers(2, extent, 3),) for extent in (1, 8, 11)))


BELOW = """(float[n, 3] x) => (float[a, b] y)
    <int64[1] seven = {7}, int64[1] four = {4}, int64[1] at = {0}, int64[3] front = {0, 0, 0}> {
    s = Shape(x) n = Gather(s, at) d = Sub(seven, n) m = Mod(d, four) p = Concat<axis = 0>(at, at, m, at)
    y = Pad(x, p)
}"""


def test_remainders_of_numbers_below_zero_have_the_sign_of_the_divisor() -> None:
    run(BELOW, [], *((numbers(extent, 3),) for extent in (5, 7, 9, 12)))


HALVES = """(float[2, n, 3] x) => (float[a, b, c] y)
    <int64[1] one = {1}, int64[1] two = {2}> {
    s = Shape(x) n = Gather(s, one) h = Div(n, two) r = Sub(n, h) p = Concat<axis = 0>(h, r)
    u, v = Split<axis = -2>(x, p) e = Exp(u) m = ReduceMean<axes = [1]>(e) y = Add(v, m)
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_parts_have_computed_sizes(target: str) -> None:
    run(HALVES, [target], *((numbers(2, extent, 3),) for extent in (2, 4, 7)))


def test_parts_of_another_axis_are_refused_in_the_call() -> None:
    text = HALVES.replace("Gather(s, one)", "Gather(s, zero)").replace(
        "<int64", "<int64[1] zero = {0}, int64", 1
    )
    machine = machine_of(onnx.parser.parse_model(HEAD + text.replace("[2, n", "[m, n")))
    assert machine["main"](tvm.runtime.tensor(numbers(4, 4, 3))).numpy().shape == (4, 2, 3)
    with pytest.raises(ValueError, match="extents for which its model is not defined"):
        machine["main"](tvm.runtime.tensor(numbers(2, 4, 3)))


def test_empty_parts_of_an_axis_of_any_extent() -> None:
    text = """(float[n, 3] x) => (float[a, b] y) <int64[3] p = {0, 2, 2}> {
        u, v, w = Split(x, p) d = Sub(v, w) y = Concat<axis = 0>(u, d)
    }"""
    run(text, ["openvino"], (numbers(4, 3),))


LAST_AXIS = """(float[n, 4, 3] x) => (float[a, b, c] y) <int64 one = {1}> {
    s = Shape(x) r = Shape(s) d = Sub(r, one) y = CumSum(x, d)
}"""


def test_sums_along_an_axis_that_is_computed_from_the_rank() -> None:
    run(LAST_AXIS, ["dnnl"], (numbers(2, 4, 3),), (numbers(1, 4, 3),))
    given = LAST_AXIS.replace("x) =>", "x, int64 d) =>").replace(
        "s = Shape(x) r = Shape(s) d = Sub(r, one)", ""
    )
    with pytest.raises(ar.ModelError, match="has an axis that is not constant"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + given))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_largest_of_an_axis_of_any_extent(axis: int, target: str) -> None:
    text = f"(float[m, n, k] x) => (float[m, n, k] y) {{ y = Hardmax<axis = {axis}>(x) }}"
    ties = np.round(numbers(2, 5, 3))
    run(text, [target], (numbers(2, 3, 4),), (ties,))


SCATTERED = """(float[4, n] x, int64[2, 1] p, float[2, m] u) => (float[4, n] y) { y = ScatterND(x, p, u) }"""
GATHERED = """(float[n, 4] x, int64[m, 2, 1] p) => (float[n, 2] y) { y = GatherND<batch_dims = 1>(x, p) }"""
TURNED = """(float[4, n, 3] x, int64[m] p) => (float[4, n, 3] y)
    { y = ReverseSequence<time_axis = 0, batch_axis = 1>(x, p) }"""


@pytest.mark.parametrize("length", [2, 3])
def test_extents_that_must_be_equal_are_checked(length: int) -> None:
    """Where one is less, elements behind the end would be read; some calls could not be built."""
    places = np.resize([3, 0], length * 2).astype("int64")
    cases = [
        (SCATTERED, (numbers(4, length), places[:2, None], numbers(2, length)), numbers(2, 5), 2),
        (GATHERED, (numbers(length, 4), places.reshape(length, 2, 1)), np.zeros((5, 2, 1), "int64"), 1),
        (TURNED, (numbers(4, length, 3), places[:length] + 1), np.ones(5, "int64"), 1),
    ]
    for text, call, other, place in cases:
        machine = run(text, [], call)
        changed = [*call[:place], other, *call[place + 1 :]]
        with pytest.raises(ValueError, match="extents for which its model is not defined"):
            machine["main"](*map(tvm.runtime.tensor, changed))


PARTLY = """(float[2, n, m] x, int64[2, 2, 3] p) => (float[2, 2, 3] y)
    { e = Exp(x) g = GatherElements<axis = 1>(e, p) y = Neg(g) }"""


@pytest.mark.parametrize("target", TARGETS)
def test_elements_are_gathered_from_a_part_of_the_other_axes(target: str) -> None:
    """OpenVINO would refuse the call: it takes indices as long as the data."""
    places = np.array([[[0, 1, 2], [1, 2, 0]]] * 2)
    run(PARTLY, [target], (numbers(2, 3, 3), places), (numbers(2, 3, 5), places))


OTHER_ROWS = """(float[12] x, float[n, 3] z) => (float[a, b] y) <int64[1] at = {0}, int64[1] rest = {-1}> {
    s = Shape(z) n = Gather(s, at) p = Concat<axis = 0>(n, rest) y = Reshape(x, p)
}"""


def test_a_call_that_divides_by_an_extent_of_nothing_is_refused() -> None:
    """The division ended the process."""
    machine = run(OTHER_ROWS, [], (numbers(12), numbers(4, 3)))
    with pytest.raises(ValueError, match="extents for which its model is not defined"):
        machine["main"](tvm.runtime.tensor(numbers(12)), tvm.runtime.tensor(numbers(0, 3)))


SELECTED_ROWS = """(float[12] x, float[5] z, int64[1] b, int64[1] e) => (float[a, c] y)
    <int64[1] at = {0}, int64[1] rest = {-1}> {
    w = Slice(z, b, e) s = Shape(w) n = Gather(s, at) p = Concat<axis = 0>(n, rest) y = Reshape(x, p)
}"""


def test_an_extent_of_nothing_that_a_call_computes_is_that_of_the_data() -> None:
    """As ONNX reads 0 in a shape."""
    calls = [(numbers(12), numbers(5), np.array([1]), np.array([end])) for end in (4, 1)]
    run(SELECTED_ROWS, [], *calls)


JOINED = {
    "a norm": (
        "(float[n, 3, 4] x, float[m, 4] s, float[3, 4] b) => (float[n, 3, 4] y)"
        "{ y = LayerNormalization<axis = 1>(x, s, b) }",
        [(2, 3, 4), (3, 4), (3, 4)],
    ),
    "a skipped norm": (
        "(float[3, n, 4] x, float[3, m, 4] s, float[4] b) => (float[3, n, 4] y)"
        "{ y = com.microsoft.SkipLayerNormalization(x, s, b) }",
        [(3, 2, 4), (3, 2, 4), (4,)],
    ),
    "scores": (
        "(float[n, 3, 4] x, float[m, 1, 3, 3] s) => (float[n, 3, 4] y)"
        '{ y = com.microsoft.MultiHeadAttention<num_heads = 2>(x, x, x, "", "", s) }',
        [(2, 3, 4), (2, 1, 3, 3)],
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_operands_have_the_extents_of_the_data(name: str) -> None:
    """Some were refused, others failed in the build: TVM gives sums of unequal extents no shape."""
    text, shapes = JOINED[name]
    head = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g '
    run_model(onnx.parser.parse_model(head + text), [], tuple(numbers(*shape) for shape in shapes))


REST_OF_ROWS = """(float[1, 4, n] x, float[1, 2, 4] w, float[1, 2, 2] r) => (float[a, 1, 1, 2] y)
    <int64[1] two = {2}, int64[2] rest = {1, -1}> {
    c = AveragePool<kernel_shape = [3]>(x) t = Transpose<perm = [2, 0, 1]>(c)
    s = Shape(c) m = Gather(s, two) p = Concat<axis = 0>(m, rest) d = Reshape(t, p)
    y, h = RNN<hidden_size = 2>(d, w, r)
}"""


def test_the_rest_of_rows_that_are_counted_is_a_number() -> None:
    """A recurrent layer needs it: ``(4 * n - 8) // (n - 2)`` is 4 in each call that is not refused."""
    weights = numbers(1, 2, 4), numbers(1, 2, 2)
    run(REST_OF_ROWS, [], *((numbers(1, 4, n), *weights) for n in (3, 6)))


def test_a_bound_that_is_an_extent() -> None:
    """Of relative positions, as PyTorch exports DeBERTa."""
    text = """(float[n, h] x) => (float[n, h] y) <int64 zero = {0}, int64[1] at = {0}> {
        s = Shape<start = 1, end = 2>(x) e = Squeeze(s, at) i = Cast<to = 7>(x) c = Clip(i, zero, e)
        y = Cast<to = 1>(c) }"""
    run(text, ["dnnl"], *((10 * np.random.default_rng(3).random((2, n), "float32"),) for n in (4, 1)))


def test_one_column_that_is_left_of_a_slice_is_repeated() -> None:
    """Of the slopes of positions in MPT: 1 - max(1 - n, 0) columns are one, and were required to be n."""
    text = """(float[3, n] x, float[3, 1] w) => (float[3, n] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] at = {0}, int64[1] last = {100}, int64[1] axis = {1}> {
        s = Shape<start = 1, end = 2>(x) e = Squeeze(s, at) d = Sub(one, e) m = Max(zero, d)
        b = Unsqueeze(m, at) c = Slice(w, b, last, axis) y = Add(c, x) }"""
    rng = np.random.default_rng(3)
    run(text, ["dnnl"], *((rng.random((3, n), "float32"), rng.random((3, 1), "float32")) for n in (4, 1)))


def test_padding_to_whole_windows_that_are_counted_in_floats() -> None:
    """EnCodec rounds the number of its windows up, of any length; TVM rounds tensors alone."""
    text = """(float[1, 2, n] x) => (float[1, 2, k] y) <int64[1] at = {0}, int64[5] none = {0, 0, 0, 0, 0},
        int64 taps = {3}, int64 one = {1}, int64 step = {2}, float width = {2.0}, float first = {1.0}> {
        s = Shape<start = 2, end = 3>(x) e = Squeeze(s, at) d = Sub(e, taps) c = Cast<to = 1>(d)
        q = Div(c, width) p = Add(q, first) u = Ceil(p) w = Cast<to = 7>(u) v = Sub(w, one) t = Mul(v, step)
        f = Add(t, taps) r = Sub(f, e) z = Unsqueeze(r, at) a = Concat<axis = 0>(none, z) y = Pad(x, a) }"""
    run(text, ["dnnl"], *((numbers(1, 2, n),) for n in (7, 8, 3)))
