"""LSTM, GRU and RNN unrolled: ONNX Runtime's numbers, in every direction and with every known input."""

import numpy as np
import pytest
from kits.importing.recurrent_layers import (
    DIRECTIONS,
    GATES,
    HIDDEN,
    LENGTH,
    SIZE,
    WITH_NUMBERS,
    layer,
)
from kits.onnx_nodes import CONTRIBUTED, Node, by_onnx_runtime, by_tvm, compared, model_of_nodes
from kits.passes.preparation.preparation_kit import distinct_constants, prepare

import annotated_region as ar

CLOSE = 2e-6


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_directions(op, direction):
    model, inputs = layer(op, direction)
    assert max(compared(model, inputs)) <= CLOSE


@pytest.mark.parametrize(
    ("op", "given", "attributes"),
    [
        ("LSTM", "WR", {}),
        ("LSTM", "WRBLHC", {}),
        ("LSTM", "WRBHCP", {}),
        ("LSTM", "WRB", {"activations": ["Tanh", "Sigmoid", "Relu"] * 2}),
        ("GRU", "WRBLH", {"linear_before_reset": 1}),
        ("GRU", "WRH", {"linear_before_reset": 1}),
        ("GRU", "WRBH", {"activations": ["Sigmoid", "Relu"] * 2}),
        ("RNN", "WRBH", {"activations": ["Relu"] * 2}),
    ],
)
def test_inputs_and_activations(op, given, attributes):
    model, inputs = layer(op, "bidirectional", given, **attributes)
    assert max(compared(model, inputs)) <= CLOSE


@pytest.mark.sweep
@pytest.mark.parametrize(("op", "given", "attributes"), WITH_NUMBERS)
def test_activations_take_their_numbers_in_turn_and_are_behind_the_clip(op, given, attributes):
    model, inputs = layer(op, "bidirectional", given, **attributes)
    assert max(compared(model, inputs)) <= 2 * CLOSE


@pytest.mark.parametrize("op", GATES)
def test_the_batch_may_come_first(op):
    # ONNX Runtime knows this order for none of them, so the same layer in the other order is the reference.
    model, inputs = layer(op, "bidirectional", "WRBH")
    expected = by_onnx_runtime(model, inputs)
    turned = {"x": np.ascontiguousarray(inputs["x"].transpose(1, 0, 2))}
    first, _ = layer(op, "bidirectional", "WRBH", layout=1)
    first.graph.input[0].type.CopyFrom(model_of_nodes([], turned, {}).graph.input[0].type)
    state = next(tensor for tensor in first.graph.initializer if tensor.name == "H")
    array = np.frombuffer(state.raw_data, "float32").reshape(state.dims).transpose(1, 0, 2)
    state.raw_data, state.dims[:] = array.tobytes(), array.shape
    found = by_tvm(ar.from_onnx(first), turned)
    for left, right, axes in zip(found, expected, [(2, 0, 1, 3), (1, 0, 2), (1, 0, 2)], strict=False):
        assert np.abs(left - right.transpose(axes)).max() <= CLOSE


def test_a_batch_of_any_size():
    model, inputs = layer("LSTM", "forward")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "batch"
    found = by_tvm(ar.from_onnx(model), inputs)
    for left, right in zip(found, by_onnx_runtime(model, inputs), strict=True):
        assert np.abs(left - right).max() <= CLOSE


@pytest.mark.parametrize(("direction", "by_column"), [("bidirectional", False), ("forward", True)])
def test_weights_of_bytes(direction, by_column):
    """ONNX Runtime quantizes the state of each step by its own range, as this does, if the batch is one."""
    rng = np.random.default_rng(9)
    count, rows = DIRECTIONS[direction], 4 * HIDDEN
    per = (count, rows) if by_column else (count,)
    x = rng.standard_normal((LENGTH, 1, SIZE)).astype("float32")
    constants = {
        "W": rng.integers(-99, 99, (count, SIZE, rows), "int8"),
        "R": rng.integers(-99, 99, (count, HIDDEN, rows), "int8"),
        "B": rng.standard_normal((count, 2 * rows)).astype("float32"),
        "ws": (0.01 + 0.01 * rng.random(per)).astype("float32"), "wz": np.zeros(per, "int8"),
        "rs": (0.01 + 0.01 * rng.random(per)).astype("float32"), "rz": np.zeros(per, "int8"),
    }  # fmt: skip
    node = Node(
        "DynamicQuantizeLSTM", "x W R B - - - - ws wz rs rz", "y h c", CONTRIBUTED,
        direction=direction, hidden_size=HIDDEN,
    )  # fmt: skip
    model = model_of_nodes([node], {"x": x}, constants, "y h c")
    assert max(compared(model, {"x": x})) <= 1e-5
    prepared = distinct_constants(prepare(ar.from_onnx(model)))
    assert sum(each.shape == (HIDDEN, rows) for each in prepared) == count, "each step has weights of its own"
