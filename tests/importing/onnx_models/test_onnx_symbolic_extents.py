"""Paddings, sizes, places and names that depend on symbolic extents, beside ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from kits.importing.onnx_texts import HEAD, machine_of, run, run_model
from onnx import TensorProto, helper, numpy_helper
from tvm import runtime

import annotated_region as ar
from annotated_region.errors import ModelError

FLOAT = TensorProto.FLOAT


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(9).standard_normal(shape).astype("float32")


IMAGES = ((1, 2, 1, 1), (2, 2, 4, 5), (1, 2, 7, 6))
WINDOWS = {
    "upper": 'Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w)',
    "lower": 'Conv<auto_pad = "SAME_LOWER", strides = [2, 3]>(x, w)',
    "stride of one": 'Conv<auto_pad = "SAME_LOWER">(x, w)',
    "narrow": 'Conv<auto_pad = "SAME_UPPER", strides = [3, 2]>(x, v)',
    "largest": 'MaxPool<auto_pad = "SAME_UPPER", strides = [2, 2], kernel_shape = [3, 3]>(x)',
    "largest from below": 'MaxPool<auto_pad = "SAME_LOWER", strides = [2, 2], kernel_shape = [2, 3]>(x)',
    "averages": 'AveragePool<auto_pad = "SAME_UPPER", kernel_shape = [3, 3]>(x)',
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_over_images_of_any_size(name: str) -> None:
    text = f"(float[n, 2, h, w] x) => (float[n, c, p, q] y) {{ y = {WINDOWS[name]} }}"
    model = onnx.parser.parse_model(HEAD + text)
    for weight, size in (("w", 3), ("v", 1)):
        model.graph.initializer.append(numpy_helper.from_array(numbers(3, 2, size, size), weight))
    run_model(model, ["dnnl"], *((-np.abs(numbers(*shape)) - 1,) for shape in IMAGES))


def test_infinite_paddings_on_the_host() -> None:
    """Where a target does not claim them; TVM cannot compile `full` of infinity."""
    text = f"(float[n, 2, h, w] x) => (float[n, c, p, q] y) {{ y = {WINDOWS['largest']} }}"
    run(text, [], *((-np.abs(numbers(*shape)) - 1,) for shape in IMAGES))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("AveragePool<strides = [2, 2], {}>(x)", "SAME padding of symbolic extents"),
        ("Conv<dilations = [2, 2], {}>(x, k)", "has dilations with SAME padding"),
    ],
)
def test_windows_over_images_of_any_size_that_are_declined(node: str, message: str) -> None:
    attributes = 'auto_pad = "SAME_UPPER", kernel_shape = [3, 3]'
    text = f"""(float[n, 2, h, w] x, float[3, 2, 3, 3] k) => (float[n, c, p, q] y)
        {{ y = {node.format(attributes)} }}"""
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


def test_pools_of_any_batch_may_have_same_padding() -> None:
    text = """(float[n, 2, 5, 6] x) => (float[n, 2, 3, 3] y)
        { y = AveragePool<auto_pad = "SAME_UPPER", strides = [2, 2], kernel_shape = [3, 3]>(x) }"""
    run(text, [], (numbers(2, 2, 5, 6),), (numbers(1, 2, 5, 6),))


def test_transposed_convolutions_of_any_batch_may_have_an_output_shape() -> None:
    text = """(float[n, 2, 4, 4] x) => (float[n, 3, 9, 9] y)
        { y = ConvTranspose<output_shape = [9, 9], strides = [2, 2]>(x, w) }"""
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.append(numpy_helper.from_array(numbers(2, 3, 3, 3), "w"))
    run_model(model, [], (numbers(2, 2, 4, 4),))


PADDED = """(float[n, h] x) => (float[n, k] y)
    <int64 one = {{1}}, int64[1] at = {{0}}, int64[3] front = {{0, {before}, 0}}, int64 eight = {{8}},
     float v = {{1.5}}> {{
    s = Shape(x) e = Gather(s, one) m = Mod(e, eight) r = Sub(eight, m) b = Mod(r, eight) u = Unsqueeze(b, at)
    p = Concat<axis = 0>(front, u) y = Pad<mode = "{mode}">(x, p{value})
}}"""


@pytest.mark.parametrize(
    ("mode", "before"), [("constant", 0), ("constant", 2), ("edge", 1), ("wrap", 0), ("reflect", 0)]
)
def test_paddings_to_a_multiple(mode: str, before: int) -> None:
    text = PADDED.format(mode=mode, before=before, value=", v" if mode == "constant" else "")
    extents = (1, 5, 8) if mode != "reflect" else (5, 7, 8)
    head = HEAD.replace("17", "19") if mode == "wrap" else HEAD
    run_model(onnx.parser.parse_model(head + text), ["dnnl"], *((numbers(2, extent),) for extent in extents))


PAIRS = """(float[n, h, w] x) => (float[n, p, q] y)
    <int64 one = {1}, int64 two = {2}, int64 four = {4}, int64[1] at = {0}, int64[1] back = {-1},
     int64[1] front = {1}, int64[1] end = {-9223372036854775807}, int64[2] pairs = {-1, 2}> {
    s = Shape(x) h = Gather(s, one) w = Gather(s, two)
    a = Mod(h, four) b = Sub(four, a) c = Mod(b, four) below = Unsqueeze(c, at)
    d = Mod(w, four) e = Sub(four, d) f = Mod(e, four) right = Unsqueeze(f, at)
    given = Concat<axis = 0>(front, right, at, below, at, at) rows = Reshape(given, pairs)
    turned = Slice(rows, back, end, at, back) columns = Transpose<perm = [1, 0]>(turned)
    p = Reshape(columns, back) y = Pad(x, p)
}"""


def test_paddings_in_pairs_from_the_last_axis() -> None:
    """PyTorch's exporter of old writes so each padding, whose axes it has in the other order."""
    run(PAIRS, ["dnnl"], *((numbers(*shape),) for shape in ((2, 5, 7), (1, 4, 8), (3, 6, 1))))


SHIFTED = """(float[n, l, 3] x, float[3] w) => (float[n, l, 3] y)
    <int64[6] pads = {0, 1, 0, 0, -1, 0}> { p = Pad(x, pads) q = Mul(p, w) y = Add(q, x) }"""


@needs_onednn
def test_lines_are_shifted_by_a_padding_and_a_cropping() -> None:
    """As RWKV mixes each token with the one before; the length of what is cropped was unknown to targets."""
    model = onnx.parser.parse_model(HEAD + SHIFTED)
    machine = run_model(model, ["dnnl"], *((numbers(2, rows, 3), numbers(3)) for rows in (5, 1, 8)))
    assert not ops_on_host(ar.partition(ar.from_onnx(model), ["dnnl"]), "main")
    given = (np.zeros((2, 0, 3), "float32"), numbers(3))
    with pytest.raises(ValueError, match=r"min\(0, l - 1\) must be 0 for 'Pad:p', where l is extent 1 of x"):
        machine["main"](*map(runtime.tensor, given))


def test_a_list_of_constants_times_an_extent() -> None:
    text = """(float[n, 2] x) => (float[2] y)
        <int64 zero = {0}, int64[2] whole = {3, 5}, float[2] parts = {0.5, 2.0}> {
        s = Shape(x) n = Gather(s, zero) m = Mul(n, whole) g = Cast<to = 1>(m)
        f = Cast<to = 1>(n) d = Div(f, parts) y = Add(g, d)
    }"""
    run(text, ["dnnl"], (numbers(3, 2),), (numbers(7, 2),))


SIZES = {
    "images": (
        "float[n, 2, h, w] x, float[n, 2, p, q] z",
        ((2, 2, 3, 2), (1, 2, 1, 4)),
        ((2, 2, 6, 5), (1, 2, 1, 1)),
    ),
    "lines": ("float[n, 2, h] x, float[n, 2, p] z", ((2, 2, 3), (1, 2, 1)), ((2, 2, 7), (1, 2, 2))),
}
MODES = {
    "linear": 'mode = "linear"',
    "corners": 'mode = "linear", coordinate_transformation_mode = "align_corners"',
    "nearest": 'nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"',
    "as in PyTorch": 'mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"',
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SIZES)
def test_images_of_the_size_of_another(name: str, mode: str) -> None:
    inputs, given, others = SIZES[name]
    text = f"""({inputs}) => (float[n, 2] y) {{ s = Shape(z) y = Resize<{MODES[mode]}>(x, , , s) }}"""
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    calls = [(numbers(*shape), numbers(*other)) for shape, other in zip(given, others, strict=True)]
    run_model(model, ["dnnl"], *calls)


FRACTIONS = {
    "linear": 'mode = "linear"',
    "as in PyTorch": 'mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"',
    "asymmetric": 'mode = "linear", coordinate_transformation_mode = "asymmetric"',
    "floor": 'nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"',
    "down": 'nearest_mode = "round_prefer_floor"',
    "up": 'nearest_mode = "round_prefer_ceil"',
    "ceil": 'nearest_mode = "ceil", coordinate_transformation_mode = "asymmetric"',
}


@pytest.mark.sweep
@pytest.mark.parametrize("mode", FRACTIONS)
@pytest.mark.parametrize("scale", [0.5, 1.5, 0.75])
def test_images_of_any_size_are_scaled_by_fractions(scale: float, mode: str) -> None:
    text = f"""(float[n, 2, h, w] x) => (float[n, 2, p, q] y) <float[4] k = {{1.0, 1.0, {scale}, 2.0}}>
        {{ y = Resize<{FRACTIONS[mode]}>(x, , k) }}"""
    run(text, ["dnnl"], *((numbers(*shape),) for shape in ((2, 2, 4, 3), (1, 2, 7, 1), (1, 2, 2, 2))))


@pytest.mark.parametrize(
    ("mode", "scale", "message"),
    [
        ('mode = "linear"', 0.3, "no fraction of a small power of 2"),
        ('mode = "cubic"', 1.5, "resizes the axis 2 of symbolic extent"),
        (
            'mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric"',
            1.5,
            "by the coordinates",
        ),
    ],
)
def test_scales_of_symbolic_extents_that_are_declined(mode: str, scale: float, message: str) -> None:
    text = f"""(float[n, 2, h, w] x) => (float[n, 2, p, q] y) <float[4] k = {{1.0, 1.0, {scale}, 1.0}}>
        {{ y = Resize<{mode}>(x, , k) }}"""
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))


def test_lines_of_a_known_size_are_an_op_that_targets_claim() -> None:
    text = """(float[n, 2, 5] x) => (float[n, 2, 10] y) <float[3] k = {1.0, 1.0, 2.0}>
        { y = Resize<mode = "linear">(x, , k) }"""
    assert "call_tir" not in ar.from_onnx(onnx.parser.parse_model(HEAD + text)).script()
    run(text, [], (numbers(2, 2, 5),))


PLACES = """(float[n, h] x, int64[1] from, int64[1] to) => (float[n, k] y)
    <int64[1] axis = {{1}}, int64[1] step = {{{}}}> {{ y = Slice(x, from, to, axis, step) }}"""


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_slices_between_computed_places(step: int) -> None:
    """An end in front of the start made a tensor of a negative extent, and an error of the allocator."""
    pairs = [(0, 3), (1, 9), (-2, 9), (4, 1), (-9, -1), (3, -9), (9, 0)]
    run(PLACES.format(step), ["dnnl"], *((numbers(2, 6), np.array([a]), np.array([b])) for a, b in pairs))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool"])
@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot_has_the_type_of_its_values(dtype: str, axis: int) -> None:
    """It was float64 for float32, and int64 for int32."""
    text = f"(int64[n] i) => (float[n, 4] y) <int64 d = {{4}}> {{ y = OneHot<axis = {axis}>(i, d, v) }}"
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 3]).astype(dtype), "v"))
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    if dtype in ("bool", "int32"):
        module = ar.from_onnx(model)
        assert str(module["main"].ret_ty.dtype) == dtype
        return
    run_model(model, ["onnxruntime"], (np.array([0, 3, -1, -4, 5, -6]),))


@pytest.mark.parametrize("corners", [0, 1])
def test_grids_of_a_computed_size(corners: int) -> None:
    text = f"""(float[n, 3, 5, 6] x, float[n, 2, 3] t) => (float[n, 5, 6, 2] y)
        {{ s = Shape(x) y = AffineGrid<align_corners = {corners}>(t, s) }}"""
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 20]> g ' + text)
    run_model(model, ["dnnl"], (numbers(2, 3, 5, 6), numbers(2, 2, 3)))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_of_different_lengths(direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    weights = [numpy_helper.from_array(numbers(count, 12, size), name) for name, size in (("W", 2), ("R", 4))]
    inputs = [("x", FLOAT, [5, "n", 2]), ("l", TensorProto.INT32, ["m"])]
    node = helper.make_node("LSTM", ["x", "V", "Q", "", "l"], ["y"], hidden_size=3, direction=direction)
    weights = [numpy_helper.from_array(numbers(count, 12, size), name) for name, size in (("V", 2), ("Q", 3))]
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    lengths = np.array([5, 1, 3], "int32")
    run_model(model, ["dnnl"], (numbers(5, 3, 2), lengths), (numbers(5, 1, 2), lengths[1:2]))


TWO_NAMES = {
    "bits": ("int32[n, 4] x, int32[m, 4] z", "y = BitwiseAnd(x, z)"),
    "einsum": ("float[n, 3, h] x, float[m, 4, w] z", 'y = Einsum<equation = "bid, bjd -> bij">(x, z)'),
    "gemm": ("float[h, n] x, float[4, w] z", "y = Gemm<transA = 1, transB = 1>(x, z)"),
    "attention": ("float[n, 2, h, 4] x, float[m, 2, w, 4] z", "y = Attention(x, z, z)"),
    "masked": ("float[n, 2, h, 4] x, float[m, 2, w, 4] z, float[k, 1, p, q] a", "y = Attention(x, z, z, a)"),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_NAMES)
def test_inputs_whose_extents_have_names_of_their_own(name: str) -> None:
    """TensorFlow's and Paddle's exporters name the batch of each input for itself."""
    given, nodes = TWO_NAMES[name]
    model = onnx.parser.parse_model(
        f'<ir_version: 11, opset_import: ["" : 23]> g ({given}) => (float[a] y) {{ {nodes} }}'
    )
    output = model.graph.output[0].type.tensor_type
    output.ClearField("shape")
    output.elem_type = model.graph.input[0].type.tensor_type.elem_type
    machine = machine_of(model, ["onnxruntime"])
    for size in (1, 3):
        extents = dict.fromkeys("nmhwkpq", size)
        shapes = [
            [each.dim_value or extents[each.dim_param] for each in value.type.tensor_type.shape.dim]
            for value in model.graph.input
        ]
        dtype = "int32" if name == "bits" else "float32"
        call = [(4 * numbers(*shape)).astype(dtype) for shape in shapes]
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        (expected,) = session.run(None, dict(zip(names, call, strict=True)))
        found = machine["main"](*map(runtime.tensor, call)).numpy()
        np.testing.assert_allclose(found, expected, rtol=5e-6, atol=5e-6)


def test_positions_in_int32() -> None:
    """TensorFlow casts the shape, and then counts; the length was one of its own."""
    text = """(float[n, h] x) => (float[n, h] y)
        <int32 zero = {0}, int32 one = {1}, int64[1] at = {1}, int64[1] end = {2}> {
        s = Shape(x) i = Cast<to = 6>(s) l = Slice(i, at, end) e = Squeeze(l) r = Range(zero, e, one)
        f = Cast<to = 1>(r) y = Add(x, f) }"""
    run(text, ["dnnl"], (numbers(2, 3),), (numbers(1, 1),))


def test_positions_behind_earlier_tokens() -> None:
    """PyTorch writes so those of one more token: a list of one plus an extent is a list, not a number."""
    text = """(float[n, h] x) => (float[n, h] y) <int64[1] one = {0}, int64[1] at = {1}> {
        s = Shape<start = 1, end = 2>(x) e = Squeeze(s) p = Add(one, e) r = Unsqueeze(p, at)
        f = Cast<to = 1>(r) y = Add(x, f) }"""
    run(text, ["dnnl"], (numbers(2, 3),), (numbers(1, 1),))


def test_products_of_extents_that_are_written_in_two_ways() -> None:
    """Mamba's chunks; an einsum of them stayed on the host."""
    text = """(float[2, 3, n] x) => (float[2, 3, 3] y)
        <int64 four = {4}, int64 down = {-4}, int64[1] at = {0}, int64[2] own = {2, 3}> {
        s = Shape<start = 2, end = 3>(x) e = Squeeze(s, at) r = ReduceMean<axes = [2]>(x)
        m = Mod(e, down) d = Sub(e, m) a = Div(d, four) b = Unsqueeze(a, at) c = Concat<axis = 0>(own, b)
        o = Mod(e, four) f = Sub(four, o) g = Mod(f, four) h = Add(e, g) i = Div(h, four) j = Unsqueeze(i, at)
        k = Concat<axis = 0>(own, j) p = Expand(r, c) q = Expand(r, k)
        y = Einsum<equation = "bcl,bdl->bcd">(p, q) }"""
    run(text, ["dnnl"], (numbers(2, 3, 5),), (numbers(2, 3, 1),))
    (function,) = ar.explain(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"]).functions
    assert not [op for op in function.ops if "einsum" in op.op]


def test_shapes_of_the_larger_extents() -> None:
    """Paddle writes so the shape of each expanded tensor."""
    text = """(float[n, 4] x) => (float[n, 4] y) <int64[2] own = {1, 4}, float[1, 1] one = {1.0}> {
        s = Shape(x) m = Max(own, s) e = Expand(one, m) y = Add(e, x) }"""
    run(text, ["dnnl"], (numbers(2, 4),), (numbers(1, 4),))


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes_of_extents(op: str) -> None:
    text = f"""(float[n, h] x) => (float[k] y)
        <int64 zero = {{0}}, int64 one = {{1}}, float v = {{1.5}}, int64[1] at = {{0}}> {{
        s = Shape(x) a = Gather(s, zero) b = Gather(s, one) m = {op}(a, b) u = Unsqueeze(m, at)
        y = Expand(v, u) }}"""
    run(text, [], (numbers(2, 4),), (numbers(3, 1),))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("offset", [0, 1, -2])
def test_triangles_of_any_size_are_one_region(upper: int, offset: int) -> None:
    """A causal mask is one."""
    text = f"""(float[n, h, w] x) => (float[n, h, w] y) <int64 k = {{{offset}}}>
        {{ t = Trilu<upper = {upper}>(x, k) y = Relu(t) }}"""
    run(text, ["dnnl"], *((numbers(*shape),) for shape in ((2, 4, 4), (1, 3, 5), (1, 1, 1))))
    (function,) = ar.explain(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"]).functions
    assert not [op for op in function.ops if op.placed == "host"]


def test_diagonals_of_any_size_are_one_region() -> None:
    """XLNet's mask is of one."""
    text = """(float[h, w] x) => (float[h, w] y) { t = EyeLike<k = 1>(x) y = Sub(x, t) }"""
    run(text, ["dnnl"], *((numbers(*shape),) for shape in ((4, 4), (3, 5), (1, 1))))
    (function,) = ar.explain(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"]).functions
    assert not [op for op in function.ops if op.placed == "host"]


@pytest.mark.parametrize("exclusive", [0, 1])
def test_sums_from_the_end_are_ops_that_targets_claim(exclusive: int) -> None:
    text = f"""(float[n, h] x) => (float[n, h] y) <int64 a = {{-1}}>
        {{ y = CumSum<reverse = 1, exclusive = {exclusive}>(x, a) }}"""
    assert "call_tir" not in ar.from_onnx(onnx.parser.parse_model(HEAD + text)).script()
    run(text, ["dnnl"], (numbers(2, 4),), (numbers(1, 1),))


LENGTHS = {
    "a mean": "f = Cast<to = 1>(e) r = ReduceSum<keepdims = 0>(x, at) y = Div(r, f)",
    "a remainder": "m = Mod(e, two) f = Cast<to = 1>(m) r = ReduceSum<keepdims = 0>(x, at) y = Add(r, f)",
    "places": "i = Cast<to = 7>(x) l = Less(i, e) f = Cast<to = 1>(l) y = ReduceSum<keepdims = 0>(f, at)",
}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("target", ["dnnl", "onnxruntime"])
def test_extents_among_numbers_are_tensors(name: str, target: str) -> None:
    """A division by an extent that is no tensor stayed on the host."""
    text = f"""(float[n, h] x) => (float[n] y) <int64 one = {{1}}, int64 two = {{2}}, int64[1] at = {{1}}>
        {{ s = Shape(x) e = Gather(s, one) {LENGTHS[name]} }}"""
    run(text, [target], (numbers(2, 4),), (numbers(1, 1),))
    (function,) = ar.explain(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), [target]).functions
    assert not [op for op in function.ops if op.placed == "host"]


def test_sequences_of_the_whole_length_are_reversed() -> None:
    """TensorFlow reverses so: the length, expanded to the batch."""
    text = """(float[5, n, 2] x) => (float[5, n, 2] y) <int64[1] zero = {0}, int64[1] one = {1}> {
        s = Shape(x) t = Gather(s, zero) b = Gather(s, one) l = Expand(t, b) r = Relu(x)
        y = ReverseSequence<batch_axis = 1, time_axis = 0>(r, l) }"""
    run(text, ["onnxruntime"], (numbers(5, 2, 2),), (numbers(5, 1, 2),))


def test_a_branch_on_an_extent() -> None:
    text = """(float[n, 4] x) => (float[n, 4] y) <int64 zero = {0}, int64 two = {2}> {
        s = Shape(x) e = Gather(s, zero) c = Greater(e, two)
        y = If(c) <then_branch = t () => (float[n, 4] r) { r = Relu(x) },
                   else_branch = e () => (float[n, 4] q) { q = Neg(x) }> }"""
    run(text, ["onnxruntime"], (numbers(2, 4),), (numbers(3, 4),))


@pytest.mark.parametrize("dtype", [6, 7])
def test_means_of_whole_numbers_keep_their_type(dtype: int) -> None:
    text = f"""(float[n, 4] x) => ({"int32" if dtype == 6 else "int64"}[n] y)
        {{ k = Constant<value_float = 9.0>() l = Mul(x, k) i = Cast<to = {dtype}>(l)
           y = ReduceMean<axes = [1], keepdims = 0>(i) }}"""
    run(text, [], (numbers(5, 4),))


def test_as_many_of_the_largest_as_an_extent_says() -> None:
    text = """(float[n, 5] x) => (float[n, k] y) <int64 last = {1}, int64[1] at = {0}> {
        s = Shape(x) i = Cast<to = 6>(s) e = Gather(i, last) u = Unsqueeze(e, at) k = Cast<to = 7>(u)
        y, p = TopK(x, k) }"""
    run(text, ["onnxruntime"], (numbers(2, 5),))


@pytest.mark.parametrize("slope", [0.25, -1.5])
def test_one_slope_for_lines_of_any_length(slope: float) -> None:
    """TVM repeated it along the last axis, which no target claimed, and the host could not compile."""
    text = f"""(float[n, 4, l] x) => (float[n, 4, l] y) <float[1] s = {{{slope}}}> {{ y = PRelu(x, s) }}"""
    run(text, ["dnnl"], (numbers(2, 4, 5),), (numbers(1, 4, 1),))
    (function,) = ar.explain(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"]).functions
    assert [op.placed for op in function.ops] == ["dnnl"]


NAMES = ["batch-size", "2*n", "floor(n/2)", "n + 1", "a/b", "height:0", "n-1", "größe", "-1", "?"]


@pytest.mark.parametrize("name", NAMES)
def test_extents_may_have_any_name(name: str) -> None:
    """TVM reads formulas of extents that no input has, and makes a module that is not well formed."""
    info = helper.make_tensor_value_info("x", FLOAT, [name, 4])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "named",
        [info],
        [helper.make_tensor_value_info("y", FLOAT, [None, 3])],
        [numpy_helper.from_array(numbers(4, 3), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    run_model(model, [], (numbers(2, 4),), (numbers(1, 4),))


def test_extents_of_zero_are_unknown_and_have_names_of_their_own() -> None:
    """Old exporters write 0 for a batch of any size."""
    text = "(float[0, 3] x, float[0, 3] z) => (float[n, 3] y) { y = Concat<axis = 0>(x, z) }"
    machine = machine_of(onnx.parser.parse_model(HEAD + text))
    x, z = numbers(2, 3), numbers(1, 3)
    found = machine["main"](runtime.tensor(x), runtime.tensor(z)).numpy()
    np.testing.assert_array_equal(found, np.concatenate([x, z]))


def test_formulas_of_other_extents_are_kept() -> None:
    """Those that TVM reads from left to right as they are meant."""
    infos = [
        helper.make_tensor_value_info(name, FLOAT, [extent])
        for name, extent in (("a", "past"), ("b", "new"), ("c", "past + new"), ("d", "past + 2*new"))
    ]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["y"])], "named", infos, [helper.make_empty_tensor_value_info("y")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    shapes = [each.ty.shape.values[0] for each in ar.from_onnx(model)["main"].params]
    assert [str(each) for each in shapes] == ["past", "new", "past + new", "past___2_new"]


WINDOWS_OF_IMAGES = """(float[n, 3, 8, 8] x, float[n, 1, 3] q) => (float[w, 1, 3] y) <
    int64[6] apart = {-1, 3, 2, 4, 2, 4}, int64[3] rows = {-1, 16, 3}, int64 first = {0},
    int64[1] front = {0}, int64[1] one = {1}, int64 axes = {3}> {
    r = Reshape(x, apart) t = Transpose<perm = [0, 2, 4, 3, 5, 1]>(r) k = Reshape(t, rows)
    sk = Shape(k) windows = Gather(sk, first) sx = Shape(x) images = Gather(sx, first)
    times = Div(windows, images) list = Unsqueeze(times, front) pair = Concat<axis = 0>(one, list)
    repeats = OneHot(front, axes, pair) flat = Squeeze(repeats, front)
    m = ReduceMean<axes = [1], keepdims = 1>(k) qs = Tile(q, flat) y = Mul(qs, m)
}"""


def test_the_windows_of_an_image_are_counted() -> None:
    """A query for each image is repeated for its windows (GCViT): windows of all images divided by these."""
    assert "tensor_to_shape" not in ar.from_onnx(onnx.parser.parse_model(HEAD + WINDOWS_OF_IMAGES)).script()
    inputs = [(numbers(n, 3, 8, 8), numbers(n, 1, 3)) for n in (1, 2)]
    run(WINDOWS_OF_IMAGES, ["dnnl"], *inputs)
