"""annotated-region by way of `examples/generate.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tvm
from kits.example_files import example_module

from generation.shapes import CAPACITY, GROUP, SHAPES, Engine

__all__ = ["load", "write", "write_bfloat16", "write_int8", "write_int16"]


class _Ours:
    def __init__(self, llama: Any) -> None:
        self.llama = llama

    def prefill(self, tokens: Sequence[int]) -> int:
        self.llama.cache.clear()
        return int(self.llama.step(list(tokens)).argmax())

    def decode(self, token: int) -> int:
        return int(self.llama.step([token]).argmax())


def write(folder: Path, size: str, bits: int) -> None:
    """Build the example with the weights of one seed, and products of float32."""
    _write(folder, size, bits, "float32")


def write_int16(folder: Path, size: str, bits: int) -> None:
    """With activations in 16 bits by groups."""
    _write(folder, size, bits, "int16")


def write_int8(folder: Path, size: str, bits: int) -> None:
    """With activations in 8 bits by groups, as the peers take them."""
    _write(folder, size, bits, "int8")


def write_bfloat16(folder: Path, size: str, bits: int) -> None:
    """With prompts in bfloat16."""
    _write(folder, size, bits, "bfloat16")


def _write(folder: Path, size: str, bits: int, activations: str) -> None:
    example = example_module("generate.py")
    config = example.SIZES[size]
    assert asdict(SHAPES[size]).items() <= asdict(config).items()
    executable = example.build(config, example.random_weights(), bits, GROUP, activations)
    executable.export_library(str(folder / "llama.so"))


def load(folder: Path, size: str, _bits: int) -> Engine:
    """The example with the library that was built."""
    example = example_module("generate.py")
    library = tvm.runtime.load_module(str(folder / "llama.so"))
    return _Ours(example.Llama(library, example.SIZES[size], CAPACITY))
