"""A few ops in half precision inside of a graph in float32, as mixed precision has them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kits.dense_graphs.bench import LARGEST, Bench, volume
from kits.dense_graphs.idioms import Idiom, narrowed
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed

__all__ = ["ISLANDS", "ISLANDS_OF_BFLOAT16"]

FUNCTIONS = ("nn.relu", "sigmoid", "tanh", "nn.gelu", "nn.silu", "abs", "negative")


def island(bench: Bench, dtype: str = "float16") -> int | None:
    """A value in half precision through one to four ops, and back; the half may be a result as well."""
    value = viewed(bench, bench.value())
    half = bench.add("astype", (value,), {"dtype": dtype}, bench.shape_of(value), dtype)
    for _ in range(bench.number(1, 4)):
        half = _step(bench, half, dtype)
    return bench.add("astype", (half,), {"dtype": "float32"}, bench.shape_of(half))


def _step(bench: Bench, half: int, dtype: str) -> int:
    way = bench.rng.random()
    shape = bench.shape_of(half)
    if way < 0.35:
        return bench.unary(bench.one_of(FUNCTIONS), half)
    if way < 0.6:
        other = bench.source(narrowed(bench, shape), dtype=dtype)
        return bench.binary(bench.one_of(("add", "multiply", "subtract", "maximum")), half, other, dtype)
    if way < 0.8 and shape:
        return _product(bench, half, shape, dtype)
    return viewed(bench, half, 1.0)


def _product(bench: Bench, half: int, shape: Sequence[Dim], dtype: str) -> int:
    columns = bench.extent()
    if volume((*shape[:-1], columns)) > LARGEST:
        return half
    weight = bench.source((shape[-1], columns), dtype=dtype, constant=0.8)
    return bench.add("matmul", (half, weight), {}, (*shape[:-1], columns), dtype)


ISLANDS: tuple[tuple[float, Idiom], ...] = ((12.0, island),)
"""Weights and idioms."""

ISLANDS_OF_BFLOAT16: tuple[tuple[float, Idiom], ...] = ((8.0, partial(island, dtype="bfloat16")),)
"""The same, for engines that are called without numpy, which does not know that type."""
