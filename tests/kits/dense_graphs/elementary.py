"""Idioms of functions that few models have: elementary ones, products, samples, boxes, medians, sequences."""

from __future__ import annotations

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.rarities import inverse_function, middle, pooled, reversed_parts, sampled
from kits.dense_graphs.views import viewed

__all__ = ["ELEMENTARY"]

HYPERBOLIC = ("sinh", "cosh", "asinh", "atan")


def hyperbolic(bench: Bench) -> int:
    """A function that is defined for every number; the growing ones of numbers that cannot overflow."""
    value = viewed(bench, bench.value())
    name = bench.one_of(HYPERBOLIC)
    return bench.unary(name, bench.unary("tanh", value) if name in ("sinh", "cosh") else value)


def multiplied_up(bench: Bench) -> int:
    """Products of all that comes before, along one axis, with or without the element itself."""
    value = viewed(bench, bench.value())
    axis = bench.number(0, len(bench.shape_of(value)) - 1)
    return bench.unary("cumprod", value, axis=axis, exclusive=bench.chance(0.4))


ELEMENTARY: tuple[tuple[float, Idiom], ...] = (
    (6.0, hyperbolic),
    (8.0, inverse_function),
    (4.0, multiplied_up),
    (4.0, sampled),
    (4.0, pooled),
    (3.0, middle),
    (4.0, reversed_parts),
)
"""Weights and idioms."""
