"""Calls whose tensors do not have the elements that a `Reshape`, a `Split` or blocks of an image ask for.

ONNX Runtime refuses each of them; TVM's loops leave elements out, or read beyond the data.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.host_machines import linked_machine
from kits.importing.onnx_texts import HEAD, machine_of, run
from kits.passes.preparation.preparation_kit import ops

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED

BLOCKS = """(float[n, 16] x) => (float[a, b, c] y)
    <int64[1] zero = {0}, int64[1] eight = {8}, int64[1] seven = {SEVEN}, int64[2] rest = {8, 16}> {
    s = Shape(x) n = Gather(s, zero) p = Add(n, seven) d = Div(p, eight) t = Concat<axis = 0>(d, rest)
    z = Reshape(x, t) y = Relu(z) }"""
INFERRED = """(float[n, 16] x) => (float[a, b, c] y) <int64[3] t = {-1, 8, 16}> {
    z = Reshape(x, t) y = Relu(z) }"""
GIVEN = """(float[n, 16] x, int64[3] t) => (float[a, b, c] y) { z = Reshape(x, t) y = Relu(z) }"""
EMPTY = """(float[n, 16] x) => (float[a, b] y) <int64[2] t = {0, 16}> {
    z = Reshape<allowzero = 1>(x, t) y = Relu(z) }"""
HALVES = "(float[n, 4] x) => (float[a, b] y) { z, w = Split(x) y = Relu(z) }"
PARTS = "(float[n, 4] x) => (float[a, b] y) <int64[2] p = {8, 8}> { z, w = Split(x, p) y = Relu(w) }"
IMAGES = "(float[1, 4, n, 6] x) => (float[a, b, c, d] y) { z = SpaceToDepth<blocksize = 2>(x) y = Relu(z) }"
CHANNELS = "(float[1, n, 4, 6] x) => (float[a, b, c, d] y) { z = DepthToSpace<blocksize = 2>(x) y = Relu(z) }"

CASES = {
    "blocks, rounded down": (BLOCKS.replace("SEVEN", "0"), (16, 40, 0), (37, 3)),
    "blocks, rounded up": (BLOCKS.replace("SEVEN", "7"), (16, 40), (37, 3)),
    "an extent that is inferred": (INFERRED, (8, 40), (37, 3)),
    "a shape that is data": (GIVEN, (16, 40), (37,)),
    "no elements": (EMPTY, (0,), (3,)),
    "halves": (HALVES, (16, 2), (37,)),
    "parts of known sizes": (PARTS, (16,), (24, 8, 3)),
    "blocks of an image": (IMAGES, (4, 10), (5,)),
    "blocks of channels": (CHANNELS, (4, 16), (7,)),
}

UNEVEN = """<ir_version: 8, opset_import: ["" : 18]> g
    (float[EXTENT] x) => (float[a] p, float[b] q, float[c] r, float[d] s) {
        e, f, g, h = Split<num_outputs = 4>(x) p = Relu(e) q = Relu(f) r = Relu(g) s = Relu(h) }"""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def _call(model: onnx.ModelProto, extent: int) -> tuple[np.ndarray, ...]:
    shape = [each.dim_value or extent for each in model.graph.input[0].type.tensor_type.shape.dim]
    return (numbers(*shape), np.array([-1, 8, 16]))[: len(model.graph.input)]


@pytest.mark.parametrize("name", CASES)
def test_calls_without_the_elements_that_are_asked_for_are_refused(name: str) -> None:
    text, fitting, others = CASES[name]
    model = onnx.parser.parse_model(HEAD + text)
    machine = run(text, ["dnnl"], *(_call(model, extent) for extent in fitting))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for extent in others:
        call = _call(model, extent)
        with pytest.raises(Exception, match="node"):  # of classes that ONNX Runtime does not export
            session.run(None, dict(zip([each.name for each in model.graph.input], call, strict=True)))
        with pytest.raises(ValueError, match="extents for which its model is not defined"):
            machine["main"](*map(tvm.runtime.tensor, call))


def test_a_last_part_may_be_smaller_and_empty_but_not_less() -> None:
    """TVM asked for a negative number of elements, which ended in ``std::bad_alloc``."""
    model = onnx.parser.parse_model(UNEVEN.replace("EXTENT", "n"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    machine = machine_of(model, ["dnnl"])
    for extent in range(11):
        x = numbers(extent)
        if extent - 3 * -(-extent // 4) < 0:
            with pytest.raises(Exception, match="negative final split"):
                session.run(None, {"x": x})
            with pytest.raises(ValueError, match="extents for which its model is not defined"):
                machine["main"](tvm.runtime.tensor(x))
            continue
        expected = session.run(None, {"x": x})
        found = [each.numpy() for each in machine["main"](tvm.runtime.tensor(x))]
        assert [each.tolist() for each in found] == [each.tolist() for each in expected]


def test_parts_that_are_more_than_the_axis_are_refused_at_import() -> None:
    with pytest.raises(
        ar.ModelError, match=r"node 'e' \(Split\) splits an axis of 5 elements into 4 parts of 2"
    ):
        ar.from_onnx(onnx.parser.parse_model(UNEVEN.replace("EXTENT", "5")))


@pytest.mark.parametrize("isolated", [False, True])
def test_refused_calls_name_the_node(isolated: bool) -> None:
    """As reports do, by its name, or by its type and first result."""
    model = onnx.parser.parse_model(
        HEAD
        + """(float[n, 4] x, int64[2] t) => (float[a, b] y) {
            z, w = Split(x) v = Concat<axis = 0>(z, w) r = Reshape(v, t) y = Relu(r) }"""
    )
    model.graph.node[2].name = "/encoder/Reshape"
    machine = linked_machine(
        ar.build(ar.partition(ar.from_onnx(model, isolated=isolated), ["dnnl"]), UNOPTIMIZED)
    )
    shape = np.array([2, 12])
    for rows, message in [
        (5, r"not defined: n // 2 \* 2 must be n for 'Split:z', where n is extent 0 of x"),
        (4, r"must be .* for '/encoder/Reshape', where .* computed in the call"),
    ]:
        with pytest.raises(ValueError, match=message):
            machine["main"](*map(tvm.runtime.tensor, (numbers(rows, 4), shape)))
    assert machine["main"](*map(tvm.runtime.tensor, (numbers(6, 4), shape))).shape == (2, 12)


NEVER = {
    "another row": ("{0, 8}", r"node 'y' \(Reshape\) reshapes \(n, 16\) to \(n, 8\)"),
    "a third of a row": ("{0, -1, 3, 7}", r"node 'y' \(Reshape\) reshapes \(n, 16\) to \(n, 0, 3, 7\)"),
    "too many": (f"{{{2**62}, {2**62}}}", r"which has another number of elements"),
}


@pytest.mark.parametrize("name", NEVER)
def test_shapes_that_no_call_has_are_refused_at_import(name: str) -> None:
    shape, message = NEVER[name]
    rank = shape.count(",") + 1
    result = ", ".join("abcd"[:rank])
    text = f"(float[n, 16] x) => (float[{result}] y) <int64[{rank}] t = {shape}> {{ y = Reshape(x, t) }}"
    with pytest.raises(ar.ModelError, match=message):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


HEADS = """(float[b, n, 24] x, float[b, 4, n, 6] k) => (float[r, c, d] y)
    <int64[4] split = {0, 0, 4, 6}, int64[1] six = {6}, int64[1] four = {4}, int64[1] zero = {0},
     int64[1] one = {1}> {
    h = Reshape(x, split) q = Transpose<perm = [0, 2, 1, 3]>(h) p = Add(q, k)
    s = Shape(x) b = Gather(s, zero) n = Gather(s, one) rows = Mul(b, four)
    t = Concat<axis = 0>(rows, n, six) z = Reshape(p, t) w = Mul(n, rows) u = Concat<axis = 0>(w, six)
    f = Reshape(z, u) g = Relu(f) y = Reshape(g, t) }"""
LINE = """(float[b, n, m] x) => (float[k] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
    s = Shape(x) b = Gather(s, zero) n = Gather(s, one) m = Gather(s, two) p = Mul(n, b) k = Mul(m, p)
    z = Reshape(x, k) y = Relu(z) }"""


@pytest.mark.parametrize(("text", "shapes"), [(HEADS, [(2, 5, 24), (2, 4, 5, 6)]), (LINE, [(2, 3, 5)])])
def test_shapes_that_are_known_to_fit_are_not_checked(text: str, shapes: list[tuple[int, ...]]) -> None:
    imported = ar.from_onnx(onnx.parser.parse_model(HEAD + text))
    assert "match_cast" not in imported.script()
    run(text, ["dnnl"], tuple(numbers(*shape) for shape in shapes))
    assert set(ops(ar.partition(imported, ["dnnl"]))) <= {"GlobalVar", "call_dps_packed"}
