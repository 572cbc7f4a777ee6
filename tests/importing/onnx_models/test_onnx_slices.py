"""`Slice` along axes of unknown extent, and between bounds that are computed from extents."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from kits.importing.onnx_texts import HEAD, machine_of, run
from tvm import runtime

import annotated_region as ar

FIRST, LAST = -(2**63), 2**63 - 1


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype("float32")


BOUNDS = [
    (-1, FIRST, -1), (-1, FIRST + 1, -1), (-1, -(2**31), -1), (-1, FIRST + 1, -2), (-2, 0, -1),
    (2, FIRST + 1, -1), (LAST, -4, -2), (1, LAST, 1), (0, 2**31 - 1, 1), (-3, LAST, 1), (0, -1, 1),
    (FIRST, LAST, 2), (1, -1, 2), (-4, -2, 1), (2, -1, 1), (-3, 2, 1), (1, -2, 2), (-1, 1, -1), (1, -3, -1),
    (-2, 3, -2), (3, 3, 1), (-1, -2, 1), (1, 4, -1), (-1, FIRST, 1), (LAST, 3, 1), (-2, FIRST, -1),
    (-4, -9, -1), (-3, -3, -1), (-8, -7, -1),
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["dnnl", "onnxruntime"])
@pytest.mark.parametrize(("start", "end", "step"), BOUNDS)
def test_axes_of_unknown_extent(start: int, end: int, step: int, target: str) -> None:
    """Images are flipped so; TVM computed with the farthest bounds, and its extents overflowed.

    Nothing is between some bounds, along any axis or along a short one, where TVM's extents are negative.
    """
    text = f"""(float[n, t, 4] x) => (float[n, u, 4] y) <int64[1] a = {{1}}, int64[1] s = {{{start}}},
        int64[1] e = {{{end}}}, int64[1] k = {{{step}}}> {{ z = Slice(x, s, e, a, k) y = Relu(z) }}"""
    run(text, [target], *[(numbers(1, extent, 4),) for extent in (5, 2, 7, 1)])


@pytest.mark.parametrize("extent", [1, 2, 5, 7])
def test_axes_of_known_extent(extent: int) -> None:
    """All bounds at once, each from the same tensor."""
    results = [f"y{place}" for place in range(len(BOUNDS))]
    lines = [
        f"s{place} = Constant<value_ints = [{start}]>() e{place} = Constant<value_ints = [{end}]>() "
        f"k{place} = Constant<value_ints = [{step}]>() y{place} = Slice(x, s{place}, e{place}, a, k{place})"
        for place, (start, end, step) in enumerate(BOUNDS)
    ]
    named = ", ".join(f"float[u{place}, 2] {name}" for place, name in enumerate(results))
    text = f"(float[{extent}, 2] x) => ({named}) <int64[1] a = {{0}}> {{ {' '.join(lines)} }}"
    model = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = numbers(extent, 2)
    for found, expected in zip(
        machine_of(model)["main"](runtime.tensor(given)), session.run(None, {"x": given}), strict=True
    ):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_flips_are_of_the_extents_of_their_operand() -> None:
    """A sum of both was of unknown shape."""
    text = """(float[n, 2, h, w] x) => (float[n, 2, h, w] y) <int64[2] a = {2, 3}, int64[2] s = {-1, -1},
        int64[2] e = {-9223372036854775807, -9223372036854775807}> {
        z = Slice(x, s, e, a, s) y = Add(x, z) }"""
    mod = machine_of(onnx.parser.parse_model(HEAD + text), ["dnnl"])
    image = numbers(1, 2, 3, 5)
    found = mod["main"](runtime.tensor(image)).numpy()
    np.testing.assert_array_equal(found, image + image[:, :, ::-1, ::-1])


COMPUTED = {
    "the last rows": ("d = Neg(k) z = Slice(x, d, last, a)", [(6, 4), (7, 7)]),
    "all but the last rows": ("d = Neg(k) z = Slice(x, first, d, a)", [(6, 4), (7, 7)]),
    "up to the end": ("d = Sub(n, k) z = Slice(x, d, last, a)", [(6, 4), (7, 7)]),
    "beyond the end": ("d = Add(n, k) z = Slice(x, first, d, a)", [(6, 4), (2, 3)]),
    "from an extent to another": ("z = Slice(x, k, n, a)", [(6, 4), (7, 7)]),
    "with numbers outside": (
        "b = Concat<axis = 0>(first, low) e = Concat<axis = 0>(k, high) z = Slice(x, b, e, both)",
        [(6, 4), (7, 7)],
    ),
    "every second row": ("z = Slice(x, first, k, a, two)", [(6, 4), (7, 7), (7, 3)]),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_bounds_that_are_computed_from_extents(name: str) -> None:
    """ONNX counts negative ones from the end, and ends beyond the axis are its end."""
    how, calls = COMPUTED[name]
    text = f"""(float[n, 3] x, float[k, 2] y) => (float[a, b] z1) <int64[1] a = {{0}}, int64[1] first = {{0}},
        int64[1] last = {{9223372036854775807}}, int64[1] low = {{-9}}, int64[1] high = {{9}},
        int64[2] both = {{0, 1}}, int64[1] two = {{2}}> {{
        sx = Shape(x) sy = Shape(y) n = Gather(sx, a) k = Gather(sy, a) {how} z1 = Relu(z) }}"""
    run(text, ["dnnl"], *((numbers(n, 3), numbers(k, 2)) for n, k in calls))


OUTSIDE = {
    "a table": ("(float[k, 2] y) => (float[a, 2] z) <float[3, 2] x = {1, 2, 3, 4, 5, 6}>", "k, 3"),
    "a tensor": ("(float[k, 2] y, float[n, 2] x) => (float[a, 2] z)", "k, n"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_slice_that_ends_behind_another_tensor_is_refused(name: str) -> None:
    """It read memory behind the tensor."""
    head, pair = OUTSIDE[name]
    initializers = ", " if "<" in head else " <"
    text = f"""{head.removesuffix(">")}{initializers}int64[1] a = {{0}}> {{
        s = Shape(y) k = Gather(s, a) c = Slice(x, a, k, a) z = Relu(c) }}"""
    machine = machine_of(onnx.parser.parse_model(HEAD + text), ["dnnl"])
    more = [runtime.tensor(numbers(3, 2))] if name == "a tensor" else []
    assert machine["main"](runtime.tensor(numbers(3, 2)), *more).numpy().shape == (3, 2)
    with pytest.raises(ValueError, match=rf"model is not defined: min\({pair}\) must be k"):
        machine["main"](runtime.tensor(numbers(4, 2)), *more)


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime"])
@pytest.mark.parametrize("axis", [0, 1])
def test_at_most_as_many_of_the_largest_as_there_are(axis: int, target: str) -> None:
    """Detectors keep so many boxes; the number was refused."""
    text = f"""(float[n, t] x) => (float[a, b] y) <int64[1] at = {{{axis}}}, int64[1] most = {{3}}> {{
        s = Shape(x) l = Gather(s, at) k = Min(l, most) v, p = TopK<axis = {axis}, largest = {axis}>(x, k)
        f = Cast<to = 1>(p) y = Add(v, f) }}"""
    run(text, [target], (numbers(2, 5),), (numbers(4, 2),), (numbers(1, 1),))


@needs_onednn
@pytest.mark.parametrize(
    ("start", "end", "step"), [(-1, -(2**63), -1), (6, 1, -2), (99, -8, -3), (-99, -9, -1)]
)
def test_steps_backwards_along_axes_of_known_extent_are_in_a_region(start: int, end: int, step: int) -> None:
    """The reversed axis in steps forward, which targets know; N-BEATS flips its windows."""
    bounds = (
        f"int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] by = {{{step}}}, int64[1] axis = {{1}}"
    )
    text = f"(float[n, 8] x) => (float[n, m] y) <{bounds}> {{ z = Slice(x, s, e, axis, by) y = Relu(z) }}"
    run(text, ["dnnl"], (np.random.default_rng(5).standard_normal((3, 8)).astype("float32"),))
    module = ar.partition(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"])
    assert not ops_on_host(module, "main")
