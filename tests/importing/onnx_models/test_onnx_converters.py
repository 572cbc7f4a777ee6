"""Which converter takes a node, what it declines, and that TVM's own table stays as it is."""

import threading
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from kits.onnx_nodes import CONTRIBUTED, Node, by_onnx_runtime, by_tvm, compared, model_of_nodes
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tvm.relax.frontend.onnx import onnx_frontend

import annotated_region as ar
from annotated_region.importing.onnx_models.converters.conversion import CONVERTERS
from annotated_region.importing.onnx_models.converters.registry import NodeConverter

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 4)).astype("float32")
SEQUENCE = RNG.standard_normal((3, 2, 4)).astype("float32")
BYTES = RNG.integers(0, 256, (2, 4), "uint8")


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


LSTM = {"W": zeros(1, 8, 4), "R": zeros(1, 8, 2)}
PACKED = {"w": zeros(6, 2, 8, dtype="uint8"), "s": zeros(12)}
PRODUCT: dict[str, Any] = {"K": 32, "N": 6, "bits": 4, "block_size": 16, "domain": CONTRIBUTED}
QUANTIZED = {"s": np.float32(1), "z": np.uint8(0)}

MS = CONTRIBUTED

DECLINED = [
    # a node, its inputs, its constants, what the message says
    (Node("QuickGelu", "x", domain=MS, beta=1.0), X, {}, "the attribute 'beta'"),
    (Node("QuickGelu", "x", domain=MS, alpha=2), X, {}, "an attribute 'alpha' that is not a number"),
    (Node("QuickGelu", "x", domain=MS, alpha=float("nan")), X, {}, "the attribute 'alpha' of nan"),
    (Node("Gelu", "x", domain=MS), BYTES, {}, "an input 0 of type uint8; known are float32"),
    (Node("Gelu", "x x", domain=MS), X, {}, "has 2 inputs, and the operator takes 1 to 1"),
    (Node("BiasGelu", "x b", domain=MS), X, {"b": zeros(3)}, "input 1 that is not as long as a row"),
    (Node("QAttention", "x", domain=MS), X, {}, "no converter for node 'QAttention"),
    (Node("FusedMatMul", "x x", domain=MS, transBatchA=1), X, {}, "the attribute 'transBatchA' of 1"),
    (
        Node("Relu", "x", domain="com.example"), X, {},
        r"converter for node 'Relu_of_y' \(com.example.Relu\); export the model without them, or write them",
    ),
    (Node("Conv", "x", domain="com.microsoft.nchwc"), X, {}, "save the model at ORT_ENABLE_EXTENDED"),
    (Node("LSTM", "x W R", hidden_size=3), SEQUENCE, LSTM, "the attribute 'hidden_size' of 3"),
    (Node("LSTM", "x W R", clip=-1.0), SEQUENCE, LSTM, "the attribute 'clip' of -1.0"),
    (Node("LSTM", "x W R", input_forget=2), SEQUENCE, LSTM, "the attribute 'input_forget' of 2"),
    (Node("LSTM", "x W R", direction="sideways"), SEQUENCE, LSTM, "the attribute 'direction' of 'sideways'"),
    (Node("LSTM", "x W R", direction="bidirectional"), SEQUENCE, LSTM, "of 1 directions, and is of 2"),
    (Node("LSTM", "x W R", activations=["Tanh"]), SEQUENCE, LSTM, "'activations'; it should have 3"),
    (
        Node("LSTM", "x W R", activations=["Swish"] * 3), SEQUENCE, LSTM, "'activations' with 'Swish'",
    ),
    (
        Node("LSTM", "x W R", activations=["Affine"] * 3, activation_alpha=[1.0] * 3), SEQUENCE, LSTM,
        "'activations' with 'Affine', for which its attributes have no number",
    ),
    (
        Node("LSTM", "x W R - L"), SEQUENCE, LSTM | {"L": np.array([9], "int32")},
        "the input 'sequence_lens' with lengths beyond",
    ),
    (Node("LSTM", "x W R B"), SEQUENCE, LSTM | {"B": zeros(1, 8)}, r"an input 3 of shape \(1, 8\)"),
    (Node("MatMulNBits", "x w s", **PRODUCT | {"bits": 3}), zeros(1, 32), PACKED, "'bits' of 3"),
    (Node("MatMulNBits", "x w s", **PRODUCT | {"K": 2**40}), zeros(1, 32), PACKED, "'K' of 1099511"),
    (
        Node("MatMulNBits", "x w s", **PRODUCT | {"N": 2**30}), zeros(1, 32), PACKED,
        "input 1 of shape .*; its attributes ask for 17179869184 numbers",
    ),
    (
        Node("MatMulNBits", "x w s - g", **PRODUCT), zeros(1, 32), PACKED | {"g": zeros(32, dtype="int32")},
        "the input 'g_idx', which is not supported",
    ),
    (
        Node("MatMulNBits", "x w s", **PRODUCT | {"block_size": 24}), zeros(1, 32), PACKED,
        "the attribute 'block_size' of 24, which is not a power of two",
    ),
    (
        Node("QLinearSoftmax", "x s z s z", domain=MS, axis=0, opset=11), BYTES, QUANTIZED,
        "the attribute 'opset' of 11, where an axis that is not the last has another meaning",
    ),
    (
        Node("QLinearSigmoid", "x t z s z", domain=MS), BYTES, QUANTIZED | {"t": zeros(4)},
        "an input 1 of 4 numbers; it should be one",
    ),
    (
        Node("ConvInteger", "x w", strides=[0, 1]), zeros(1, 1, 4, 4, dtype="uint8"),
        {"w": zeros(1, 1, 2, 2, dtype="uint8")}, r"the attribute 'strides' of \(0, 1\)",
    ),
    (Node("Constant", "", value_int=1, value_float=1.0), X, {}, "has 2 attributes; one is its value"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "x", "constants", "why"), DECLINED, ids=lambda each: getattr(each, "op_type", "")
)
def test_what_is_not_known_is_declined_with_the_name_of_the_node(node, x, constants, why):
    model = model_of_nodes([node], {"x": x}, constants)
    with pytest.raises(ar.ModelError, match=why) as caught:
        ar.from_onnx(model)
    assert f"'{node.op_type}_of_y' (" in str(caught.value)
    assert "the model 'nodes'" in str(caught.value)


def test_an_operator_of_the_same_name_in_another_domain_is_not_the_same():
    """`Gelu` has no attribute ``approximate`` in ONNX Runtime's domain, and TVM looks at the name alone."""
    nodes = [Node("Gelu", "x", "y", CONTRIBUTED), Node("Gelu", "x", "v", approximate="tanh")]
    model = model_of_nodes(nodes, {"x": X}, {}, "y v", opset=20)
    exact, fast = by_tvm(ar.from_onnx(model), {"x": X})
    expected = by_onnx_runtime(model, {"x": X})
    assert np.abs(exact - expected[0]).max() <= 1e-6
    assert np.abs(fast - expected[1]).max() <= 1e-6
    assert np.abs(exact - fast).max() > 1e-5


def test_models_without_nodes_of_ours_are_what_tvm_imports():
    model = model_of_nodes([Node("Relu", "x", "v"), Node("Add", "v x")], {"x": X}, {})
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    expected = onnx_frontend.from_onnx(model, keep_params_in_input=False)
    assert tvm_ffi.structural_equal(ar.from_onnx(model), expected, map_free_vars=True)


def test_the_table_of_tvm_stays_as_it_is_also_meanwhile():
    """An import that stops inside a converter of ours sees and leaves the table of every other thread."""
    key = ("", "PausedForTests")
    inside, done = threading.Event(), threading.Event()

    def paused(node):
        inside.set()
        assert done.wait(60)
        return node.tensor(0)

    before = dict(onnx_frontend._get_convert_map())
    CONVERTERS[key] = NodeConverter(paused, (1, 1), frozenset())
    try:
        model = model_of_nodes([Node("PausedForTests", "x")], {"x": X}, {})
        thread = threading.Thread(target=ar.from_onnx, args=(model,))
        thread.start()
        assert inside.wait(60)
        assert onnx_frontend._get_convert_map() == before
        other = model_of_nodes([Node("MatMulNBits", "x w s", domain=CONTRIBUTED)], {"x": X}, PACKED)
        with pytest.raises(Exception, match="not supported for frontend ONNX: MatMulNBits"):
            onnx_frontend.from_onnx(other)
        done.set()
        thread.join()
    finally:
        done.set()
        del CONVERTERS[key]


def test_weights_may_stay_parameters():
    weights = {"W": LSTM["W"] + 0.5, "R": LSTM["R"] + 0.25}
    model = model_of_nodes([Node("LSTM", "x W R", hidden_size=2)], {"x": SEQUENCE}, weights)
    module = ar.from_onnx(model, keep_params_in_input=True)
    assert [param.name for param in module["main"].params] == ["x", "W", "R"]
    (found,) = by_tvm(module, {"x": SEQUENCE} | weights)
    assert np.abs(found - by_onnx_runtime(model, {"x": SEQUENCE})[0]).max() <= 1e-6


# -- functions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "outer"),
    [("mine", 1), ("mine", 17), ("other", 17)],
    ids=["same", "other version", "other domain"],
)
def test_functions_of_the_model_are_expanded(inner, outer):
    """One calls the other; versions of their domains mean nothing, and the model need not import both."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid(inner, outer)]
    doubled = helper.make_function(inner, "Doubled", ["a"], ["b"], [Node("Add", "a a", "b")], opset)
    fourfold = helper.make_function(
        "mine", "Fourfold", ["a"], ["b"],
        [Node("Doubled", "a", "c", inner), Node("Doubled", "c", "b", inner)], opset,
    )  # fmt: skip
    model = model_of_nodes([Node("Fourfold", "x", "v", "mine"), Node("Add", "v w")], {"x": X}, {"w": X})
    model.functions.extend([doubled, fourfold])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    (found,) = by_tvm(ar.from_onnx(model), {"x": X})
    assert (found == 4 * X + X).all()
    assert model == copy, "a model that is handed in stays unchanged"


@pytest.mark.parametrize(
    ("node", "opset"),
    [
        (Node("HannWindow", "n", "y"), 17),
        (Node("HannWindow", "n", "y", periodic=0), 17),
        (Node("Swish", "x"), 24),
    ],
)
def test_operators_that_onnx_defines_by_others(node, opset):
    inputs = {"x": X} if node.op_type == "Swish" else {"n": np.array(9, "int64")}
    constants = {} if node.op_type == "Swish" else inputs
    model = model_of_nodes([node], {"x": X}, constants, opset=opset)
    expected = ReferenceEvaluator(model).run(None, {"x": X})
    (found,) = by_tvm(ar.from_onnx(model), {"x": X})
    assert found.dtype == expected[0].dtype
    assert np.abs(found - expected[0]).max() <= 1e-6


def test_attention_of_onnx_is_not_the_one_of_onnx_runtime():
    """TVM's table has the latter under this name, and asks for an attribute of it."""
    query, key, value = (RNG.standard_normal((1, 2, length, 8)).astype("float32") for length in (3, 5, 5))
    inputs = {"q": query, "k": key, "v": value}
    model = model_of_nodes([Node("Attention", "q k v", is_causal=1)], inputs, {}, opset=23)
    expected = ReferenceEvaluator(model).run(None, inputs)[0]
    (found,) = by_tvm(ar.from_onnx(model), inputs)
    assert np.abs(found - expected).max() <= 1e-5


def test_a_query_that_sees_no_key_has_zeros():
    query, key, value = (RNG.standard_normal((1, 1, length, 8)).astype("float32") for length in (3, 4, 4))
    mask = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    for given in (mask, np.where(mask, np.float32(0), np.float32(-np.inf))):
        inputs = {"q": query, "k": key, "v": value, "m": given}
        model = model_of_nodes([Node("Attention", "q k v m")], inputs, {}, opset=23)
        expected = ReferenceEvaluator(model).run(None, inputs)[0]
        (found,) = by_tvm(ar.from_onnx(model), inputs)
        assert (found[0, 0, 1] == 0).all()
        assert np.abs(found - expected).max() <= 1e-5


def test_the_numbers_of_a_shape_can_be_computed_with():
    """Exporters compute extents; TVM hands the shape itself to a few operators, and refuses all others."""
    nodes = [
        Node("Shape", "x", "s"), Node("Mul", "s two", "d"), Node("Neg", "d", "n"), Node("Abs", "n", "a"),
        Node("Cast", "a", "y", to=TensorProto.INT32), Node("Shape", "x", "t", start=1),
        Node("Cast", "t", "f", to=TensorProto.FLOAT), Node("Sqrt", "f", "r"),
    ]  # fmt: skip
    model = model_of_nodes(nodes, {"x": X}, {"two": np.array(2, "int64")}, "y r")
    assert compared(model, {"x": X}) == [0, 0]
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    found = by_tvm(ar.from_onnx(model), {"x": X})
    assert (found[0] == [4, 8]).all()
    assert (found[1] == [2]).all()


def test_what_is_expanded_may_not_run_away():
    """A function that calls itself twice, 60 deep, would have 2**60 nodes: a limit ends it, in the child."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    functions = [helper.make_function("mine", "F0", ["a"], ["b"], [Node("Add", "a a", "b")], opset)]
    for depth in range(1, 60):
        inner = f"F{depth - 1}"
        nodes = [Node(inner, "a", "c", "mine"), Node(inner, "c", "b", "mine")]
        functions.append(helper.make_function("mine", f"F{depth}", ["a"], ["b"], nodes, opset))
    model = model_of_nodes([Node("F59", "x", "y", "mine")], {"x": X}, {})
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    limits = ar.Limits(memory=2**28, time=3)
    with pytest.raises(ar.ModelError, match=r"limit of (memory|time)"):
        ar.from_onnx(model, isolated=True, limits=limits)


def test_isolated_imports_have_the_same_converters():
    model = model_of_nodes([Node("LSTM", "x W R")], {"x": SEQUENCE}, LSTM)
    assert tvm_ffi.structural_equal(
        ar.from_onnx(model, isolated=True), ar.from_onnx(model), map_free_vars=True
    )
    worse = model_of_nodes([Node("LSTM", "x W R", clip=-1.0)], {"x": SEQUENCE}, LSTM)
    with pytest.raises(ar.ModelError, match=r"node 'LSTM_of_y' .* the attribute 'clip'"):
        ar.from_onnx(worse, isolated=True)


@pytest.mark.parametrize("threshold", [{}, {"alpha": 0.25}, {"alpha": -1.0}])
def test_what_is_not_above_a_threshold_is_zero(threshold):
    """Minus infinity and NaN, too; a product with truth values would be NaN."""
    x = np.array([-np.inf, np.inf, np.nan, -2, -1, -0.5, 0.25, 1, 3], "float32")
    model = model_of_nodes([Node("ThresholdedRelu", "x", **threshold)], {"x": x}, {})
    (expected,), (found,) = by_onnx_runtime(model, {"x": x}), by_tvm(ar.from_onnx(model), {"x": x})
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "axes", [{}, {"a": np.array([], "int64")}, {"a": np.array([1])}], ids=["none", "empty", "one"]
)
@pytest.mark.parametrize(
    "kind", ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]
)
def test_a_reduction_along_no_axes_still_computes_its_elements(kind, axes):
    """``noop_with_empty_axes`` leaves out the sum alone: squares are squared. TVM gives the operand."""
    x = np.abs(X) if kind == "LogSum" else X
    node = Node(f"Reduce{kind}", "x a" if axes else "x", noop_with_empty_axes=1)
    model = model_of_nodes([node], {"x": x}, axes, opset=18)
    (expected,), (found,) = by_onnx_runtime(model, {"x": x}), by_tvm(ar.from_onnx(model), {"x": x})
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("alpha", [{}, {"alpha": 0.3}, {"alpha": 2.0}])
@pytest.mark.parametrize("shape", [(), (2, 4)])
def test_celu_keeps_the_axes_of_its_operand(shape, alpha):
    """The function that ONNX defines makes a vector of a single number."""
    x = np.asarray(np.resize(X, shape), "float32")
    model = model_of_nodes([Node("Celu", "x", **alpha)], {"x": x}, {})
    (expected,), (found,) = by_onnx_runtime(model, {"x": x}), by_tvm(ar.from_onnx(model), {"x": x})
    assert found.shape == shape
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_rows_far_from_zero_have_a_variance(mean, dtype):
    """The mean of squares less the squared mean has no digit of it, or is negative."""
    rows = np.random.default_rng(0).standard_normal((2, 3, 4, 5)) + mean
    x = rows.astype(dtype)
    model = model_of_nodes([Node("MeanVarianceNormalization", "x", axes=[1, -1])], {"x": x}, {})
    (found,) = by_tvm(ar.from_onnx(model), {"x": x})
    whole = x.astype("float64")
    expected = (whole - whole.mean((1, 3), keepdims=True)) / whole.std((1, 3), keepdims=True)
    np.testing.assert_allclose(found, expected, 1e-3, 1e-3)


def test_rows_of_one_number_have_no_variance():
    x = np.full((2, 3, 2, 2), 0.3, "float32")
    model = model_of_nodes([Node("MeanVarianceNormalization", "x")], {"x": x}, {})
    (found,) = by_tvm(ar.from_onnx(model), {"x": x})
    assert np.abs(found).max() < 100  # the mean may be one rounding away, and the deviation is 1e-9 at least
