"""What exporters write: shapes in int32, extents without names or with several, squeezes, old formats."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from kits.importing.onnx_texts import HEAD, machine_of, run, run_model
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, runtime

import annotated_region as ar
from annotated_region.errors import ModelError

FLOAT = TensorProto.FLOAT


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


def module_of(text: str):
    return ar.from_onnx(onnx.parser.parse_model(HEAD + text))


IN_INT32 = """(float[n, 6] x) => (float[a, b] y)
    <int64[1] at0 = {0}, int64[1] at1 = {1}, int64 first = {0}, int32 two = {2}, int32[2] rest = {-1, 3}> {
    s64 = Shape(x)
    s = Cast<to = 6>(s64)
    rows = Slice(s, at0, at1)
    list = Concat<axis = 0>(rows, rest)
    k = Cast<to = 7>(list)
    r = Relu(x)
    z = Reshape(r, k)
    number = Gather(s, first)
    more = Add(number, two)
    less = Sub(more, two)
    double = Mul(less, two)
    doubles = Unsqueeze(double, at0)
    list2 = Concat<axis = 0>(doubles, rest)
    wide = Cast<to = 7>(list2)
    w = Reshape(z, wide)
    y = ReduceSum<keepdims = 0>(w, at1)
}"""


def test_shapes_in_int32_are_shapes() -> None:
    """TensorFlow and Paddle compute them so; each tensor behind the first was of unknown shape."""
    assert "match_cast" not in module_of(IN_INT32).script()
    run(IN_INT32, ["dnnl"], (numbers(2, 6),), (numbers(1, 6),))


PRODUCTS = {
    "Reshape": "k = Concat<axis = 0>(p, rest, w) r = Relu(x) y = Reshape(r, k)",
    "Expand": "k = Concat<axis = 0>(p, w) q = Mul(w, p) t = Expand(one, k) l = Expand(one, q) "
    "c = CumSum(l, zero) z = Reshape(c, k) v = Add(z, t) y = Cast<to = 1>(v)",
    "ConstantOfShape": "k = Concat<axis = 0>(w, p) y = ConstantOfShape(k)",
    "Split": "e0, e1, e2, e3 = Split(s) k = Concat<axis = 0>(e2, p) y = ConstantOfShape(k)",
    "Slice": "t = Shape(h) q = Shape(s) k = Slice(s, t, q) y = ConstantOfShape(k)",
}
"""What reads products and lists of extents: axes that an `einsum` joins, and a triangle of positions."""


@pytest.mark.parametrize("reader", PRODUCTS)
def test_products_of_extents_are_extents(reader: str) -> None:
    """TensorFlow's exporter writes attention so; TVM could not compile a module of computed extents."""
    text = f"""(float[n, 2, m, 4] x) => (float[a, b{", c" if reader == "Reshape" else ""}] y)
        <int64[2] first = {{0, 1}}, int64[1] rest = {{-1}}, int64[1] last = {{2}}, int64[1] one = {{1}},
         int64 zero = {{0}}> {{
        s = Shape(x) h = Gather<axis = 0>(s, first) p = ReduceProd<keepdims = 1>(h)
        w = Gather<axis = 0>(s, last) {PRODUCTS[reader]} }}"""
    assert "match_cast" not in module_of(text).script()
    run(text, [], (numbers(2, 2, 3, 4),), (numbers(1, 2, 1, 4),))


def test_numbers_in_int32_that_are_no_extents_stay_tensors() -> None:
    text = """(float[n] x, int32[1] k) => (float[a] y)
        { l = Cast<to = 7>(k) r = Relu(x) y = Reshape(r, l) }"""
    run(text, [], (numbers(2), np.array([2], "int32")), (numbers(4), np.array([-1], "int32")))


SKIP = """(float[n, 2, h, w] x) => (float[a, b, c, d] y) <float[4] k = {1.0, 1.0, 2.0, 2.0}> {
    p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
    q = Resize<mode = "nearest">(p, , k)
    s = Add(x, q)
    t = Concat<axis = 1>(x, q)
    e = Concat<axis = 1>(s, t)
    y = Relu(e)
}"""
BROKEN = (
    r"'main' is called with inputs of extents for which its model is not defined: "
    r"h // 2 \* 2 must be h for 'Add:s', where h is extent 2 of x; pass inputs for which this holds"
)


def test_images_that_are_halved_and_doubled() -> None:
    """Detectors join them with what they were; of the sum and all behind it no extent was known."""
    machine = run(SKIP, ["dnnl"], (numbers(1, 2, 4, 6),), (numbers(3, 2, 8, 2),))
    with pytest.raises(ValueError, match=BROKEN):
        machine["main"](runtime.tensor(numbers(1, 2, 5, 6)))


TWO_BATCHES = """(float[n, 3] x, float[m, 3] z, float[3, 2] w, float[k, 2] v) => (float[a, b] y)
    { s = Mul(x, z) p = MatMul(s, w) y = Sub(p, v) }"""


def test_batches_with_a_name_for_each_input() -> None:
    inputs = (numbers(4, 3), numbers(4, 3), numbers(3, 2), numbers(4, 2))
    assert not any("ndim" in line for line in module_of(TWO_BATCHES).script().splitlines())
    machine = run(TWO_BATCHES, [], inputs)
    message = "m must be n for 'Mul:s', where m is extent 0 of z and n is extent 0 of x"
    with pytest.raises(ValueError, match=message):
        machine["main"](*map(runtime.tensor, (numbers(4, 3), numbers(2, 3), *inputs[2:])))


# As jax2onnx writes what JAX updates in place.
@pytest.mark.parametrize(
    "text",
    [
        "(float[n, 3] x) => (float[a, b, c] y) <int64 at = {1}> { r = Relu(x) y = Unsqueeze(r, at) }",
        "(float[n, 3] x) => (int64[a, b] y) <int64 at = {1}> { s = Shape(x) y = Unsqueeze(s, at) }",
    ],
    ids=["of a tensor", "of a shape"],
)
def test_axes_may_be_a_number(text: str) -> None:
    run(text, [], (numbers(2, 3),), (numbers(4, 3),))


SQUEEZED = "(float[n, k, 3] x) => (float[a, b] y) <int64[1] at = {-2}> { r = Relu(x) y = Squeeze(r, at) }"


def test_a_symbolic_axis_is_squeezed_where_it_has_one_element() -> None:
    machine = run(SQUEEZED, [], (numbers(2, 1, 3),), (numbers(1, 1, 3),))
    with pytest.raises(ValueError, match="k must be 1 for 'Squeeze:y', where k is extent 1 of x"):
        machine["main"](runtime.tensor(numbers(2, 2, 3)))


def test_all_axes_of_one_element_need_known_extents() -> None:
    with pytest.raises(
        ModelError, match=r"and the extents n are unknown; give them numbers \(shape_dict, --shape\)"
    ):
        module_of("(float[n, 1, 3] x) => (float[a, b] y) { y = Squeeze(x) }")


TILED = """(float[n, 1, 3] x) => (float[a, b, c] y)
    <int64[1] at0 = {0}, int64[1] at1 = {1}, int64[2] ones = {1, 1}> {
    s = Shape(x)
    rows = Slice(s, at0, at1)
    k = Concat<axis = 0>(ones, rows)
    w = Tile(x, k)
    l = Concat<axis = 0>(rows, ones)
    v = Tile(w, l)
    m = Concat<axis = 0>(at1, rows, at1)
    y = Tile(v, m)
}"""


def test_counts_of_repetitions_are_extents() -> None:
    assert "tile_dim" not in module_of(TILED).script()
    run(TILED, ["dnnl"], (numbers(2, 1, 3),), (numbers(1, 1, 3),))


HALVED = """(float[n, 3] x) => (float[a, b] y)
    <int64 first = {0}, int64 three = {3}, int64 two = {2}, int64 one = {1},
     int64[1] at = {0}, int64[1] rest = {-1}> {
    s = Shape(x) e = Gather(s, first) l = Sub(e, three) h = Div(l, two) m = Add(h, one)
    u = Unsqueeze(m, at) r = Relu(x) k = Concat<axis = 0>(u, rest) y = Reshape(r, k)
}"""


def test_quotients_of_extents_are_rounded_towards_zero() -> None:
    """As floor divisions, which targets claim; of negative numbers another one: -1 // 2 is 0 in ONNX."""
    assert "T.Div" not in module_of(HALVED).script()
    run(HALVED, ["dnnl"], (numbers(6, 3),), (numbers(2, 3),))


PAIRED = """(float[n, 3] x) => (float[a, b] y)
    <int64 first = {0}, int64 two = {2}, int64[1] at = {0}, int64[1] rest = {-1}> {
    s = Shape(x) e = Gather(s, first) h = Div(e, two)
    u = Unsqueeze(h, at) r = Relu(x) k = Concat<axis = 0>(u, rest) y = Reshape(r, k)
}"""


def test_quotients_of_plain_extents_are_floor_divisions() -> None:
    assert "n // 2" in module_of(PAIRED).script()
    run(PAIRED, ["dnnl"], (numbers(6, 3),), (numbers(2, 3),))


POSITIONS = """(float[n, 3] x) => (float[a, b] y)
    <int64 first = {0}, float zero = {0.0}, float one = {1.0}, int64[1] at = {1}> {
    s = Shape(x) e = Gather(s, first) f = Cast<to = 1>(e)
    p = Range(zero, f, one) q = Unsqueeze(p, at) y = Add(x, q)
}"""


def test_positions_in_float32_are_as_many_as_rows() -> None:
    assert "match_cast" not in module_of(POSITIONS).script()
    run(POSITIONS, [], (numbers(4, 3),), (numbers(1, 3),))


CLIPPED = """(float[n, 3] x, float l, float m) => (float[a, b] y) {
    one = Constant<value_float = 1.0>() z = Clip(x, , one) y = Clip(z, l, m)
}"""


def test_clip_is_two_ops_that_targets_know() -> None:
    """Between bounds; a bound of NaN is none; of bounds that cross, the upper one."""
    assert "call_tir" not in module_of(CLIPPED).script()
    bounds = [(-0.5, 0.5), (np.nan, 0.5), (-0.5, np.nan), (0.5, -0.5)]
    run(CLIPPED, [], *((numbers(4, 3), *(np.array(each, "float32") for each in pair)) for pair in bounds))


def model_of(
    nodes: list[onnx.NodeProto], shape: list[int | None], rank: int, **kept: object
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", FLOAT, [None] * rank)]
    weights = [numpy_helper.from_array(numbers(3), "w")]
    graph = helper.make_graph(nodes, "model", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", kept.pop("opset", 17))], **kept)


def test_extents_without_names_differ() -> None:
    """TVM's importer has one variable for all, so that images must be square, and takes -1 for a number."""
    model = model_of([helper.make_node("Mul", ["x", "w"], ["y"])], [-1, None, None, 3], 4, ir_version=8)
    run_model(model, [], (numbers(1, 2, 4, 3),), (numbers(2, 5, 1, 3),))
    shape = ar.from_onnx(model)["main"].params[0].ty.shape
    assert [str(each) for each in shape.values] == ["x_0", "x_1", "x_2", "T.int64(3)"]


def test_weights_that_are_no_inputs_in_the_oldest_format() -> None:
    model = model_of([helper.make_node("Mul", ["x", "w"], ["y"])], [2, 3], 2, opset=7, ir_version=3)
    assert model.ir_version == 3
    run_model(model, [], (numbers(2, 3),))


@pytest.mark.parametrize("rows", [1, 2, None])
def test_a_branch_that_is_known_is_taken(rows: int | None) -> None:
    """PyTorch exports a `squeeze` as a question whether the extent is 1, with results of two ranks."""

    def branch(name: str, op: str, *inputs: str) -> onnx.GraphProto:
        result = helper.make_empty_tensor_value_info(f"{name}_y")
        axes = [numpy_helper.from_array(np.array([1]), f"{name}_axis")]
        return helper.make_graph([helper.make_node(op, inputs, [f"{name}_y"])], name, [], [result], axes)

    one, more = branch("one", "Squeeze", "x", "one_axis"), branch("more", "Relu", "x")
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["at"], value_ints=[1]),
        helper.make_node("Gather", ["s", "at"], ["e"]),
        helper.make_node("Equal", ["e", "at"], ["condition"]),
        helper.make_node("If", ["condition"], ["z"], then_branch=one, else_branch=more),
        helper.make_node("Mul", ["z", "w"], ["y"]),
    ]
    model = model_of(nodes, [None, rows, 3], 2 if rows == 1 else 3, ir_version=8)
    if rows is None:
        with pytest.raises(ModelError, match=r"different ranks; give the inputs numbers"):
            ar.from_onnx(model)
        return
    function = ar.from_onnx(model)["main"]
    assert not any(isinstance(each, relax.If) for each in values_of(function))
    assert len(function.ret_ty.shape) == (2 if rows == 1 else 3)
    if rows == 1:  # ONNX Runtime loads no model with a branch that cannot be taken
        run_model(model, [], (numbers(4, 1, 3),))


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("otherwise", ["Identity", "Neg"])
def test_a_squeeze_of_an_axis_that_each_call_is_checked_for(opset: int, otherwise: str) -> None:
    """PyTorch's `x.squeeze(1)` behind a convolution of any length, as in Silero's models of speech."""
    axes = helper.make_node("Constant", [], ["axes"], value=numpy_helper.from_array(np.array([1])))
    squeeze = (
        [helper.make_node("Squeeze", ["x"], ["z_1"], axes=[1])]
        if opset < 13
        else [axes, helper.make_node("Squeeze", ["x", "axes"], ["z_1"])]
    )
    other = [helper.make_node(otherwise, ["x"], ["z_2"])]
    branches = [
        helper.make_graph(each, name, [], [helper.make_empty_tensor_value_info(f"{name}")])
        for each, name in ((squeeze, "z_1"), (other, "z_2"))
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["at"], value_ints=[1]),
        helper.make_node("Gather", ["s", "at"], ["e"]),
        helper.make_node("Equal", ["e", "at"], ["condition"]),
        helper.make_node("If", ["condition"], ["z"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Mul", ["z", "w"], ["y"]),
    ]
    model = model_of(nodes, [None, None, 3], 2, ir_version=8, opset=opset)
    if otherwise != "Identity":
        with pytest.raises(ModelError, match=r"different ranks; give the inputs numbers"):
            ar.from_onnx(model)
        return
    run_model(model, [], (numbers(4, 1, 3),), (numbers(2, 1, 3),))
    main = relax.VirtualMachine(ar.build(ar.from_onnx(model)), runtime.cpu())["main"]
    with pytest.raises(ValueError, match="x_1 must be 1 for 'Squeeze:z_1', where x_1 is extent 1 of x"):
        main(runtime.tensor(numbers(4, 2, 3)))


@pytest.mark.parametrize("broken", ["axes that are no integers", "an attribute more", "a branch less"])
def test_a_broken_branch_is_an_error_that_names_it(broken: str) -> None:
    axes = numpy_helper.from_array(np.array([1.0] if broken.startswith("axes") else [1]))
    nodes = [helper.make_node("Constant", [], ["axes"], value=axes)]
    nodes.append(helper.make_node("Squeeze", ["x", "axes"], ["z_1"]))
    result = [helper.make_empty_tensor_value_info("z_1")]
    branches = {"then_branch": helper.make_graph(nodes, "one", [], result)}
    if broken != "a branch less":
        other = [helper.make_node("Identity", ["x"], ["z_2"])]
        result = [helper.make_empty_tensor_value_info("z_2")]
        branches["else_branch"] = helper.make_graph(other, "more", [], result)
    if broken == "an attribute more":
        branches["third_branch"] = branches["else_branch"]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["at"], value_ints=[1]),
        helper.make_node("Gather", ["s", "at"], ["e"]),
        helper.make_node("Equal", ["e", "at"], ["condition"]),
        helper.make_node("If", ["condition"], ["z"], **branches),
        helper.make_node("Mul", ["z", "w"], ["y"]),
    ]
    with pytest.raises(
        ModelError, match=r"node 'z_1' \(Squeeze\)|different ranks|lacks its attribute 'else_branch'"
    ):
        ar.from_onnx(model_of(nodes, [None, None, 3], 2, ir_version=8))


def values_of(function: relax.Function) -> list[relax.Expr]:
    return [binding.value for block in function.body.blocks for binding in block.bindings]


def test_a_state_of_one_row_asks_for_batches_of_one() -> None:
    weights = [numpy_helper.from_array(numbers(1, 12, size), name) for name, size in (("W", 2), ("R", 4))]
    inputs = [("x", [3, "n", 2]), ("h", [1, 1, 4])]
    node = helper.make_node("GRU", ["x", "W", "R", "", "", "h"], ["", "y"], hidden_size=4)
    graph = helper.make_graph(
        [node], "layer", [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info("y", FLOAT, None)], weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    machine = machine_of(model)
    machine["main"](runtime.tensor(numbers(3, 1, 2)), runtime.tensor(numbers(1, 1, 4)))
    with pytest.raises(ValueError, match="1 must be n for 'GRU:y', where n is extent 1 of x"):
        machine["main"](runtime.tensor(numbers(3, 2, 2)), runtime.tensor(numbers(1, 1, 4)))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("op", ["Hardmax", "Softmax", "LogSoftmax"])
def test_old_functions_of_several_axes(op: str, axis: int | None) -> None:
    """Until operator set 13 they flattened what stands behind an axis, 1 by default."""
    node = helper.make_node(op, ["x"], ["y"], **({} if axis is None else {"axis": axis}))
    model = model_of([node], [2, 3, 4] if axis == 0 else [None, 3, 4], 3, opset=11, ir_version=6)
    run_model(model, [], (numbers(2, 3, 4),))


def test_operators_that_onnx_cannot_convert_are_declined_by_their_set() -> None:
    model = model_of(
        [helper.make_node("ImageScaler", ["x"], ["y"], scale=0.5)], [2, 3], 2, opset=7, ir_version=3
    )
    with pytest.raises(
        ModelError, match=r"it is of operator set 7, and ONNX cannot convert it to 13.*ImageScaler"
    ):
        ar.from_onnx(model)


def sparse(places: list[int], shape: tuple[int, ...] = (2, 3), values: int = 2) -> onnx.SparseTensorProto:
    numbers_at = helper.make_tensor("s", FLOAT, [values], [1.5, -2.0][:values])
    rows = len(places) // values
    indices = helper.make_tensor("i", TensorProto.INT64, [values, rows] if rows > 1 else [values], places)
    return helper.make_sparse_tensor(numbers_at, indices, list(shape))


def sparse_model(tensor: onnx.SparseTensorProto, is_node: bool) -> onnx.ModelProto:
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    if is_node:
        nodes.insert(0, helper.make_node("Constant", [], ["s"], sparse_value=tensor))
    info = helper.make_tensor_value_info("x", FLOAT, ["n", 3])
    graph = helper.make_graph(
        nodes, "sparse", [info], [helper.make_empty_tensor_value_info("y")],
        sparse_initializer=[] if is_node else [tensor],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("is_node", [False, True])
@pytest.mark.parametrize("places", [[1, 5], [0, 1, 1, 2]])
def test_sparse_constants_are_dense_ones(places: list[int], is_node: bool) -> None:
    run_model(sparse_model(sparse(places), is_node), [], (numbers(2, 3),))


@pytest.mark.parametrize(
    ("places", "shape"), [([1, 6], (2, 3)), ([-1, 0], (2, 3)), ([1, 2], (2**20, 2**20)), ([1, 2], (0, 3))]
)
def test_sparse_constants_that_are_declined(places: list[int], shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="its sparse tensor 's' is malformed, or too large"):
        ar.from_onnx(sparse_model(sparse(places, shape), is_node=False))


def test_an_input_without_a_shape_is_declined_or_given_one() -> None:
    info = helper.make_tensor_value_info("x", FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "shapeless",
        [info],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(
        ModelError, match=r"its input 'x' has no shape; pass one \(shape_dict=\{'x': \[...\]\}\)"
    ):
        ar.from_onnx(model)
    assert [int(each) for each in ar.from_onnx(model, shape_dict={"x": [2, 3]})["main"].ret_ty.shape] == [
        2,
        3,
    ]


def test_numbers_of_constants_without_a_tensor_are_int64() -> None:
    """PyTorch's second exporter writes shapes so; they were int32, which other operators refuse."""
    text = """(int64[n, 1] x) => (int64[n, 4] y)
        { c = Constant<value_ints = [1, 4]>() d = Add(x, c) e = ReduceMax<axes = [1]>(d) y = Expand(e, c) }"""
    run(text, ["dnnl"], (np.array([[3], [-7]]),))


STANDARDIZED = """<ir_version: 7, opset_import: ["" : {opset}]> g
    (float[2, 3, 5] w, float[3] a, float[3] b, float[3] m, float[3] v) => (float[2, 3, 5] y, {results}) {{
    y, o1, o2, o3, o4 = BatchNormalization<epsilon = 0.001, momentum = 0.75>(w, a, b, m, v) }}"""


@pytest.mark.parametrize("opset", [9, 13])
def test_batch_normalization_with_five_outputs_is_in_training_mode(opset: int) -> None:
    """Weights of convolutions are standardized so before opset 14; TVM refuses the outputs."""
    text = STANDARDIZED.format(opset=opset, results="float[3] o1, float[3] o2, float[3] o3, float[3] o4")
    machine = machine_of(onnx.parser.parse_model(text), ["dnnl"])
    w, (a, b, m), v = numbers(2, 3, 5) * 3 + 1, numbers(3, 3), np.array([0.5, 1, 2], "float32")
    found = machine["main"](*map(runtime.tensor, (w, a, b, m, v)))
    mean, variance = w.mean((0, 2)), w.var((0, 2))
    norm = (w - mean[:, None]) / np.sqrt(variance[:, None] + 0.001) * a[:, None] + b[:, None]
    expected = [norm, 0.75 * m + 0.25 * mean, 0.75 * v + 0.25 * variance, mean, variance]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


def test_samples_at_places_in_double_precision() -> None:
    """PyTorch exports Deformable DETR so, whose image and grid have one type. ONNX Runtime declines it."""
    head = "(float[2, 3, 5, 4] x, float[2, 4, 3, 2] g) => (float[2, 3, 4, 3] y) {"
    double = f"{head} t = Tanh(g) d = Cast<to = 11>(t) y = GridSample(x, d) }}"
    image, grid = numbers(2, 3, 5, 4), numbers(2, 4, 3, 2)
    machine = machine_of(onnx.parser.parse_model(HEAD + double), ["dnnl"])
    found = machine["main"](runtime.tensor(image), runtime.tensor(grid)).numpy()
    single = run(f"{head} t = Tanh(g) y = GridSample(x, t) }}", [], (image, grid))
    np.testing.assert_allclose(
        found, single["main"](runtime.tensor(image), runtime.tensor(grid)).numpy(), 1e-5, 1e-5
    )


@pytest.mark.parametrize("group", [1, 2])
def test_a_convolution_states_how_many_channels_there_are(group: int) -> None:
    """Optimum names the number of channels of images."""
    text = f"""(float[n, c, h, w] x, float[4, {4 // group}, 3, 3] k) => (float[n, 4, a, b] y)
        {{ y = Conv<group = {group}, pads = [1, 1, 1, 1]>(x, k) }}"""
    machine = run(text, ["dnnl"], *((numbers(n, 4, 6, 5), numbers(4, 4 // group, 3, 3)) for n in (2, 1)))
    with pytest.raises(ValueError, match="c must be 4 for 'Conv:y', where c is extent 1 of x"):
        machine["main"](*map(runtime.tensor, (numbers(1, 3, 6, 5), numbers(4, 4 // group, 3, 3))))
    report = str(ar.explain(module_of(text), ["dnnl"]))
    assert "dnnl: 2 of 3 ops in 1 region" in report
    assert "host: match_cast" in report


QUANTIZED = {
    "ConvInteger": "y = ConvInteger(x, k)",
    "QLinearConv": "z = QLinearConv(x, s, p, k, s, q, s, p) y = Cast<to = 6>(z)",
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_so_does_one_of_bytes(name: str) -> None:
    text = f"""(uint8[n, c, h, w] x, int8[4, 3, 3, 3] k) => (int32[n, 4, a, b] y)
        <float s = {{0.0613}}, uint8 p = {{3}}, int8 q = {{0}}> {{ {QUANTIZED[name]} }}"""
    rng = np.random.default_rng(0)
    kernel = rng.integers(-9, 9, (4, 3, 3, 3)).astype("int8")
    inputs = [(rng.integers(0, 200, (n, 3, 6, 5)).astype("uint8"), kernel) for n in (2, 1)]
    machine = run(text, ["dnnl"], *inputs)
    with pytest.raises(ValueError, match=f"c must be 3 for '{name}:"):
        machine["main"](*map(runtime.tensor, (np.zeros((1, 2, 6, 5), "uint8"), kernel)))
