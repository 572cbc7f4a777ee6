"""Models of one recurrent layer."""

from __future__ import annotations

import numpy as np
import onnx

from kits.onnx_nodes import Node, model_of_nodes

__all__ = [
    "BATCH",
    "DIRECTIONS",
    "GATES",
    "HIDDEN",
    "LENGTH",
    "SIZE",
    "WITH_NUMBERS",
    "layer",
    "of_any_length",
    "sequences",
]

LENGTH, BATCH, SIZE, HIDDEN = 4, 3, 5, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}

_NUMBERED = {"activation_alpha": [0.3, 0.1, 1.2, 0.25, 0.2, 0.8], "activation_beta": [0.4, 0.7, 0.3, 0.5]}
WITH_NUMBERS: list[tuple[str, str, dict[str, object]]] = [
    ("LSTM", "WRBHC", {"clip": 0.1}),
    ("LSTM", "WRBLHCP", {"clip": 0.1, "input_forget": 1}),
    ("GRU", "WRBH", {"clip": 0.1}),
    ("GRU", "WRBH", {"clip": 0.1, "linear_before_reset": 1}),
    ("RNN", "WRBH", {"clip": 0.1}),
    ("LSTM", "WRBHC", {"activations": ["HardSigmoid", "LeakyRelu", "ScaledTanh"] * 2, **_NUMBERED}),
    ("LSTM", "WRBHC", {"activations": ["HardSigmoid", "Softsign", "Elu", "Sigmoid", "Softplus", "Tanh"]}),
    ("GRU", "WRBH", {"activations": ["HardSigmoid", "Affine", "Elu", "ThresholdedRelu"], **_NUMBERED}),
    ("RNN", "WRBH", {"activations": ["Softsign", "Affine"], **_NUMBERED}),
    ("RNN", "WRBH", {"activations": ["LeakyRelu", "Elu"]}),
]
"""Operators, their inputs and attributes: activations that take their numbers in turn, behind the clip."""


def layer(
    op: str, direction: str, given: str = "WRB", seed: int = 0, **attributes: object
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one layer, with its input; `given` are the inputs beside the sequence, as letters."""
    rng = np.random.default_rng(seed)
    count, rows = DIRECTIONS[direction], GATES[op] * HIDDEN

    def numbers(*shape: int) -> np.ndarray:
        return np.asarray(rng.standard_normal(shape) / 2, "float32")

    constants = {
        "W": numbers(count, rows, SIZE), "R": numbers(count, rows, HIDDEN), "B": numbers(count, 2 * rows),
        "L": np.full(BATCH, LENGTH, "int32"), "H": numbers(count, BATCH, HIDDEN),
        "C": numbers(count, BATCH, HIDDEN), "P": numbers(count, 3 * HIDDEN),
    }  # fmt: skip
    names = [letter if letter in given else "-" for letter in "WRBLHCP"[: 7 if op == "LSTM" else 5]]
    outputs = "y h c" if op == "LSTM" else "y h"
    x = numbers(LENGTH, BATCH, SIZE)
    node = Node(
        op, " ".join(["x", *names]), outputs, "", direction=direction, hidden_size=HIDDEN, **attributes
    )
    used = {name: constants[name] for name in names if name != "-"}
    return model_of_nodes([node], {"x": x}, used, outputs), {"x": x}


def of_any_length(model: onnx.ModelProto, batch: bool = True) -> onnx.ModelProto:
    """The model with a symbolic length, and a symbolic batch, of its only input."""
    extents = model.graph.input[0].type.tensor_type.shape.dim
    extents[0].dim_param = "length"
    if batch:
        extents[1].dim_param = "batch"
    return model


def sequences(*shapes: tuple[int, int], seed: int = 7) -> list[np.ndarray]:
    """Inputs of these lengths and batches."""
    random = np.random.default_rng(seed)
    return [(random.standard_normal((*shape, SIZE)) / 2).astype("float32") for shape in shapes]
