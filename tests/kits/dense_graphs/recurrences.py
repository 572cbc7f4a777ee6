"""Idioms of recurrent loops, and the reference's: LSTM, GRU and RNN over sequences of any length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from annotated_region.recurrent_loops.loop import FUNCTIONS, GATES, LANES, RecurrentCell, tiles_of
from kits.dense_graphs.bench import LARGEST, Bench, volume
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.values import UNIT, Noise, UnfitValuesError, Value, disturbed
from kits.dense_graphs.views import permuted

__all__ = ["LOOPS", "RECURRENT"]

Array = np.ndarray
CELLS: tuple[RecurrentCell, ...] = ("LSTM", "GRU", "RNN")
SCALARS: Mapping[str, Callable[[Array], Array]] = {
    "sigmoid": lambda x: np.asarray(1 / (1 + np.exp(-x))),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}


def recurrent(bench: Bench) -> int | None:
    """A layer over a sequence, whose data may be permuted; its last state, its results, or both together."""
    if bench.whole:
        return None
    cell = bench.one_of(CELLS)
    hidden = bench.one_of((1, 2, 3, 5, 16, 17))
    length: Dim = bench.one_of((1, 2, 3, 4))
    batch: Dim = bench.one_of((1, 1, 2, 3, 5))
    if bench.symbol is not None:
        length = bench.symbol if bench.chance(0.6) else length
        batch = bench.symbol if length != bench.symbol else bench.other or batch
    columns = GATES[cell] * hidden
    if volume((length, batch, columns)) > LARGEST:
        return None
    gates = _gates(bench, length, batch, columns)
    weight = bench.source((GATES[cell] * tiles_of(hidden), hidden, LANES), "unit", constant=0.8)
    has_bias = cell == "GRU" and bench.chance(0.5)
    has_peepholes = cell == "LSTM" and bench.chance(0.3)
    operands = [gates, weight]
    operands += [bench.source((columns,))] if has_bias else []
    operands += [bench.source((3 * hidden,))] if has_peepholes else []
    states = 2 if cell == "LSTM" else 1
    operands += [bench.source((batch, hidden)) for _ in range(states)]
    functions = [bench.one_of(("sigmoid", "tanh")) for _ in range(FUNCTIONS[cell])]
    attrs = {
        "cell": cell,
        "hidden": hidden,
        "functions": functions,
        "alphas": [0.0] * len(functions),
        "betas": [0.0] * len(functions),
        "clip": bench.one_of((0.0, 0.0, 0.5)),
        "is_reversed": bench.chance(0.4),
        "has_bias": has_bias,
        "resets_behind": has_bias or (cell == "GRU" and bench.chance(0.4)),
        "has_peepholes": has_peepholes,
        "is_coupled": cell == "LSTM" and bench.chance(0.2),
        "has_lengths": False,
    }
    whole = bench.add("recurrent.loop", operands, attrs, (length, batch, hidden))
    last = [_field(bench, whole, 1 + number, (batch, hidden)) for number in range(states)]
    if bench.chance(0.4):
        return bench.one_of(last)
    results = _field(bench, whole, 0, (length, batch, hidden))
    return bench.binary("add", results, bench.one_of(last)) if bench.chance(0.4) else results


def _gates(bench: Bench, length: Dim, batch: Dim, columns: int) -> int:
    if bench.chance(0.5):
        return bench.source((length, batch, columns), constant=0.0)
    return permuted(bench, bench.source((batch, length, columns), constant=0.0), (1, 0, 2))


def _field(bench: Bench, whole: int, index: int, shape: Sequence[Dim]) -> int:
    return bench.add("field", (whole,), {"index": index}, shape)


LOOPS: tuple[tuple[float, Idiom], ...] = ((40.0, recurrent),)


def _loop(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[Value, ...]:
    planes = [
        _computed(attrs, [getattr(value, plane) for value in args]) for plane in ("clean", "wide", "sharp")
    ]
    clean = planes[0]
    if not all(np.isfinite(each).all() for each in clean):
        raise UnfitValuesError("a state is infinite, or no number")
    # Each step rounds the sums of products with the state, which the functions of the cell do not enlarge.
    reach = float(np.max(np.abs(args[1].clean), initial=0.0)) * int(attrs["hidden"])
    size = (1.0 + reach) * (1 + len(args[0].clean))
    return tuple(
        disturbed(
            noise, (parts[0], parts[1], parts[2]), np.full(parts[0].shape, size), np.asarray(False), 2 * UNIT
        )
        for parts in zip(*planes, strict=True)
    )


def _computed(attrs: Mapping[str, Any], operands: Sequence[Array]) -> list[Array]:
    """The states of all steps, and the last one, by ONNX's formulas."""
    given, tiled, *others = operands
    cell, hidden = str(attrs["cell"]), int(attrs["hidden"])
    count = GATES[next(each for each in CELLS if each == cell)]
    weight = tiled.transpose(1, 0, 2).reshape(hidden, count, -1)[:, :, :hidden]
    bias = others.pop(0).reshape(count, hidden) if attrs["has_bias"] else np.zeros((count, hidden))
    seen = others.pop(0).reshape(3, hidden) if attrs["has_peepholes"] else np.zeros((3, hidden))
    state = [each.astype("float64") for each in others]
    clip = float(attrs["clip"]) or np.inf
    functions = [SCALARS[str(name)] for name in attrs["functions"]]

    def bounded(number: int) -> Callable[[Array], Array]:
        return lambda x: functions[number](np.clip(x, -clip, clip))

    steps = given.reshape(*given.shape[:2], count, hidden)
    results = np.zeros((*given.shape[:2], hidden))
    for step in range(len(steps))[:: -1 if attrs["is_reversed"] else 1]:
        x = [steps[step][:, gate] for gate in range(count)]
        h = [state[0] @ weight[:, gate] + bias[gate] for gate in range(count)]
        if cell == "LSTM":
            state = _lstm(attrs, x, h, state[1], seen, [bounded(0), bounded(1), functions[2]])
        elif cell == "GRU":
            z, r = (bounded(0)(x[gate] + h[gate]) for gate in (0, 1))
            inner = r * h[2] if attrs["resets_behind"] else (r * state[0]) @ weight[:, 2]
            state = [(1 - z) * bounded(1)(x[2] + inner) + z * state[0]]
        else:
            state = [bounded(0)(x[0] + h[0])]
        results[step] = state[0]
    return [results, *state]


def _lstm(
    attrs: Mapping[str, Any],
    x: Sequence[Array],
    h: Sequence[Array],
    cell: Array,
    seen: Array,
    functions: Sequence[Callable[[Array], Array]],
) -> list[Array]:
    gate, update, squash = functions
    take = gate(x[0] + h[0] + seen[0] * cell)
    forget = 1 - take if attrs["is_coupled"] else gate(x[2] + h[2] + seen[2] * cell)
    after = forget * cell + take * update(x[3] + h[3])
    return [gate(x[1] + h[1] + seen[1] * after) * squash(after), after]


RECURRENT = {"recurrent.loop": _loop}
