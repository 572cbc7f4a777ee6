"""Ops with kernels of their own, and chains of what engines fuse with them: constants, functions, sums."""

from __future__ import annotations

from collections.abc import Callable

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom, narrowed, reduction
from kits.dense_graphs.quantization import round_trip
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed
from kits.dense_graphs.windows import batch_norm, convolution, matmul, norm, pool, transposed

__all__ = ["FUSIONS"]

CHANNELS = (1, 1, 2, 3, 4, 8, 16, 32)
"""Kernels differ by how many there are."""

FUNCTIONS = ("nn.relu", "sigmoid", "tanh", "nn.gelu", "nn.silu", "abs", "negative")

BASES = (convolution, convolution, convolution, transposed, pool, matmul, reduction, norm, batch_norm)


def fused(bench: Bench) -> int | None:
    """An op of one of these kinds and a chain behind it; now and then its result has another reader."""
    if bench.chance(0.6):
        images: Dim = bench.symbol if bench.symbol is not None and bench.chance(0.8) else bench.number(1, 3)
        spatial = [bench.one_of((1, 2, 3, 4, 7)) for _ in range(bench.one_of((1, 2, 2, 3)))]
        bench.source((images, bench.one_of(CHANNELS), *spatial), constant=0.0)
    made = bench.one_of(BASES)(bench)
    if made is None:
        return None
    value = made
    for _ in range(bench.number(1, 4)):
        value = bench.one_of(LINKS)(bench, value)
    if bench.shape_of(value) == bench.shape_of(made) and bench.chance(0.2):
        return bench.binary("add", value, made)
    return value


def _sum(bench: Bench, value: int) -> int:
    """With an input of the same shape, or with a function of one."""
    other = bench.source(bench.shape_of(value), constant=0.0)
    if bench.chance(0.4):
        other = bench.unary(bench.one_of(("nn.relu", "negative", "tanh")), other)
    pair = (value, other) if bench.chance(0.6) else (other, value)
    return bench.binary(bench.one_of(("add", "add", "subtract", "multiply", "maximum")), *pair)


def _by_constant(bench: Bench, value: int) -> int:
    """With a constant for some axes."""
    constant = bench.source(narrowed(bench, bench.shape_of(value)), constant=0.9)
    pair = (value, constant) if bench.chance(0.7) else (constant, value)
    return bench.binary(bench.one_of(("add", "subtract", "multiply", "maximum", "minimum")), *pair)


def _quotient(bench: Bench, value: int) -> int:
    divisor = bench.source(narrowed(bench, bench.shape_of(value)), "positive", constant=0.8)
    return bench.binary("divide", value, divisor)


def _function(bench: Bench, value: int) -> int:
    return bench.unary(
        bench.one_of(("nn.relu", "sigmoid", "tanh", "nn.gelu", "nn.silu", "abs", "negative")), value
    )


def _bounded(bench: Bench, value: int) -> int:
    low = bench.one_of((-1.0, 0.0, 0.5))
    return bench.unary("clip", value, min=low, max=low + bench.one_of((0.5, 2.0, 6.0)))


def _view(bench: Bench, value: int) -> int:
    return viewed(bench, value, 0.8)


def _round_trip(bench: Bench, value: int) -> int:
    return round_trip(bench, value) if bench.shape_of(value) else value


LINKS: tuple[Callable[[Bench, int], int], ...] = (
    _sum,
    _sum,
    _by_constant,
    _by_constant,
    _quotient,
    _function,
    _function,
    _bounded,
    _view,
    _round_trip,
)

FUSIONS: tuple[tuple[float, Idiom], ...] = ((1.0, fused),)
