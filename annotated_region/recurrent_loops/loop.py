"""What a loop over a sequence computes: the cell of a recurrent layer, and what the layer has of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "CLIPPED",
    "FUNCTIONS",
    "GATES",
    "LANES",
    "LoopFunction",
    "RecurrentCell",
    "RecurrentLoop",
    "tiles_of",
]

RecurrentCell: TypeAlias = Literal["LSTM", "GRU", "RNN"]

GATES: Mapping[RecurrentCell, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""The number of gates of each cell."""

FUNCTIONS: Mapping[RecurrentCell, int] = {"LSTM": 3, "GRU": 2, "RNN": 1}
"""The number of activation functions of each cell."""

LANES = 16
"""The columns that are computed at once."""

CLIPPED = 2
"""The functions that clip: of what gates get, and not of the cell of an LSTM, as ONNX Runtime has it."""


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """An activation function.

    Attributes
    ----------
    name
        Its name in ONNX, in small letters.
    alpha, beta
        Its numbers; 0 where it has none.
    """

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class RecurrentLoop:
    """One direction of a layer.

    Attributes
    ----------
    cell
        The operator.
    hidden
        The hidden size.
    dtype
        The data type of all tensors but the lengths.
    functions
        The activation functions, as ONNX lists them.
    clip
        The size to which the first two of them clip their data; None if they do not.
    is_reversed
        Whether it runs from the end to the start.
    has_bias
        Whether the state's product has a bias of its own: of a GRU that resets behind the product.
    resets_behind
        Whether a GRU resets behind the product (``linear_before_reset``).
    has_peepholes
        Whether there are peepholes, of an LSTM.
    is_coupled
        Whether an LSTM forgets what it does not take (``input_forget``).
    has_lengths
        Whether the sequences have lengths of their own.
    """

    cell: RecurrentCell
    hidden: int
    dtype: str
    functions: tuple[LoopFunction, ...]
    clip: float | None = None
    is_reversed: bool = False
    has_bias: bool = False
    resets_behind: bool = False
    has_peepholes: bool = False
    is_coupled: bool = False
    has_lengths: bool = False

    @property
    def states(self) -> int:
        """The number of tensors in a state."""
        return 2 if self.cell == "LSTM" else 1

    @property
    def operands(self) -> tuple[str, ...]:
        """The names of what a loop reads, in their order."""
        optional = {"bias": self.has_bias, "peepholes": self.has_peepholes, "lengths": self.has_lengths}
        given = [name for name, is_given in optional.items() if is_given]
        return ("gates", "weight", *given, *(f"initial_{number}" for number in range(self.states)))


def tiles_of(columns: int) -> int:
    """The number of tiles of `LANES` columns that hold the columns of a gate."""
    return -(-columns // LANES)
