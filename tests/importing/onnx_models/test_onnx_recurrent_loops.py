"""LSTM, GRU and RNN over sequences of any length: loops, with ONNX Runtime's numbers for each length."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from kits.importing.recurrent_layers import (
    BATCH,
    DIRECTIONS,
    GATES,
    HIDDEN,
    LENGTH,
    SIZE,
    WITH_NUMBERS,
    layer,
    of_any_length,
    sequences,
)
from kits.onnx_nodes import CONTRIBUTED, Node, by_onnx_runtime, by_tvm, model_of_nodes

import annotated_region as ar
from annotated_region.errors import ModelError
from annotated_region.importing.onnx_models.converters.recurrence import MOST_STEPS

CLOSE = 2e-6


def _sequences(*lengths: int, batch: int = BATCH) -> list[np.ndarray]:
    return sequences(*((length, batch) for length in lengths))


def _differences(model: onnx.ModelProto, data: list[np.ndarray]) -> float:
    """The largest difference from ONNX Runtime over some sequences, as a share of answers beyond 1."""
    mod = ar.from_onnx(model)
    most = 0.0
    for x in data:
        for left, right in zip(by_tvm(mod, {"x": x}), by_onnx_runtime(model, {"x": x}), strict=True):
            assert left.shape == right.shape
            most = max(most, float(np.abs(left - right).max() / max(1.0, np.abs(right).max())))
    return most


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_directions(op, direction):
    model, _ = layer(op, direction)
    assert _differences(of_any_length(model, batch=False), _sequences(1, 2, 9)) <= CLOSE


@pytest.mark.parametrize(
    ("op", "given", "attributes"),
    [
        ("LSTM", "WR", {"input_forget": 0}),
        ("LSTM", "WRBHC", {}),
        ("LSTM", "WRBHCP", {}),
        ("LSTM", "WRP", {"activations": ["Tanh", "Sigmoid", "Relu"] * 2}),
        ("LSTM", "WRB", {"activations": ["Tanh", "Sigmoid", "Relu", "Sigmoid", "Relu", "Tanh"]}),
        ("GRU", "WRBH", {"linear_before_reset": 1}),
        ("GRU", "WRH", {"linear_before_reset": 1}),
        ("GRU", "WRBH", {"activations": ["Sigmoid", "Relu"] * 2}),
        ("RNN", "WRBH", {"activations": ["Relu"] * 2}),
    ],
)
def test_inputs_and_activations(op, given, attributes):
    model, _ = layer(op, "bidirectional", given, **attributes)
    assert _differences(of_any_length(model, batch=False), _sequences(1, 5)) <= CLOSE


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_sequences_of_several_lengths(op, direction):
    """Behind the end of a sequence results are 0; the last state is that of its end."""
    model, _ = layer(op, direction, "WRBL")
    (lengths,) = (each for each in model.graph.initializer if each.name == "L")
    lengths.raw_data = np.asarray([3, 1, 5], "int32").tobytes()
    assert _differences(of_any_length(model, batch=False), _sequences(5, 8)) <= CLOSE


@pytest.mark.parametrize("op", GATES)
def test_a_batch_of_any_size(op):
    model, _ = layer(op, "bidirectional")
    data = [each for batch in (1, 2, 3, 4, 5, 8, 9) for each in _sequences(3, batch=batch)]
    assert _differences(of_any_length(model), data) <= CLOSE


@pytest.mark.parametrize("hidden", [1, 12, 16, 40, 48])
def test_columns_that_are_vectors_and_others(hidden):
    rng = np.random.default_rng(hidden)
    weights = {
        "W": rng.standard_normal((1, 3 * hidden, SIZE)).astype("float32"),
        "R": (rng.standard_normal((1, 3 * hidden, hidden)) / np.sqrt(hidden)).astype("float32"),
    }
    (x,) = _sequences(6)
    node = Node("GRU", "x W R", "y h", hidden_size=hidden)
    model = model_of_nodes([node], {"x": x}, weights, "y h")
    assert _differences(of_any_length(model, batch=False), [x, x[:2]]) <= CLOSE


def test_a_sequence_of_more_steps_than_are_unrolled():
    model, _ = layer("RNN", "forward")
    (x,) = _sequences(MOST_STEPS + 1)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = MOST_STEPS + 1
    assert _differences(model, [x]) <= CLOSE


def test_half_precision_adds_up_in_float32():
    hidden = 256
    weight = np.full((1, hidden, hidden), 1 / hidden, "float16")
    constants = {"W": np.ones((1, hidden, 1), "float16"), "R": weight}
    node = Node("RNN", "x W R", "y h", hidden_size=hidden, activations=["Relu"])
    x = np.ones((8, 1, 1), "float16")
    model = of_any_length(model_of_nodes([node], {"x": x}, constants, "y h"), batch=False)
    results, _last = by_tvm(ar.from_onnx(model), {"x": x})
    # Each step adds the input to the mean of the state.
    np.testing.assert_array_equal(results[:, 0, 0], np.broadcast_to(np.arange(1, 9)[:, None], (8, hidden)))


@pytest.mark.sweep
@pytest.mark.parametrize(("op", "given", "attributes"), WITH_NUMBERS)
def test_activations_take_their_numbers_in_turn_and_are_behind_the_clip(op, given, attributes):
    model, _ = layer(op, "bidirectional", given.replace("L", ""), **attributes)
    assert _differences(of_any_length(model, batch=False), _sequences(1, 5)) <= 2 * CLOSE


def test_an_unknown_activation_is_declined():
    model, _ = layer("RNN", "forward", activations=["Gelu"])
    with pytest.raises(ModelError, match="has the attribute 'activations' with 'Gelu', which is not supp"):
        ar.from_onnx(of_any_length(model, batch=False))


@pytest.mark.parametrize(("direction", "by_column"), [("bidirectional", False), ("reverse", True)])
def test_weights_of_bytes(direction, by_column):
    """ONNX Runtime quantizes the state of each step by its own range, if the batch is one."""
    rng = np.random.default_rng(3)
    count, rows = DIRECTIONS[direction], 4 * HIDDEN
    per = (count, rows) if by_column else (count,)
    constants = {
        "W": rng.integers(0, 255, (count, SIZE, rows), "uint8"),
        "R": rng.integers(0, 255, (count, HIDDEN, rows), "uint8"),
        "B": rng.standard_normal((count, 2 * rows)).astype("float32"),
        "P": rng.standard_normal((count, 3 * HIDDEN)).astype("float32"),
        "s": (0.01 + 0.01 * rng.random(per)).astype("float32"),
        "z": np.full(per, 120, "uint8"),
    }
    node = Node(
        "DynamicQuantizeLSTM", "x W R B - - - P s z s z", "y h c", CONTRIBUTED,
        direction=direction, hidden_size=HIDDEN,
    )  # fmt: skip
    (x,) = _sequences(7, batch=1)
    model = of_any_length(model_of_nodes([node], {"x": x}, constants, "y h c"), batch=False)
    assert _differences(model, [x]) <= 1e-5


def test_weights_of_bytes_for_several_sequences_are_those_of_a_known_length():
    """Their states share a range, as where the steps are unrolled."""
    rng = np.random.default_rng(4)
    constants = {
        "W": rng.integers(-99, 99, (1, SIZE, 4 * HIDDEN), "int8"),
        "R": rng.integers(-99, 99, (1, HIDDEN, 4 * HIDDEN), "int8"),
        "s": np.full(1, 0.01, "float32"), "z": np.zeros(1, "int8"),
    }  # fmt: skip
    node = Node("DynamicQuantizeLSTM", "x W R - - - - - s z s z", "y h c", CONTRIBUTED, hidden_size=HIDDEN)
    (x,) = _sequences(LENGTH)
    model = model_of_nodes([node], {"x": x}, constants, "y h c")
    expected = by_tvm(ar.from_onnx(model), {"x": x})
    for left, right in zip(
        by_tvm(ar.from_onnx(of_any_length(model, batch=False)), {"x": x}), expected, strict=True
    ):
        assert np.abs(left - right).max() <= 1e-6
