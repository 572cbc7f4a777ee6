"""Operators of the format QOperator: ONNX Runtime's numbers, or one quantum off at a tie."""

import numpy as np
import pytest
from kits.onnx_nodes import CONTRIBUTED, Node, compared, model_of_nodes

import annotated_region as ar

ONE_QUANTUM = 1


def drawn(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def scale(rng, shape=()):
    return (0.01 + 0.05 * rng.random(shape)).astype("float32")


def quantized(rng, name, dtype, shape=None, channels=()):
    """A tensor if it has a shape, its scale and its zero point, as constants."""
    found = {} if shape is None else {name: drawn(rng, shape, dtype)}
    return found | {f"{name}_s": scale(rng, channels), f"{name}_z": drawn(rng, channels, dtype)}


CONVOLUTIONS = [
    ("uint8", "int8", False, {}, 2),
    ("uint8", "uint8", False, {"pads": [1, 1, 1, 1], "strides": [2, 2]}, 2),
    ("int8", "int8", True, {"pads": [0, 2, 1, 1], "dilations": [1, 2]}, 2),
    ("uint8", "int8", True, {"group": 4, "auto_pad": "SAME_LOWER"}, 2),
    ("uint8", "int8", True, {"pads": [1, 1]}, 1),
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("data", "weight", "by_channel", "attributes", "axes"), CONVOLUTIONS)
def test_convolution(data, weight, by_channel, attributes, axes, bias):
    rng = np.random.default_rng(axes + 2 * bias)
    x = drawn(rng, (2, 4, *[10, 9][:axes]), data)
    channels, groups = (8,) if by_channel else (), attributes.get("group", 1)
    constants = {
        **quantized(rng, "x", data), **quantized(rng, "w", weight, (8, 4 // groups, *[3] * axes), channels),
        **quantized(rng, "y", data), "y_s": np.float32(2.0), "b": rng.integers(-9999, 9999, 8, "int32"),
    }  # fmt: skip
    if weight == "int8":
        constants["w_z"] = np.zeros(channels, "int8")
    names = "x x_s x_z w w_s w_z y_s y_z" + (" b" if bias else "")
    model = model_of_nodes([Node("QLinearConv", names, **attributes)], {"x": x}, constants)
    assert compared(model, {"x": x}) <= [ONE_QUANTUM]


@pytest.mark.parametrize("columns", [(), (6,)])
@pytest.mark.parametrize("shape", [(5, 16), (2, 3, 5, 16)])
def test_product(shape, columns):
    rng = np.random.default_rng(len(shape))
    x = drawn(rng, shape, "uint8")
    constants = {
        **quantized(rng, "x", "uint8"), **quantized(rng, "w", "int8", (16, 6), columns),
        **quantized(rng, "y", "uint8"), "w_z": np.zeros(columns, "int8"), "y_s": np.float32(2.0),
    }  # fmt: skip
    model = model_of_nodes([Node("QLinearMatMul", "x x_s x_z w w_s w_z y_s y_z")], {"x": x}, constants)
    assert compared(model, {"x": x}) <= [ONE_QUANTUM]


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("result", ["bytes", "floats"])
def test_gemm(result, transposed):
    rng, shape = np.random.default_rng(transposed), (6, 16) if transposed else (16, 6)
    x = drawn(rng, (5, 16), "uint8")
    constants = {
        **quantized(rng, "x", "uint8"), **quantized(rng, "w", "int8", shape, (6,)),
        **quantized(rng, "y", "uint8"), "w_z": np.zeros(6, "int8"), "y_s": np.float32(2.0),
        "b": rng.integers(-999, 999, 6, "int32"),
    }  # fmt: skip
    names = "x x_s x_z w w_s w_z b" + (" y_s y_z" if result == "bytes" else "")
    model = model_of_nodes([Node("QGemm", names, "y", CONTRIBUTED, transB=transposed)], {"x": x}, constants)
    assert compared(model, {"x": x}) <= [ONE_QUANTUM if result == "bytes" else 1e-4]


WITH_ONE: dict[str, tuple[dict[str, object], tuple[int, ...]]] = {
    "QLinearSigmoid": ({}, (2, 5)),
    "QLinearLeakyRelu": ({"alpha": 0.2}, (2, 5)),
    "QLinearSoftmax": ({"axis": -1, "opset": 13}, (2, 5)),
    "QLinearGlobalAveragePool": ({}, (2, 3, 5, 4)),
    "QLinearAveragePool": ({"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}, (2, 3, 7, 6)),
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op", WITH_ONE)
def test_functions_of_one_tensor(op, dtype):
    attributes, shape = WITH_ONE[op]
    rng = np.random.default_rng(6)
    x = drawn(rng, shape, dtype)
    constants = {**quantized(rng, "x", dtype), **quantized(rng, "y", dtype)}
    if op == "QLinearSoftmax":
        constants |= {"y_s": np.float32(1 / 256), "y_z": np.zeros((), dtype)}
    model = model_of_nodes(
        [Node(op, "x x_s x_z y_s y_z", "y", CONTRIBUTED, **attributes)], {"x": x}, constants
    )
    assert compared(model, {"x": x}) <= [ONE_QUANTUM]


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_functions_of_two_tensors(op, dtype):
    rng = np.random.default_rng(7)
    inputs = {"a": drawn(rng, (2, 3, 5), dtype), "b": drawn(rng, (3, 1), dtype)}
    constants = {**quantized(rng, "a", dtype), **quantized(rng, "b", dtype), **quantized(rng, "y", dtype)}
    model = model_of_nodes([Node(op, "a a_s a_z b b_s b_z y_s y_z", "y", CONTRIBUTED)], inputs, constants)
    assert compared(model, inputs) <= [ONE_QUANTUM]


def test_concatenation_and_choice():
    rng = np.random.default_rng(8)
    inputs = {
        "a": drawn(rng, (2, 3), "uint8"), "b": drawn(rng, (2, 3), "uint8"), "c": rng.random((2, 3)) > 0.5,
    }  # fmt: skip
    constants = {
        **quantized(rng, "a", "uint8"), **quantized(rng, "b", "uint8"), **quantized(rng, "y", "uint8"),
    }  # fmt: skip
    nodes = [
        Node("QLinearConcat", "y_s y_z a a_s a_z b b_s b_z", "y", CONTRIBUTED, axis=1),
        Node("QLinearWhere", "c a a_s a_z b b_s b_z y_s y_z", "v", CONTRIBUTED),
    ]
    model = model_of_nodes(nodes, inputs, constants, "y v")
    assert max(compared(model, inputs)) <= ONE_QUANTUM


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_gemm_scales_its_bias_as_well(alpha):
    rng = np.random.default_rng(9)
    x = drawn(rng, (5, 16), "uint8")
    constants = {
        **quantized(rng, "x", "uint8"), **quantized(rng, "w", "int8", (16, 6)), "w_z": np.int8(0),
        "b": rng.integers(-9999, 9999, 6, "int32"),
    }  # fmt: skip
    node = Node("QGemm", "x x_s x_z w w_s w_z b", "y", CONTRIBUTED, alpha=alpha)
    assert compared(model_of_nodes([node], {"x": x}, constants), {"x": x}) <= [1e-4]


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_a_scale_that_is_not_finite_is_refused(operator):
    """As calibration over a mask of minus infinity makes it; ONNX Runtime and TVM differ then."""
    x = np.zeros(3, "float32" if operator[0] == "Q" else "uint8")
    scales = {"s": np.array([0.5, np.inf, 1], "float32"), "z": np.zeros(3, "uint8")}
    node = Node(operator, "x s z", axis=0)
    with pytest.raises(ar.ModelError, match=rf"{operator}.* has a scale that is not finite; exclude"):
        ar.from_onnx(model_of_nodes([node], {"x": x}, scales))
