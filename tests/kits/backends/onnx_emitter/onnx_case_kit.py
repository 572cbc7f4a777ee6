"""What the cases of the emitter's ops share: how a case is registered, and what is drawn for it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

__all__ = [
    "CASES",
    "FLOATS",
    "NUMBERS",
    "Case",
    "Draw",
    "Graph",
    "axes_of",
    "axis_of",
    "broadcast",
    "case",
    "extents",
    "function_of",
    "some",
]

Draw = Callable[[st.SearchStrategy[Any]], Any]
FLOATS = ("float32", "float16")
NUMBERS = ("float32", "float16", "float64", "int32", "int64")


@dataclass(frozen=True, slots=True)
class Graph:
    """Inputs, and how to make a result, or a tuple of results, of them.

    `reference` makes the same of other ops, where TVM cannot compute the op itself.
    """

    inputs: tuple[np.ndarray, ...]
    make: Callable[..., Any]
    reference: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """What to draw for one op."""

    name: str
    dtypes: tuple[str, ...]
    draw: Callable[[Draw, str], Graph]


CASES: dict[str, Case] = {}


def case(
    *names: str, dtypes: tuple[str, ...] = FLOATS
) -> Callable[[Callable[..., Graph]], Callable[..., Graph]]:
    """Register a drawing; one that is for several ops gets the op's function as third argument."""

    def register(draw: Callable[..., Graph]) -> Callable[..., Graph]:
        for name in names:
            bound = draw if len(names) == 1 else _bound(draw, _function(name))
            CASES[f"relax.{name}"] = Case(f"relax.{name}", dtypes, bound)
        return draw

    return register


def _bound(draw: Callable[..., Graph], function: Callable[..., Any]) -> Callable[[Draw, str], Graph]:
    return lambda chosen, dtype: draw(chosen, dtype, function)


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = operator.attrgetter(name)(op)
    return found


def function_of(graph: Graph, constants: Sequence[int] = (), symbol: str = "main") -> relax.Function:
    """The graph as a Relax function; the inputs at `constants` are bound into it."""
    builder = relax.BlockBuilder()
    variables = [
        relax.Var(f"x{position}", relax.TensorType(array.shape, str(array.dtype)))
        for position, array in enumerate(graph.inputs)
    ]
    operands = [
        relax.const(array, str(array.dtype)) if position in constants else variable
        for position, (array, variable) in enumerate(zip(graph.inputs, variables, strict=True))
    ]
    parameters = [variable for position, variable in enumerate(variables) if position not in constants]
    with builder.function(symbol, parameters):
        with builder.dataflow():
            made = graph.make(*operands)
            result = made if isinstance(made, tuple) else (made,)
            outputs = [builder.emit_output(part) for part in result]
        builder.emit_func_output(outputs[0] if len(outputs) == 1 else relax.Tuple(outputs))
    return builder.finalize()[symbol]


# --- what is drawn


def some(draw: Draw, shape: Sequence[int], dtype: str, low: float = -2, high: float = 2) -> np.ndarray:
    """Numbers that a seed decides, so that failures shrink."""
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    if dtype == "bool":
        return np.asarray(generator.random(tuple(shape)) < 0.5)
    if "int" in dtype:
        return np.asarray(generator.integers(int(low * 3), int(high * 3) + 1, tuple(shape))).astype(dtype)
    return np.asarray(generator.uniform(low, high, tuple(shape))).astype(dtype)


def extents(draw: Draw, least: int = 1, most: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, 5), min_size=least, max_size=most)))


def axis_of(draw: Draw, shape: Sequence[int]) -> int:
    return int(draw(st.integers(-len(shape), len(shape) - 1)))


def axes_of(draw: Draw, shape: Sequence[int]) -> list[int]:
    count = draw(st.integers(1, len(shape)))
    return list(draw(st.permutations(range(len(shape))))[:count])


def broadcast(draw: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that stretches to `shape`."""
    kept = tuple(extent if draw(st.booleans()) else 1 for extent in shape)
    return kept[draw(st.integers(0, len(shape))) :]
