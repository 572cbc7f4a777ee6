"""Idioms of ops that some targets do not claim: they part the regions of these, and go to the others."""

from __future__ import annotations

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.views import viewed

__all__ = ["EXTRAS", "searched"]

FUNCTIONS = ("nn.selu", "atan", "asinh", "sinh", "cosh", "sign", "trunc", "floor", "ceil", "round")


def other_function(bench: Bench) -> int:
    """A function of a value that oneDNN has no primitive for."""
    value = viewed(bench, bench.value())
    if bench.chance(0.15):
        return bench.unary("nn.softplus", value, beta=bench.one_of((1.0, 2.0)), threshold=20.0)
    return bench.unary(bench.one_of(FUNCTIONS), value)


def triangle(bench: Bench) -> int | None:
    """Above or below a diagonal."""
    value = viewed(bench, bench.value())
    if len(bench.shape_of(value)) < 2:
        return None
    return bench.unary(bench.one_of(("triu", "tril")), value, k=bench.number(-1, 1))


def searched(bench: Bench) -> int:
    """Where the largest or smallest number stands, of new numbers."""
    value = bench.source(bench.shape(bench.number(1, 4)), constant=0.0)
    shape = bench.shape_of(value)
    axis, keep = bench.number(0, len(shape) - 1), bench.chance(0.5) or len(shape) == 1
    rest = [1 if index == axis else extent for index, extent in enumerate(shape) if keep or index != axis]
    attrs = {"axis": axis, "keepdims": keep}
    return bench.add(bench.one_of(("argmax", "argmin")), (value,), attrs, rest, "int64")


EXTRAS: tuple[tuple[float, Idiom], ...] = (
    (3.0, other_function),
    (1.0, triangle),
)
"""Weights and idioms."""
