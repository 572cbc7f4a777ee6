"""Idioms of ops that some targets claim and dnnl does not: they part its regions, and go to the others."""

from __future__ import annotations

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom, narrowed
from kits.dense_graphs.views import viewed

__all__ = ["EXTRAS"]

FUNCTIONS = ("nn.selu", "atan", "asinh", "sinh", "cosh", "sign", "trunc", "floor", "ceil", "round")


def other_function(bench: Bench) -> int:
    """A function of a value that oneDNN has no primitive for."""
    value = viewed(bench, bench.value())
    if bench.chance(0.15):
        return bench.unary("nn.softplus", value, beta=bench.one_of((1.0, 2.0)), threshold=20.0)
    return bench.unary(bench.one_of(FUNCTIONS), value)


def tested(bench: Bench) -> int:
    """Whether values are numbers, as numbers."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    truth = bench.add(bench.one_of(("isnan", "isinf", "isfinite")), (value,), {}, shape, "bool")
    return bench.add("astype", (truth,), {"dtype": "float32"}, shape)


def flipped(bench: Bench) -> int:
    """Along one axis, backwards."""
    value = viewed(bench, bench.value())
    axis = bench.number(0, len(bench.shape_of(value)) - 1)
    return bench.unary("flip", value, axis=axis)


def triangle(bench: Bench) -> int | None:
    """Above or below a diagonal."""
    value = viewed(bench, bench.value())
    if len(bench.shape_of(value)) < 2:
        return None
    return bench.unary(bench.one_of(("triu", "tril")), value, k=bench.number(-1, 1))


def summed_up(bench: Bench) -> int:
    """Sums of all that comes before, along one axis."""
    value = viewed(bench, bench.value())
    return bench.unary("cumsum", value, axis=bench.number(0, len(bench.shape_of(value)) - 1))


def searched(bench: Bench) -> int:
    """Where the largest or smallest number stands, of new numbers."""
    value = bench.source(bench.shape(bench.number(1, 4)), constant=0.0)
    shape = bench.shape_of(value)
    axis, keep = bench.number(0, len(shape) - 1), bench.chance(0.5) or len(shape) == 1
    rest = [1 if index == axis else extent for index, extent in enumerate(shape) if keep or index != axis]
    attrs = {"axis": axis, "keepdims": keep}
    return bench.add(bench.one_of(("argmax", "argmin")), (value,), attrs, rest, "int64")


def of_whole_numbers(bench: Bench) -> int:
    """Arithmetic of int64 or int32, which nobody may round."""
    dtype = bench.one_of(("int64", "int32"))
    shape = bench.shape(bench.number(1, 4))
    left = bench.source(shape, "signed", dtype, constant=0.1)
    for _ in range(bench.number(1, 3)):
        left = viewed(bench, left, 0.4)
        name = bench.one_of(
            ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "floor_mod")
        )
        kind = "counting" if name.startswith("floor") else "whole"
        left = bench.binary(
            name, left, bench.source(narrowed(bench, bench.shape_of(left)), kind, dtype), dtype
        )
    return bench.add("astype", (left,), {"dtype": "float32"}, bench.shape_of(left))


EXTRAS: tuple[tuple[float, Idiom], ...] = (
    (2.0, other_function),
    (0.5, tested),
    (1.0, flipped),
    (1.0, triangle),
    (1.0, summed_up),
    (0.7, searched),
    (1.5, of_whole_numbers),
)
"""Weights and idioms."""
