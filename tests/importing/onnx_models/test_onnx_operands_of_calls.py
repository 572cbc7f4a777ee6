"""Shapes, counts, sizes and paddings that only a call tells, as inputs of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.importing.onnx_texts import HEAD, machine_of

OPERATORS = HEAD.replace('"" : 17', '"" : 18, "com.microsoft" : 1')

Call = tuple[np.ndarray, ...]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def listed(*given: int) -> np.ndarray:
    return np.array(given, "int64")


def compare(text: str, target: str, calls: Sequence[Call]) -> None:
    """All results of each call, beside ONNX Runtime."""
    model = onnx.parser.parse_model(OPERATORS + text)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    machine = machine_of(model, [target] if target else [])
    for call in calls:
        expected = session.run(None, dict(zip((each.name for each in model.graph.input), call, strict=True)))
        result = machine["main"](*map(tvm.runtime.tensor, call))
        found = [result] if len(expected) == 1 else list(result)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=2e-6, atol=1e-6)


SHAPED: Mapping[str, tuple[str, Sequence[Call]]] = {
    "a sum": (
        "(float[n, k] x, int64[2] s, float[m, 3] w) => (float[a, b] y) { r = Reshape(x, s) y = Add(r, w) }",
        [(numbers(4, 3), listed(-1, 3), numbers(4, 3)), (numbers(2, 6), listed(4, 3), numbers(4, 3))],
    ),
    "a choice, joined": (
        """(float[n, 3] x, int64[2] s, int64[2] t) => (float[a, b] y) {
            r = Reshape(x, s) q = Reshape(x, t) c = Less(r, q) v = Where(c, r, q) y = Concat<axis = 0>(v, x)
        }""",
        [(numbers(4, 3), listed(4, 3), listed(-1, 3)), (numbers(2, 3), listed(2, -1), listed(2, 3))],
    ),
    "a norm": (
        """(float[n, 3] x, int64[3] s, float[2, 3] w) => (float[a, b, c] y)
            { r = Reshape(x, s) y = LayerNormalization<axis = 1>(r, w) }""",
        [(numbers(4, 3), listed(2, 2, 3), numbers(2, 3)), (numbers(2, 3), listed(-1, 2, 3), numbers(2, 3))],
    ),
}


@pytest.mark.parametrize("target", ["", "onnxruntime", "dnnl"])
@pytest.mark.parametrize("name", SHAPED)
def test_extents_that_a_call_computes_are_those_of_other_operands(name: str, target: str) -> None:
    """TVM gives such sums no shape, and cannot build them."""
    text, calls = SHAPED[name]
    compare(text, target, calls)


@pytest.mark.parametrize("target", ["", "dnnl"])
def test_other_extents_are_refused_before_they_are_read(target: str) -> None:
    machine = machine_of(onnx.parser.parse_model(HEAD + SHAPED["a sum"][0]), [target] if target else [])
    for given, shape, other in [((2, 3), (1, 6), (1, 3)), ((4, 3), (4, 3), (2, 3))]:
        call = map(tvm.runtime.tensor, (numbers(*given), listed(*shape), numbers(*other)))
        message = r"not defined: \w+ must be \w+ for 'Add:y', where .* is computed in the call"
        with pytest.raises(ValueError, match=message):
            machine["main"](*call)


OPERANDS: Mapping[str, tuple[str, Sequence[Call]]] = {
    "a norm without a bias": (
        "(float[n, m, 3] x, float[k, 3] w) => (float[a, b, c] y) { y = LayerNormalization<axis = 1>(x, w) }",
        [(numbers(2, 4, 3), numbers(4, 3)), (numbers(1, 2, 3), numbers(2, 3))],
    ),
    "a skipped norm with a bias": (
        """(float[n, 3, m] x, float[k] w, float[l] b) => (float[a, c, d] y) {
            s = com.microsoft.SkipLayerNormalization(x, x, w) y = com.microsoft.FastGelu(s, b)
        }""",
        [(numbers(2, 3, 4), numbers(4), numbers(4)), (numbers(1, 3, 2), numbers(2), numbers(2))],
    ),
    "a product of packed weights": (
        """(float[n, m] x, uint8[4, 1, 8] w, float[4] s) => (float[a, b] y)
            { y = com.microsoft.MatMulNBits<K = 16, N = 4, bits = 4, block_size = 16>(x, w, s) }""",
        [(numbers(2, 16), np.arange(32, dtype="uint8").reshape(4, 1, 8), numbers(4))],
    ),
    "scattered numbers": (
        "(float[n, m] x, int64[k, d] i, float[k] u) => (float[a, b] y) { y = ScatterND(x, i, u) }",
        [
            (numbers(4, 3), np.array([[0, 1], [-2, -1]]), numbers(2)),
            (numbers(2, 2), np.array([[1, 0]]), numbers(1)),
        ],
    ),
    "scattered rows": (
        "(float[n, m] x, int64[k, d] i, float[k, m] u) => (float[a, b] y) { y = ScatterND(x, i, u) }",
        [(numbers(4, 3), np.array([[0], [-2]]), numbers(2, 3))],
    ),
    "the largest": (
        """(float[n, 9] x, int64[1] k) => (float[a, b] y, int64[c, d] z, float[e, f] v, int64[g, h] w)
            { y, z = TopK(x, k) v, w = TopK<axis = 0, largest = 0>(x, k) }""",
        [(numbers(4, 9), listed(3)), (numbers(6, 9), listed(5))],
    ),
    "parts": (
        "(float[n, 3] x, int64[2] s) => (float[a, b] y, float[c, d] z) { y, z = Split(x, s) }",
        [(numbers(4, 3), listed(1, 3)), (numbers(6, 3), listed(0, 6))],
    ),
    "the size of a picture": (
        """(float[n, 2, 4, 5] x, int64[2] s) => (float[a, b, c, d] y, float[e, f, g, h] z)
            <int64[2] at = {0, 1}> {
            i = Shape(x) j = Gather(i, at) t = Concat<axis = 0>(j, s) y = Resize<mode = "linear">(x, , , t)
            z = Resize<axes = [2, 3], mode = "nearest">(x, , , s)
        }""",
        [(numbers(1, 2, 4, 5), listed(7, 3)), (numbers(2, 2, 4, 5), listed(2, 9))],
    ),
    "paddings": (
        """(float[n] x, int64[2] p) => (float[a] y, float[b] z)
            { y = Pad(x, p) z = Pad<mode = "reflect">(x, p) }""",
        [(numbers(4), listed(*each)) for each in ((1, 2), (-1, 2), (-2, -1), (0, 0))],
    ),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_only_a_call_tells(name: str) -> None:
    text, calls = OPERANDS[name]
    compare(text, "", calls)


def test_more_than_there_is_is_refused() -> None:
    for name, given in (
        ("the largest", (numbers(4, 9), listed(5))),
        ("parts", (numbers(4, 3), listed(1, 4))),
    ):
        machine = machine_of(onnx.parser.parse_model(OPERATORS + OPERANDS[name][0]))
        with pytest.raises(ValueError, match="is computed in the call"):
            machine["main"](*map(tvm.runtime.tensor, given))


LAZY = """(float[n, m] x, bool c) => (float[a] z) <int64[1] last = {1}, float two = {2}> {
    y = If(c) <
        then_branch = t () => (float[a] r) { s = Squeeze(x, last) e = Exp(s) f = Sin(e) r = Mul(f, e) },
        else_branch = e () => (float[a] q) { p = ReduceSum<keepdims = 0>(x, last) g = Cos(p) q = Add(g, p) }
    >
    v = Mul(y, two) w = Sin(v) z = Add(w, v)
}"""


@pytest.mark.parametrize("target", ["", "dnnl"])
def test_a_branch_is_only_computed_where_it_is_taken(target: str) -> None:
    """It was computed in each call; and what is behind it used its memory, also where there was none."""
    taken, other = np.array(True), np.array(False)
    compare(LAZY, target, [(numbers(4, 3), other), (numbers(4, 1), taken), (numbers(3, 2), other)])


def test_a_branch_checks_its_extents() -> None:
    machine = machine_of(onnx.parser.parse_model(OPERATORS + LAZY))
    with pytest.raises(RuntimeError, match="match_cast"):
        machine["main"](tvm.runtime.tensor(numbers(4, 3)), tvm.runtime.tensor(np.array(True)))


LAYER_IN_A_BRANCH = """(float[n, 1, 2] x, bool c, float[1, 3, 2] w, float[1, 3, 3] r)
    => (float[a, b, d, e] y) {
    y = If(c) <
        then_branch = t () => (float[a, b, d, e] u) { u, h = RNN<hidden_size = 3>(x, w, r) },
        else_branch = e () => (float[a, b, d, e] v) { f = Neg(x) v, g = RNN<hidden_size = 3>(f, w, r) }
    >
}"""


def test_a_branch_may_have_a_loop() -> None:
    weights = (numbers(1, 3, 2), numbers(1, 3, 3))
    calls = [(numbers(length, 1, 2), np.array(length < 3), *weights) for length in (2, 3)]
    compare(LAYER_IN_A_BRANCH, "", calls)
