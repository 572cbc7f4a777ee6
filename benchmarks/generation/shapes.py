"""What the engines have in common: sizes of a Llama, random weights, and what an engine does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = ["CAPACITY", "GROUP", "SHAPES", "Engine", "Shape", "random_bytes", "rotary_angles"]

CAPACITY = 1024
"""How many tokens an engine has memory for, where that is fixed."""

GROUP = 32
"""Weights that share a scale."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a Llama, as in `examples/generate.py`."""

    words: int
    width: int
    layers: int
    heads: int
    pairs: int
    hidden: int

    @property
    def part(self) -> int:
        """The width of a head."""
        return self.width // self.heads

    @property
    def weights(self) -> int:
        """The elements of all matrices that a step reads."""
        attention = 2 * self.width * self.width + 2 * self.width * self.pairs * self.part
        return self.layers * (attention + 3 * self.width * self.hidden) + self.words * self.width

    @property
    def row(self) -> int:
        """The numbers that one token leaves in the keys and values of all layers."""
        return 2 * self.layers * self.pairs * self.part


SHAPES = {
    "0.5B": Shape(32000, 1024, 24, 16, 4, 4608),
    "1B": Shape(32000, 2048, 22, 32, 4, 5632),
    "3B": Shape(32000, 3072, 28, 24, 8, 8192),
}


class Engine(Protocol):
    """A model with the keys and values of the tokens that it has read."""

    def prefill(self, tokens: Sequence[int]) -> int:
        """Forget all tokens and read these; returns the most likely next one."""
        ...

    def decode(self, token: int) -> int:
        """Read one more token; returns the most likely next one."""
        ...


def random_bytes(seed: int, *shape: int) -> np.ndarray:
    """Bytes of weights, each matrix from a seed of its own.

    What they are makes no difference to the time, but equal matrices do: ONNX Runtime keeps one of them, and
    reads those of all layers from the processor's cache.
    """
    numbers: np.ndarray = np.random.default_rng(seed).integers(0, 256, shape, "uint8")
    return numbers


def rotary_angles(shape: Shape) -> np.ndarray:
    """The angle of each position and each pair of numbers of a head, [positions, part / 2]."""
    steps = 10000.0 ** (-np.arange(0, shape.part, 2) / shape.part)
    angles: np.ndarray = np.arange(CAPACITY)[:, None] * steps
    return angles.astype("float32")
