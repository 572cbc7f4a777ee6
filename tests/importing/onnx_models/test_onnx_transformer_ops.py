"""Operators that ONNX Runtime's optimizer writes: its numbers, with and without their optional inputs."""

import numpy as np
import onnx
import pytest
from kits.importing.onnx_texts import run_model
from kits.onnx_nodes import CONTRIBUTED, Node, compared, model_of_nodes
from tvm import runtime

CLOSE = 5e-6
RNG = np.random.default_rng(0)
SHAPES = {"x": (2, 3, 8), "k": (2, 3, 8), "g": 8, "b": 8, "c": 8, "m": (2, 8, 3)}
ARRAYS = {name: RNG.standard_normal(shape).astype("float32") for name, shape in SHAPES.items()}

NODES = {
    "gelu": Node("Gelu", "x", domain=CONTRIBUTED),
    "gelu of a sum": Node("BiasGelu", "x b", domain=CONTRIBUTED),
    "fast gelu": Node("FastGelu", "x", domain=CONTRIBUTED),
    "fast gelu of a sum": Node("FastGelu", "x b", domain=CONTRIBUTED),
    "quick gelu": Node("QuickGelu", "x", domain=CONTRIBUTED, alpha=1.25),
    "skip norm": Node("SkipLayerNormalization", "x k g b c", domain=CONTRIBUTED, epsilon=1e-3),
    "skip norm without shift": Node("SkipLayerNormalization", "x k g - c", domain=CONTRIBUTED),
    "skip norm with its sum": Node("SkipLayerNormalization", "x k g b", "y - - s", CONTRIBUTED),
    "skip root norm": Node("SkipSimplifiedLayerNormalization", "x k g b", domain=CONTRIBUTED, epsilon=1e-3),
    "skip root norm with its sum": Node("SkipSimplifiedLayerNormalization", "x k g", "y - - s", CONTRIBUTED),
    "root norm": Node("SimplifiedLayerNormalization", "x g", axis=-1, epsilon=1e-3),
    "product": Node("FusedMatMul", "x m", domain=CONTRIBUTED, alpha=0.5),
    "product of transposed": Node("FusedMatMul", "x k", domain=CONTRIBUTED, transB=1),
    "product of a transposed left side": Node("FusedMatMul", "x k", domain=CONTRIBUTED, transA=1, alpha=2.0),
    "celu": Node("Celu", "x", alpha=0.7),
    "sum of magnitudes": Node("LpNormalization", "x", axis=1, p=1),
    "root of squares": Node("LpNormalization", "x"),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes(name):
    node = NODES[name]
    inputs = {each: ARRAYS[each] for each in dict.fromkeys(node.input) if each and each in "xkm"}
    constants = {each: ARRAYS[each] for each in node.input if each and each in "gbc"}
    model = model_of_nodes([node], inputs, constants, " ".join(filter(None, node.output)))
    assert max(compared(model, inputs)) <= CLOSE


@pytest.mark.parametrize("given", ["0", "0 1", "0 1 m", "0 - m p"])
def test_embedding(given):
    rng = np.random.default_rng(3)
    names = given.split()
    inputs = {"0": rng.integers(0, 9, (2, 4), "int32")}
    if "1" in names:
        inputs["1"] = rng.integers(0, 2, (2, 4), "int32")
    if "m" in names:
        inputs["m"] = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], "int32")
    if "p" in names:
        inputs["p"] = rng.integers(0, 5, (2, 4), "int32")
    tables = {"w": (9, 8), "q": (5, 8), "t": (2, 8), "g": (8,), "b": (8,)}
    constants = {name: rng.standard_normal(shape).astype("float32") for name, shape in tables.items()}
    has = {name: name if name in inputs else "-" for name in "01mp"}
    text = f"0 {has['1']} w q {'t' if '1' in inputs else '-'} g b {has['m']} {has['p']}"
    model = model_of_nodes(
        [Node("EmbedLayerNormalization", text, "y i s", CONTRIBUTED)], inputs, constants, "y i s"
    )
    assert max(compared(model, inputs)) <= CLOSE


EMBEDDED = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g
    (int32[n, t] i, int32[n, t] s) => (float[n, t, 2] y) <
    float[3, 2] w = {1.0, -2.0, 0.5, 3.0, 0.0, -1.0}, float[2, 2] k = {1.0, 0.0, 0.0, 2.0},
    float[4, 2] p = {0.0, 1.0, 2.0, -1.0, 1.0, 1.5, -3.0, 0.0}, float[2] g = {1.0, 2.0},
    float[2] b = {0.5, -1.0}> {
    e, m = com.microsoft.EmbedLayerNormalization(i, s, w, p, k, g, b) r = Add(e, b) y = Relu(r) }"""


def test_an_embedding_of_any_length_is_as_long_as_its_positions():
    """Positions were of unknown shape, and all behind them; ONNX Runtime writes BERT so."""
    words = [np.arange(n * t, dtype="int32").reshape(n, t) for n, t in [(1, 3), (2, 4)]]
    machine = run_model(
        onnx.parser.parse_model(EMBEDDED), ["dnnl"], *((each % 3, each % 2) for each in words)
    )
    with pytest.raises(ValueError, match=r"min\(t, 4\) must be t"):
        machine["main"](*(runtime.tensor(np.zeros((1, 5), "int32")) for _ in range(2)))


FUSED = [
    ("FusedConv", "c", {"activation": "Relu"}),
    ("FusedConv", "c z", {"activation": "Sigmoid", "pads": [1, 1, 1, 1]}),
    ("FusedConv", "-", {"activation": "LeakyRelu", "activation_params": [0.2], "strides": [2, 1]}),
    ("FusedConv", "c", {"activation": "Clip", "activation_params": [-0.5, 0.75]}),
    ("FusedConv", "c", {"activation": "HardSigmoid", "activation_params": [0.25, 0.375]}),
    ("FusedGemm", "b", {"activation": "Tanh", "alpha": 0.5}),
    ("FusedGemm", "b", {"activation": "LeakyRelu", "activation_alpha": 0.2, "transA": 1}),
]


@pytest.mark.parametrize(("op", "more", "attributes"), FUSED)
def test_ops_with_an_activation(op, more, attributes):
    rng = np.random.default_rng(4)
    is_product = op == "FusedGemm"
    shapes = (
        {"x": (4, 4), "w": (4, 6), "b": (6,)}
        if is_product
        else {"x": (2, 4, 6, 6), "w": (5, 4, 3, 3), "c": (5,), "z": (2, 5, 6, 6)}
    )
    arrays = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    inputs = {name: arrays[name] for name in ("x", "z") if name == "x" or name in more}
    model = model_of_nodes(
        [Node(op, f"x w {more}", "y", CONTRIBUTED, **attributes)],
        inputs,
        {name: arrays[name] for name in arrays if name not in "xz"},
    )
    assert max(compared(model, inputs)) <= CLOSE


def test_sequences_turned_round():
    x = np.random.default_rng(5).standard_normal((4, 3, 2)).astype("float32")
    nodes = [
        Node("ReverseSequence", "x n", "y"),
        Node("ReverseSequence", "x m", "v", time_axis=1, batch_axis=0),
    ]
    lengths = {"n": np.array([4, 1, 2], "int64"), "m": np.array([3, 1, 2, 1], "int64")}
    assert compared(model_of_nodes(nodes, {"x": x}, lengths, "y v"), {"x": x}) == [0, 0]
