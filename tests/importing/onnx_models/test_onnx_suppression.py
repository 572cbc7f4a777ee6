"""`NonMaxSuppression` of any number of boxes, with limits that are data, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import tvm
from kits.importing.onnx_texts import HEAD, machine_of, run, run_model
from onnx import numpy_helper

import annotated_region as ar

Call = tuple[np.ndarray, ...]

UNLIMITED = """(float[1, n, 4] b, float[1, c, n] s) => (int64[k, 3] y)
    <int64 m = {9223372036854775807}, float i = {0.3}, float t = {0.25}>
    { y = NonMaxSuppression(b, s, m, i, t) }"""
RANKED = """(float[b, n, 4] b, float[d, c, m] s) => (int64[k, 3] y) <int64[1] m = {4}, float[1] i = {0.0}>
    { y = NonMaxSuppression(b, s, m, i) }"""
OF_CENTERS = UNLIMITED.replace("Suppression(", "Suppression<center_point_box = 1>(")
OF_DATA = """(float[b, n, 4] b, float[b, c, n] s, int64 m, float[1] i, float t) => (int64[k, 3] y)
    { y = NonMaxSuppression(b, s, m, i, t) }"""
CHOSEN = """(float[1, n, 4] b, float[1, 1, n] s) => (int64[k, 3] y)
    <int64 m = {3}, float i = {0.5}, float t = {0.5}> {
    l = ReduceMax<keepdims = 0>(s) c = Greater(l, t)
    y = If(c) <then_branch = e () => (int64[p, 3] v) { v = NonMaxSuppression(b, s, m, i, t) },
               else_branch = f () => (int64[q, 3] w) { w = NonMaxSuppression(b, s, m, i) }> }"""
NONE = "(float[1, n, 4] b, float[1, c, n] s) => (int64[k, 3] y) { y = NonMaxSuppression(b, s) }"


def _positive(*shape: int) -> np.ndarray:
    return np.abs(np.random.default_rng(9).standard_normal(shape)).astype("float32")


def _six_boxes() -> np.ndarray:
    corners = _positive(1, 6, 4)
    return np.concatenate([corners[..., :2], corners[..., :2] + corners[..., 2:]], -1)


def _boxes(seed: int, batch: int, classes: int, count: int) -> Call:
    """Boxes of few places, so that many overlap, with corners in any order, and scores with many ties."""
    drawn = np.random.default_rng(seed)
    corners = drawn.integers(0, 6, (batch, count, 4)).astype("float32") / 4
    scores = drawn.integers(-3, 8, (batch, classes, count)).astype("float32") / 8
    return corners, scores


def _with_limits(call: Call, most: int, overlap: float, least: float) -> Call:
    return (*call, np.array(most), np.array([overlap], "float32"), np.array(least, "float32"))


ALONE = [(1, 3, 24), (1, 1, 1), (1, 2, 0), (1, 2, 40)]
CASES: dict[str, tuple[str, Sequence[Call]]] = {
    "as many as there are": (UNLIMITED, [_boxes(seed, *size) for seed, size in enumerate(ALONE)]),
    "of centers and sizes": (OF_CENTERS, [_boxes(seed, *size) for seed, size in enumerate(ALONE)]),
    "any scores, any overlap": (RANKED, [_boxes(5, 2, 3, 24), _boxes(6, 1, 1, 7)]),
    "limits that are data": (
        OF_DATA,
        [
            _with_limits(_boxes(7, 2, 2, 24), 5, 0.25, 0.125),
            _with_limits(_boxes(8, 1, 3, 9), -1, 0.5, 0.0),
            _with_limits(_boxes(9, 3, 1, 30), 2**40, 1.0, -1.0),
        ],
    ),
    "in a branch": (CHOSEN, [_boxes(10, 1, 1, 12), (_boxes(11, 1, 1, 9)[0], np.zeros((1, 1, 9), "float32"))]),
    "no box": (NONE, [_boxes(12, 1, 2, 5)]),
}


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["dnnl", ""])
@pytest.mark.parametrize("name", CASES)
def test_the_boxes_of_onnx_runtime_are_selected(name: str, target: str) -> None:
    text, calls = CASES[name]
    run(text, [target] if target else [], *calls)


def test_a_box_whose_overlap_is_the_threshold_is_kept() -> None:
    """Half of the union is shared; TVM's op drops the box."""
    text = UNLIMITED.replace("0.3", "0.5").replace("1, n,", "1, 2,").replace("c, n]", "1, 2]")
    boxes = np.array([[[0, 0, 1, 2], [0, 0, 1, 1]]], "float32")
    call = (boxes, np.array([[[0.9, 0.8]]], "float32"))
    machine = run(text, [], call)
    assert machine["main"](*map(tvm.runtime.tensor, call)).numpy().tolist() == [[0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(("boxes", "scores"), [("1, n, 5", "1, c, n"), ("2, n, 4", "3, c, n")])
def test_other_shapes_are_refused_by_name(boxes: str, scores: str) -> None:
    text = f"(float[{boxes}] b, float[{scores}] s) => (int64[k, 3] y) {{ y = NonMaxSuppression(b, s) }}"
    with pytest.raises(
        ar.ModelError, match=r"node 'y' \(NonMaxSuppression\) has an input \d of another shape"
    ):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


def test_calls_with_other_numbers_of_scores_than_boxes_are_refused() -> None:
    machine = machine_of(onnx.parser.parse_model(HEAD + RANKED))
    with pytest.raises(ValueError, match="for 'NonMaxSuppression:y', where"):
        machine["main"](*map(tvm.runtime.tensor, (_boxes(0, 1, 1, 4)[0], _boxes(0, 1, 1, 5)[1])))


def test_a_threshold_of_minus_infinity_is_none() -> None:
    text = """(float[1, 6, 4] b, float[1, 2, 6] s) => (int64[k, 3] y)
        <int64 m = {3}, float o = {0.5}> { y = NonMaxSuppression(b, s, m, o, t) }"""
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(-np.inf), "t"))
    run_model(model, [], (_six_boxes(), -_positive(1, 2, 6)))


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime", "openvino"])
def test_selected_boxes_are_as_many_as_there_are(target: str) -> None:
    """TVM's type of them has a row for each box, so that a region behind refused the tensor."""
    text = """(float[1, 6, 4] b, float[1, 1, 6] s) => (float[k, 4] y)
        <int64 m = {3}, float o = {0.5}, float t = {0.1},
         int64[1] two = {2}, int64[1] one = {1}, int64[1] three = {3}> {
        i = NonMaxSuppression(b, s, m, o, t) c = Slice(i, two, three, one) f = Squeeze(c, one)
        r = Squeeze(b, z) g = Gather(r, f) e = Exp(g) y = Neg(e) }"""
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "z"))
    boxes = _six_boxes()
    run_model(model, [target], (boxes, _positive(1, 1, 6)), (boxes, np.zeros((1, 1, 6), "float32")))
