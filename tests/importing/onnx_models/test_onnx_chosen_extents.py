"""Tensors that an `If` chooses from branches of different shapes, and what reads them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.importing.onnx_texts import HEAD, machine_of, run

CHOICE = """<float zero = {0}, int64[1] rows = {-1}, int64[2] halves = {2, -1}, int64[3] blocks = {2, 3, 4}> {
    s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero)
    z = If(c) <then_branch = t () => (float[p, 4] a) { a = Sin(x) },
               else_branch = e () => (float[q, 4] b) { k = Concat<axis = 0>(x, v) b = Exp(k) }>"""
NESTED = """<float zero = {0}, float far = {-9}> {
    s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero) d = Greater(s, far)
    z = If(c) <then_branch = t () => (float[p, 4] a) { a = Sin(x) },
        else_branch = e () => (float[q, 4] b) {
            k = If(d) <then_branch = f () => (float[g, 4] h) { h = Concat<axis = 0>(x, v) },
                       else_branch = i () => (float[j, 4] l) { l = Concat<axis = 0>(x, v, x) }>
            b = Relu(k) }>"""
PAIRS = """<float zero = {0}> {
    s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero)
    u, w = If(c) <then_branch = t () => (float[p, 4] a, float[o, 4] aa) { a = Sin(x) aa = Cos(v) },
        else_branch = e () => (float[q, 4] b, float[r, 4] bb) { b = Concat<axis = 0>(x, v) bb = Exp(v) }>"""
SELECTED = """<float zero = {0}, int64[1] rows = {-1}> {
    s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero) flat = Reshape(x, rows)
    z = If(c) <then_branch = t () => (float[p] a) { a = Relu(flat) },
        else_branch = e () => (float[q] b) { g = Less(flat, zero) b = Compress(flat, g) }>"""

MODELS = {
    "elementwise": f"float[a, b] y) {CHOICE} y = Relu(z) }}",
    "joined with what is known": f"float[a, b] y) {CHOICE} y = Concat<axis = 0>(z, x) }}",
    "a matrix product": f"float[a, b] y) {CHOICE} g = Transpose(v) y = MatMul(z, g) }}",
    "a reshape": f"float[a] y) {CHOICE} y = Reshape(z, rows) }}",
    "its extents as data": f"float[a, b] y) {CHOICE} g = Size(z) h = Cast<to = 1>(g) y = Mul(z, h) }}",
    "a choice in a choice": f"float[a, b] y) {NESTED} y = Tanh(z) }}",
    "two results": f"float[a, b] y) {PAIRS} g = Relu(u) h = Relu(w) y = Concat<axis = 0>(g, h) }}",
    "extents that branches compute": f"float[a] y) {SELECTED} y = Sqrt(z) }}",
}


def _call(sign: int, rows: int, others: int = 3) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(rows)
    x, v = (sign * drawn.uniform(1, 2, (each, 4)) for each in (rows, others))
    return x.astype("float32"), v.astype("float32")


@pytest.mark.parametrize("name", MODELS)
def test_what_reads_a_choice_of_shapes_runs(name: str) -> None:
    text = f"(float[n, 4] x, float[m, 4] v) => ({MODELS[name]}"
    calls = [_call(1, 2), _call(-1, 2), _call(1, 5, 2), _call(-1, 5, 1)]
    for targets in (["dnnl"], []):
        run(text, targets, *calls)


@pytest.mark.parametrize("shape", ["halves", "blocks"])
def test_calls_that_choose_too_few_elements_are_refused(shape: str) -> None:
    """TVM read beyond the data, or left elements out."""
    body = CHOICE if shape == "blocks" else CHOICE.replace("2, -1}", "7, -1}")
    result = "float[a, b, c] y" if shape == "blocks" else "float[a, b] y"
    text = f"(float[n, 4] x, float[m, 4] v) => ({result}) {body} g = Reshape(z, {shape}) y = Relu(g) }}"
    model = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    machine = machine_of(model, ["dnnl"])
    fitting, others = (
        ((_call(1, 6), _call(-1, 3)), (_call(1, 5), _call(-1, 6)))
        if shape == "blocks"
        else ((_call(1, 7), _call(-1, 4)), (_call(1, 5), _call(-1, 7)))
    )
    for x, v in fitting:
        (expected,) = session.run(None, {"x": x, "v": v})
        found = machine["main"](*map(tvm.runtime.tensor, (x, v))).numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    for x, v in others:
        with pytest.raises(Exception, match="node"):  # of classes that ONNX Runtime does not export
            session.run(None, {"x": x, "v": v})
        with pytest.raises(ValueError, match="extents for which its model is not defined"):
            machine["main"](*map(tvm.runtime.tensor, (x, v)))
