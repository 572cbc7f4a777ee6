"""Dynamic quantization and products of integers: exactly what ONNX Runtime computes."""

import numpy as np
import pytest
from kits.onnx_nodes import CONTRIBUTED, Node, by_tvm, compared, model_of_nodes

import annotated_region as ar

QUANTA = 1e-5  # of results whose sums are exact and whose scales are multiplied in another order


def drawn(rng, shape, dtype):
    if dtype == "float32":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("kind", ["both", "positive", "negative", "zeros", "ties", "tiny"])
def test_dynamic_quantization(kind):
    x = drawn(np.random.default_rng(1), (7, 33), "float32")
    x = {
        "both": x, "positive": np.abs(x) + 1, "negative": -np.abs(x), "zeros": x * 0,
        "ties": np.linspace(0, 255, 511, dtype="float32"), "tiny": x * np.float32(1e-30),
    }[kind]  # fmt: skip
    model = model_of_nodes([Node("DynamicQuantizeLinear", "x", "y s z")], {"x": x}, {}, "y s z")
    assert compared(model, {"x": x}) == [0, 0, 0]


@pytest.mark.parametrize(
    ("left", "right", "zeros"),
    [("uint8", "int8", "- -"), ("int8", "uint8", "a b"), ("uint8", "uint8", "a c")],
)
def test_product_of_integers(left, right, zeros):
    rng = np.random.default_rng(2)
    x = drawn(rng, (2, 3, 40), left)
    constants = {
        "w": drawn(rng, (40, 5), right), "a": drawn(rng, (), left), "b": drawn(rng, (), right),
        "c": drawn(rng, (5,), right),
    }  # fmt: skip
    model = model_of_nodes([Node("MatMulInteger", f"x w {zeros}")], {"x": x}, constants)
    assert compared(model, {"x": x}) == [0]


CONVOLUTIONS = [
    ("uint8", "uint8", "- -", {}, 2),
    ("uint8", "uint8", "a b", {"pads": [1, 2, 0, 1], "strides": [2, 1]}, 2),
    ("uint8", "int8", "a", {"pads": [1, 1, 1, 1], "dilations": [2, 1]}, 2),
    ("uint8", "uint8", "a b", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 2),
    ("uint8", "uint8", "a b", {"group": 2, "pads": [1, 1]}, 1),
]


@pytest.mark.parametrize(("left", "right", "zeros", "attributes", "axes"), CONVOLUTIONS)
def test_convolution_of_integers(left, right, zeros, attributes, axes):
    rng = np.random.default_rng(3)
    groups = attributes.get("group", 1)
    x = drawn(rng, (2, 4, *[9, 8][:axes]), left)
    constants = {
        "w": drawn(rng, (6, 4 // groups, *[3] * axes), right), "a": drawn(rng, (), left),
        "b": drawn(rng, (), right),
    }  # fmt: skip
    model = model_of_nodes([Node("ConvInteger", f"x w {zeros}", **attributes)], {"x": x}, constants)
    assert compared(model, {"x": x}) == [0]


def test_convolution_with_a_zero_point_for_each_channel():
    # ONNX Runtime refuses these, so this is held against the definition.
    rng = np.random.default_rng(4)
    x, w = drawn(rng, (1, 3, 6, 6), "uint8"), drawn(rng, (4, 3, 6, 6), "uint8")
    zeros = drawn(rng, (4,), "uint8")
    model = model_of_nodes([Node("ConvInteger", "x w - z")], {"x": x}, {"w": w, "z": zeros})
    (found,) = by_tvm(ar.from_onnx(model), {"x": x})
    shifted = w.astype("int32") - zeros.astype("int32")[:, None, None, None]
    assert (found.reshape(4) == (shifted * x.astype("int32")).sum((1, 2, 3))).all()


@pytest.mark.parametrize("columns", [(), (6,)])
def test_products_that_onnx_runtime_fuses(columns):
    rng = np.random.default_rng(5)
    x, bytes_ = drawn(rng, (3, 20), "float32"), drawn(rng, (3, 20), "uint8")
    constants = {
        "w": drawn(rng, (20, 6), "int8"), "s": (rng.random(columns) + 0.01).astype("float32"),
        "z": drawn(rng, columns, "int8"), "a": np.float32(0.25), "az": np.uint8(100),
        "b": drawn(rng, (6,), "float32"),
    }  # fmt: skip
    dynamic = Node("DynamicQuantizeMatMul", "x w s z b", "y", CONTRIBUTED)
    scaled = Node("MatMulIntegerToFloat", "q w a s az z b", "v", CONTRIBUTED)
    model = model_of_nodes([dynamic, scaled], {"x": x, "q": bytes_}, constants, "y v")
    found = compared(model, {"x": x, "q": bytes_})
    assert max(found) <= QUANTA * 20 * 128 * 128 * 0.25
