"""`Loop` and `Scan` whose number of steps only a call knows: ONNX Runtime's numbers, and what is declined."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from kits.importing.onnx_scans import scan_model
from kits.importing.onnx_texts import HEAD, numbers, run, run_model

import annotated_region as ar
from annotated_region.errors import ModelError


def count(steps: int) -> np.ndarray:
    return np.array(steps, "int64")


def number(value: float) -> np.ndarray:
    return np.array(value, "float32")


COUNTS = [
    (numbers(2, 4), count(3)),
    (numbers(1, 4), count(0)),
    (numbers(1, 4), count(-2)),
    (numbers(5, 4), count(18)),
]

LOOPS = {
    "a count": (
        """(float[n, 4] x, int64 m) => (float[n, 4] y) {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            f = Cast<to = 1>(i) s = Add(v, f) w = Sin(s) d = Identity(c) }> }""",
        COUNTS,
    ),
    "a count of one element": (
        """(float[n, 4] x, int64[1] m) => (float[n, 4] y) {
        y = Loop(m, , x) <body = b (int64[1] i, bool[1] c, float[n, 4] v) => (bool[1] d, float[n, 4] w) {
            f = Cast<to = 1>(i) s = Add(v, f) w = Sin(s) d = Identity(c) }> }""",
        [(numbers(2, 4), np.array([3]))],
    ),
    "an extent as the count": (
        """(float[n, 4] x) => (float[n, 4] y) <int64 zero = {0}> {
        e = Shape(x) m = Gather(e, zero)
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            r = Gather(x, i) w = Add(v, r) d = Identity(c) }> }""",
        [(numbers(2, 4),), (numbers(7, 4),)],
    ),
    "rows": (
        """(float[3, 4] x, int64 m) => (float[k, 4, 3] z) {
        y, r = Loop(m, , x) <body = b (int64 i, bool c, float[3, 4] v)
                => (bool d, float[3, 4] w, float[4, 3] r) {
            w = Tanh(v) p = Mul(w, x) r = Transpose(p) d = Identity(c) }>
        z = Relu(r) }""",
        [(numbers(3, 4), count(steps)) for steps in (0, 1, 2, 3, 4, 13)],
    ),
    "a condition on data": (
        """(float[n, 4] x, float z) => (float[n, 4] y) {
        y = Loop(, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            f = Constant<value = float {0.9}>() w = Mul(v, f) s = ReduceMax<keepdims = 0>(w)
            d = Greater(s, z) }> }""",
        [(numbers(2, 4), number(0.1)), (numbers(2, 4), number(9))],
    ),
    "a condition before the first step": (
        """(float[n, 4] x, bool t) => (float[n, 4] y) <int64 m = {3}> {
        y = Loop(m, t, x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Tanh(v) d = Identity(c) }> }""",
        [(numbers(2, 4), np.array(True)), (numbers(2, 4), np.array(False))],
    ),
    "a condition that is wrong in the first step": (
        """(float[n, 4] x, bool t) => (float[n, 4] y) <int64 m = {3}> {
        y = Loop(m, t, x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Tanh(v) d = Not(c) }> }""",
        [(numbers(2, 4), np.array(True)), (numbers(2, 4), np.array(False))],
    ),
    "a condition and a count": (
        """(float[n, 4] x, int64 m, float z) => (float[n, 4] y) {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            f = Constant<value = float {0.9}>() w = Mul(v, f) s = ReduceMax<keepdims = 0>(w)
            d = Greater(s, z) }> }""",
        [(numbers(2, 4), count(5), number(0.1)), (numbers(2, 4), count(90), number(0.1))],
    ),
    "a condition on an extent": (
        """(float[n, 4] x) => (float[k, n, 4] z) <int64 zero = {0}> {
        y, r = Loop(, , x) <body = b (int64 i, bool c, float[n, 4] v)
                => (bool d, float[n, 4] w, float[n, 4] u) {
            w = Tanh(v) u = Mul(w, x) e = Shape(v) f = Gather(e, zero) d = Less(i, f) }>
        z = Relu(r) }""",
        [(numbers(2, 4),), (numbers(7, 4),)],
    ),
    "a condition on data behind one on the step": (
        """(float[n, 4] x) => (float[n, 4] y) <float z = {0.3}, int64 two = {2}> {
        y = Loop(, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Tanh(v) g = Less(i, two) h = If(g) <
                then_branch = t () => (bool p) { p = Identity(c) },
                else_branch = e () => (bool q) { s = ReduceMax<keepdims = 0>(w) q = Greater(s, z) }>
            d = Identity(h) }> }""",
        [(numbers(2, 4),)],
    ),
    "values that grow and shrink": (
        """(float[n, 4] x, int64 m) => (float[k, l] y)
                <int64[1] from = {0}, int64[1] to = {-1}, int64[1] one = {1}> {
        y, e = Loop(m, , x, x) <body = b (int64 i, bool c, float[p, 4] v, float[q, r] u)
                => (bool d, float[s, 4] w, float[a, g] h) {
            w = Concat<axis = 0>(v, x) h = Slice(u, from, to, one) d = Identity(c) }> }""",
        [(numbers(2, 4), count(2)), (numbers(3, 4), count(0)), (numbers(1, 4), count(1))],
    ),
    "a value of the extents of another one": (
        """(float[n, 4] x, float[k, 4] u, int64 m) => (float[n, 4] y) {
        a, y = Loop(m, , u, x) <body = b (int64 i, bool c, float[k, 4] v, float[n, 4] w)
                => (bool d, float[k, 4] p, float[n, 4] q) {
            s = ReduceSum<keepdims = 0>(v) q = Add(w, s) p = Tanh(v) d = Identity(c) }> }""",
        [(numbers(2, 4), numbers(3, 4), count(4))],
    ),
    "a branch on data": (
        """(float[n, 4] x, float z) => (float[n, 4] y) <int64 m = {5}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            s = ReduceMax<keepdims = 0>(v) l = Less(s, z) d = Identity(c)
            w = If(l) <then_branch = t () => (float[n, 4] r) { r = Sin(v) },
                       else_branch = e () => (float[n, 4] q) { q = Exp(v) }> }> }""",
        [(numbers(2, 4), number(0.7)), (numbers(2, 4), number(-9))],
    ),
    "a loop in a loop": (
        """(float[n, 4] x, int64 m) => (float[n, 4] y) {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Loop(i, , v) <body = e (int64 j, bool g, float[n, 4] p) => (bool h, float[n, 4] q) {
                k = Add(i, j) f = Cast<to = 1>(k) s = Add(p, f) t = Add(s, v) q = Sin(t) h = Identity(g) }>
            d = Identity(c) }> }""",
        COUNTS,
    ),
    "a loop in a branch": (
        """(float[n, 4] x, int64 m, bool b) => (float[n, 4] y) {
        y = If(b) <then_branch = t () => (float[n, 4] r) { r = Sin(x) },
                   else_branch = e () => (float[n, 4] q) {
            q = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
                f = Cast<to = 1>(i) s = Add(v, f) w = Sin(s) d = Identity(c) }> }> }""",
        [(numbers(2, 4), count(3), np.array(False)), (numbers(2, 4), count(3), np.array(True))],
    ),
    "extents and numbers of the surroundings": (
        """(float[n, 4] x, int64 m) => (float[n, 2, 2] y) <int64[2] two = {2, 2}, int64[1] zero = {0}> {
        e = Shape(x) f = Gather(e, zero) shape = Concat<axis = 0>(f, two) a = Reshape(x, shape) h = Tanh(a)
        y = Loop(m, , a) <body = b (int64 i, bool c, float[n, 2, 2] v) => (bool d, float[n, 2, 2] w) {
            s = Reshape(x, shape) t = Add(s, v) w = Mul(t, h) d = Identity(c) }> }""",
        [(numbers(2, 4), count(3)), (numbers(1, 4), count(0))],
    ),
    "a sequence of the surroundings": (
        """(float[n, 4] x, int64 m) => (float[n, 4] y) <int64 one = {1}> {
        a = Tanh(x) b = Sin(x) s = SequenceConstruct(a, b)
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            e = SequenceAt(s, one) w = Add(v, e) d = Identity(c) }> }""",
        COUNTS,
    ),
    "names that are used outside, too": (
        """(float[n, 4] x, int64 m) => (float[n, 4] y) {
        z = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] x) => (bool d, float[n, 4] w) {
            w = Sin(x) d = Identity(c) }>
        y = Add(z, x) }""",
        COUNTS,
    ),
    "more steps than are unrolled": (
        """(float[n, 4] x) => (float[n, 4] y) <int64 m = {20000}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Sin(v) d = Identity(c) }> }""",
        [(numbers(2, 4),)],
    ),
}


@pytest.mark.parametrize("targets", [[], ["dnnl"], ["onnxruntime", "dnnl"]], ids=" ".join)
@pytest.mark.parametrize("name", LOOPS)
def test_computed_loops(name: str, targets: list[str]) -> None:
    text, calls = LOOPS[name]
    run(text, targets, *calls)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_a_symbolic_length(reverse: bool, axis: int) -> None:
    shapes = [(length, 2) if axis == 0 else (2, length) for length in (3, 1, 12)]
    run_model(
        scan_model("n", reverse=reverse, axis=axis),
        ["dnnl"],
        *((numbers(2), numbers(*shape)) for shape in shapes),
    )


def test_scans_of_very_many_steps_are_no_longer_than_others() -> None:
    run_model(scan_model(5000), ["dnnl"], (numbers(2), numbers(5000, 2)))


ROWS = """(float[n, 4] x, float[4, 4] w, int64 m) => (float[k, n, 4] z) {
    h = Relu(x)
    y, z = Loop(m, , h) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] u, float[n, 4] r) {
        p = MatMul(v, w) s = Add(p, x) u = Tanh(s) r = Mul(u, x) d = Identity(c) }> }"""


def named() -> onnx.ModelProto:
    """A model whose nodes have names."""
    model = onnx.parser.parse_model(HEAD + ROWS)
    relu, loop = model.graph.node
    for node in [relu, loop, *loop.attribute[0].g.node]:
        node.name = f"/{node.op_type.lower()}"
    return model


def test_a_step_is_one_region_whose_ops_name_their_nodes() -> None:
    report = ar.explain(ar.from_onnx(named()), ["dnnl"])
    (body,) = [each for each in report.functions if each.name == "loop_body"]
    assert len(body.regions) == 1
    assert [(op.name, op.origin) for op in body.ops if op.placed == "host"] == []
    assert {op.origin for op in body.ops} >= {"/matmul", "/add", "/tanh", "/mul"}


CHANGED = "carries a value of the type .*float32.*, which becomes .* in a step"
DECLINED = {
    "w = Cast<to = 7>(v) r = Tanh(v)": CHANGED,
    "w = ReduceMax<keepdims = 0>(v) r = Tanh(v)": CHANGED,
    "w = Concat<axis = 0>(v, v) r = Tanh(v)": "joins results of its steps whose extents may differ",
}


@pytest.mark.parametrize("step", DECLINED)
def test_steps_that_fit_no_function(step: str) -> None:
    text = f"""(float[n, 4] x, int64 m) => (float[k, n, 4] z) {{
        y, z = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v)
                => (bool d, float[n, 4] w, float[n, 4] r) {{ {step} d = Identity(c) }}> }}"""
    with pytest.raises(ModelError, match=rf"node '\w+' \(Loop\) {DECLINED[step]}"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


def growing(body: str) -> onnx.ModelProto:
    """A model whose loop has this body, which makes s of the carried value v, and makes v longer."""
    return onnx.parser.parse_model(
        f"""{HEAD} (float[n, 4] x, int64 m) => (float[k, 4] y) {{
        y = Loop(m, , x) <body = b (int64 i, bool c, float[p, 4] v) => (bool d, float[q, 4] w) {{
            {body} w = Concat<axis = 0>(s, x) d = Identity(c) }}> }}"""
    )


def test_a_large_step_may_be_converted_twice():
    """Once more than nodes that may be unrolled: as the decoder of a language model, whose past grows."""
    chain = " ".join(f"a{place + 1} = Neg(a{place})" for place in range(4200)).replace("(a0)", "(v)")
    mod = ar.from_onnx(growing(f"{chain} s = Neg(a4200)"))
    assert len(mod["loop_body"].body.blocks[0].bindings) > 4200


def nested(depth: int) -> str:
    """So many loops in each other, each of which makes its value longer."""
    if depth == 0:
        return "s0 = Neg(v0)"
    return f"""s{depth} = Loop(m, , v{depth}) <body = b{depth}
        (int64 i{depth}, bool c{depth}, float[p, 4] v{depth - 1}) => (bool d{depth}, float[q, 4] w{depth}) {{
        {nested(depth - 1)} w{depth} = Concat<axis = 0>(s{depth - 1}, x) d{depth} = Identity(c{depth}) }}>"""


def test_extents_that_take_very_many_conversions_are_declined():
    """A file of a few kilobytes: each loop is converted twice for each conversion of the one around it."""
    model = growing(f"v12 = Identity(v) {nested(12)} s = Identity(s12)")
    with pytest.raises(ModelError, match=r"\(Loop\) (makes more than 8192|needs more than 16384) nodes"):
        ar.from_onnx(model)


def test_sequences_are_not_carried() -> None:
    text = """(float[n, 4] x, int64 m) => (float[n, k] y) {
        s = SequenceConstruct(x)
        l = Loop(m, , s) <body = b (int64 i, bool c, seq(float[n, 4]) v) => (bool d, seq(float[n, 4]) w) {
            w = SequenceInsert(v, x) d = Identity(c) }>
        y = ConcatFromSequence<axis = 1>(l) }"""
    with pytest.raises(ModelError, match=r"\(Loop\) carries what is no tensor of a known rank"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))
