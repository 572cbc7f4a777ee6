"""annotated-region by way of `examples/generate.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kits.example_files import example_module

from generation.shapes import CAPACITY, GROUP, SHAPES, Engine

__all__ = ["load", "load_bfloat16", "load_int8", "load_int16"]


class _Ours:
    def __init__(self, llama: Any) -> None:
        self.llama = llama

    def prefill(self, tokens: Sequence[int]) -> int:
        self.llama.cache.clear()
        return int(self.llama.step(list(tokens)).argmax())

    def decode(self, token: int) -> int:
        return int(self.llama.step([token]).argmax())


def load(size: str, bits: int) -> Engine:
    """The example with the weights of one seed, and products of float32."""
    return _load(size, bits, "float32")


def load_int16(size: str, bits: int) -> Engine:
    """With activations in 16 bits by groups."""
    return _load(size, bits, "int16")


def load_int8(size: str, bits: int) -> Engine:
    """With activations in 8 bits by groups, as the peers take them."""
    return _load(size, bits, "int8")


def load_bfloat16(size: str, bits: int) -> Engine:
    """With prompts in bfloat16."""
    return _load(size, bits, "bfloat16")


def _load(size: str, bits: int, activations: str) -> Engine:
    example = example_module("generate.py")
    config = example.SIZES[size]
    assert asdict(SHAPES[size]).items() <= asdict(config).items()
    library = example.build(config, example.random_weights(), bits, GROUP, activations)
    return _Ours(example.Llama(library, config, CAPACITY))
