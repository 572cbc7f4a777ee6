"""The parameters of nodes that go through a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from annotated_region.backends.dnnl.parameters import Parameters

__all__ = ["CellKind", "LoopActivation", "Recurrence"]


class CellKind(Enum):
    """The cell of a recurrent layer, by ONNX's name in small letters."""

    LSTM = "lstm"
    GRU = "gru"
    RNN = "rnn"


class LoopActivation(Enum):
    """An activation function of a cell, by ONNX's name in small letters."""

    AFFINE = "affine"
    ELU = "elu"
    HARDSIGMOID = "hardsigmoid"
    LEAKYRELU = "leakyrelu"
    RELU = "relu"
    SCALEDTANH = "scaledtanh"
    SIGMOID = "sigmoid"
    SOFTPLUS = "softplus"
    SOFTSIGN = "softsign"
    TANH = "tanh"
    THRESHOLDEDRELU = "thresholdedrelu"


@dataclass(frozen=True, slots=True)
class Recurrence(Parameters):
    """One direction of a recurrent layer.

    Attributes
    ----------
    cell
        The cell.
    gate, update, squash
        Its activation functions, as ONNX lists them, each with its two numbers; of those that it lacks any.
    clip
        The size to which the data of the first two are clipped; may be infinite.
    is_reversed, has_bias, resets_behind, has_peepholes, is_coupled, has_lengths
        Those of `RecurrentLoop`.
    """

    cell: CellKind
    gate: LoopActivation
    gate_alpha: float
    gate_beta: float
    update: LoopActivation
    update_alpha: float
    update_beta: float
    squash: LoopActivation
    squash_alpha: float
    squash_beta: float
    clip: float
    is_reversed: bool
    has_bias: bool
    resets_behind: bool
    has_peepholes: bool
    is_coupled: bool
    has_lengths: bool
