"""Recipes of recurrent layers: loops of each cell over sequences, with what may be left out."""

from __future__ import annotations

from hypothesis import strategies as st
from tvm import relax

from annotated_region.recurrent_loops.loop import (
    FUNCTIONS,
    GATES,
    LANES,
    LoopFunction,
    RecurrentLoop,
    tiles_of,
)
from annotated_region.recurrent_loops.op import LOOP, attributes_of_loop, recurrent_loop
from annotated_region.testing.recipes.workbench import Recipe, Workbench, extents_of

__all__ = ["recipes"]


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {LOOP: _loop}


def _loop(bench: Workbench) -> relax.Expr | None:
    """The states of all steps; the gates are a value with the axes step, sequence, column of a gate."""
    gates = bench.value(3, "float32") if bench.dtype == "float32" else None
    if gates is None:
        return None
    length, batch, columns = extents_of(gates)
    cells = [cell for cell, count in GATES.items() if columns % count == 0]
    cell = bench.draw(st.sampled_from(cells))
    names = st.sampled_from(("sigmoid", "tanh", "relu"))
    is_lstm, flag = cell == "LSTM", st.booleans()
    has_bias = cell == "GRU" and bench.draw(flag)
    loop = RecurrentLoop(
        cell,
        columns // GATES[cell],
        "float32",
        tuple(LoopFunction(bench.draw(names)) for _ in range(FUNCTIONS[cell])),
        bench.draw(st.sampled_from((None, 0.5))),
        is_reversed=bench.draw(flag),
        has_bias=has_bias,
        resets_behind=has_bias or (cell == "GRU" and bench.draw(flag)),
        has_peepholes=is_lstm and bench.draw(flag),
        is_coupled=is_lstm and bench.draw(flag),
        has_lengths=bench.draw(flag),
    )
    return relax.TupleGetItem(
        recurrent_loop(
            gates,
            *_operands(bench, loop, length, batch),
            **attributes_of_loop(loop),
        ),
        0,
    )


def _operands(bench: Workbench, loop: RecurrentLoop, length: int, batch: int) -> list[relax.Expr]:
    """What a loop reads behind its gates."""
    columns = GATES[loop.cell]
    made = [bench.tensor([columns * tiles_of(loop.hidden), loop.hidden, LANES], unit=True, constant=True)]
    if loop.has_bias:
        made.append(bench.tensor([columns * loop.hidden]))
    if loop.has_peepholes:
        made.append(bench.tensor([3 * loop.hidden]))
    if loop.has_lengths:
        made.append(bench.tensor([batch], below=length + 1, dtype="int32"))
    return made + [bench.tensor([batch, loop.hidden]) for _ in range(loop.states)]
