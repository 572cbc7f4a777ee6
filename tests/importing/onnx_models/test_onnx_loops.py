"""`Loop` and `Scan` of a known number of steps, which are unrolled, and what is declined."""

import onnx
import pytest
from kits.importing.onnx_scans import scan_model
from kits.importing.onnx_texts import HEAD, numbers, run, run_model
from kits.passes.preparation.preparation_kit import distinct_constants
from onnx import helper

import annotated_region as ar
from annotated_region.errors import ModelError

LOOPS = {
    "a count": """(float[n, 4] x) => (float[n, 4] y) <int64 m = {3}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            f = Cast<to = 1>(i) s = Add(v, f) w = Sin(s) d = Identity(c) }> }""",
    "rows": """(float[n, 4] x) => (float[3, n, 4] z) <int64 m = {3}, bool t = {1}> {
        y, z = Loop(m, t, x) <body = b (int64 i, bool c, float[n, 4] v)
                => (bool d, float[n, 4] w, float[n, 4] r) {
            w = Tanh(v) r = Mul(w, x) d = Identity(c) }> }""",
    "a condition on the step": """(float[n, 4] x) => (float[n, 4] y) <bool t = {1}> {
        y = Loop(, t, x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Tanh(v) last = Constant<value = int64 {4}>() d = Less(i, last) }> }""",
    "the step as a vector": """(float[n, 4] x) => (float[n, 1] y) <int64 m = {3}, float[1, 1] zero = {0}> {
        y = Loop(m, , zero) <body = b (int64[1] i, bool c, float[p, 1] v) => (bool d, float[q, 1] w) {
            one = Constant<value = int64[1] {1}>() j = Add(i, one) r = Slice(x, i, j, one)
            w = Add(v, r) d = Identity(c) }> }""",
    "no step": """(float[n, 4] x) => (float[n, 4] y) <int64 m = {5}, bool f = {0}> {
        z = Loop(m, f, x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Tanh(v) d = Identity(c) }> y = Relu(z) }""",
    "a growing value": """(float[n, 4] x) => (float[k, 4] y) <int64 m = {2}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[p, 4] v) => (bool d, float[q, 4] w) {
            w = Concat<axis = 0>(v, x) d = Identity(c) }> }""",
    "a loop in a loop": """(float[n, 4] x) => (float[n, 4] y) <int64 m = {2}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            w = Loop(m, , v) <body = e (int64 j, bool g, float[n, 4] p) => (bool h, float[n, 4] q) {
                k = Add(i, j) f = Cast<to = 1>(k) s = Add(p, f) q = Sin(s) h = Identity(g) }>
            d = Identity(c) }> }""",
    "a branch on the step": """(float[n, 4] x) => (float[n, 4] y) <int64 m = {2}, int64 zero = {0}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {
            first = Equal(i, zero)
            w = If(first) <then_branch = t () => (float[n, 4] r) { r = Sin(v) },
                           else_branch = e () => (float[n, 4] s) { s = Exp(v) }>
            d = Identity(c) }> }""",
    "names that are used outside, too": """(float[n, 4] x) => (float[n, 4] y) <int64 m = {2}> {
        z = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] x) => (bool d, float[n, 4] w) {
            w = Sin(x) d = Identity(c) }>
        y = Add(z, x) }""",
    "a sequence": """(float[n, 4] x) => (float[n, k] y) <int64 m = {3}> {
        s = SequenceConstruct(x)
        l = Loop(m, , s) <body = b (int64 i, bool c, seq(float[n, 4]) v) => (bool d, seq(float[n, 4]) w) {
            a = SequenceAt(v, i) t = Tanh(a) w = SequenceInsert(v, t) d = Identity(c) }>
        y = ConcatFromSequence<axis = 1>(l) }""",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_unrolled(name: str) -> None:
    run(LOOPS[name], ["onnxruntime"], (numbers(2, 4),), (numbers(1, 4),))


def test_steps_share_the_weights_of_the_body() -> None:
    model = onnx.parser.parse_model(
        HEAD
        + """(float[n, 4] x) => (float[n, 4] y) <int64 m = {3}> {
        y = Loop(m, , x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w)
                <float[4] a = {1, 2, 3, 4}> {
            k = Constant<value = float[4] {4, 3, 2, 1}>() s = Mul(v, a) w = Add(s, k) d = Identity(c) }> }"""
    )
    weights = [each for each in distinct_constants(ar.from_onnx(model)) if each.shape == (4,)]
    assert sorted(each.tolist() for each in weights) == [[1, 2, 3, 4], [4, 3, 2, 1]]


def test_a_loop_is_one_region() -> None:
    report = ar.explain(ar.from_onnx(onnx.parser.parse_model(HEAD + LOOPS["rows"])), ["dnnl"])
    (function,) = report.functions
    assert len(function.regions) == 1
    assert not [op for op in function.ops if op.placed == "host"]


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_are_unrolled(reverse: bool) -> None:
    run_model(scan_model(3, reverse=reverse), [], (numbers(2), numbers(3, 2)))


def test_scans_along_other_axes() -> None:
    run_model(scan_model(3, reverse=True, axis=1), [], (numbers(2), numbers(2, 3)))


LOOP = """({inputs}) => (float[n, 4] y) <{constants}> {{
    y = Loop({count}, {condition}, x) <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) {{
        {body} }}> }}"""
DECLINED = {
    "has neither a number of steps nor a condition that ends it": ("", "t", "d = Identity(c)"),
    "has 2 numbers of int64 as that of its steps": ("two", "", "d = Identity(c)"),
    "has 1 numbers of float32 as that of its steps": ("z", "", "d = Identity(c)"),
    "has 1 numbers of float32 as a condition": ("m", "z", "d = Identity(c)"),
    "has a number of steps of the type .*int64.*; it needs one element of int64": (
        "k",
        "",
        "d = Identity(c)",
    ),
    "has a condition of the type .*float32.*; it needs one element of bool": ("m", "", "d = ReduceMax(v)"),
}


INVALID = {
    r"has a body of 4 inputs and 2 results; it needs 3, and 2": "b (int64 i, bool c, float[4] v, float[4] u)"
    " => (bool d, float[n, 4] w)",
    r"has a body of 3 inputs and 1 results": "b (int64 i, bool c, float[4] v) => (bool d)",
    r"a graph returns 'w2', which nothing in it makes": "b (int64 i, bool c, float[4] v)"
    " => (bool d, float[n, 4] w2)",
}


@pytest.mark.parametrize("message", INVALID)
def test_bodies_that_fit_no_loop(message: str) -> None:
    text = f"""(float[n, 4] x) => (float[n, 4] y) <int64 m = {{3}}> {{
        y = Loop(m, , x) <body = {INVALID[message]} {{ w = Tanh(v) d = Identity(c) }}> }}"""
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


def test_a_loop_needs_a_body() -> None:
    with pytest.raises(ModelError, match=r"node 0 \(Loop\) lacks its attribute 'body'"):
        ar.from_onnx(onnx.parser.parse_model(f"{HEAD} (float[4] x) => (float[4] y) {{ y = Loop(x, , x) }}"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scan_input_axes": [2]}, "has the axis 2 of a tensor of rank 2"),
        ({"scan_input_axes": [0, 1]}, r"has scan_input_axes \[0, 1\] .* of 1 values"),
        ({"scan_output_axes": [-3]}, "has the axis -3 of a tensor of rank 2"),
        ({"scan_input_directions": [7]}, r"scan_input_directions \[7\] of 1 values"),
        ({"num_scan_inputs": 3}, "has 2 inputs, and reads 3 of them in steps"),
        ({"num_scan_inputs": 0}, "has 2 inputs, and reads 0 of them in steps"),
        ({"num_scan_inputs": None}, "lacks its attribute 'num_scan_inputs'"),
        ({"num_scan_inputs": 1.5}, "lacks its attribute 'num_scan_inputs'"),
    ],
)
def test_scans_with_attributes_that_do_not_fit(change: dict[str, object], message: str) -> None:
    model = scan_model(3)
    (node,) = model.graph.node
    kept = [each for each in node.attribute if each.name not in change]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.extend(
        helper.make_attribute(name, value) for name, value in change.items() if value is not None
    )
    with pytest.raises(ModelError, match=rf"\(Scan\) .*{message}"):
        ar.from_onnx(model)


def test_a_scan_of_operator_set_8_is_declined() -> None:
    """Its first input is the lengths of the sequences of a batch."""
    model = scan_model(3)
    model.opset_import[0].version = 8
    with pytest.raises(ModelError, match="a Scan of operator set 8"):
        ar.from_onnx(model)


def test_nodes_of_branches_in_steps_are_counted() -> None:
    """A file of a few kilobytes, which would be millions of nodes."""
    chain = " ".join(f"a{place + 1} = Tanh(a{place})" for place in range(100)).replace("(a0)", "(v)")
    body = f"""w = If(c) <then_branch = t () => (float[n, 4] a100) {{ {chain} }},
        else_branch = e () => (float[n, 4] q) {{ q = Exp(v) }}> d = Less(i, m)"""
    text = LOOP.format(
        inputs="float[n, 4] x", constants="int64 m = {8000}", count="", condition="", body=body
    )
    with pytest.raises(ModelError, match="makes more than 8192 nodes"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


@pytest.mark.parametrize("message", DECLINED)
def test_loops_that_are_declined(message: str) -> None:
    count, condition, body = DECLINED[message]
    text = LOOP.format(
        inputs="float[n, 4] x, int64[2] k",
        constants="int64 m = {3}, bool t = {1}, int64[2] two = {1, 2}, float z = {0}",
        count=count,
        condition=condition,
        body=f"w = Tanh(v) {body}",
    )
    with pytest.raises(ModelError, match=rf"node '\w+' \(Loop\) {message}"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))
