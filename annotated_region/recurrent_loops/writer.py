"""Recurrent layers over sequences of any length: each direction is one loop of TVM.

Relax has no loops, and a sequence whose length only a call tells cannot be unrolled. The product with the
input is an op as always; what depends on the step before is a function::

    for block of sequences in batch:
        for t in the direction's order:
            sums = state[block] @ weight
            for b in block, while t is within sequence b:
                state[b] = cell(gates[t, b], sums[b], state[b])
                result[t, b] = state[b]

Its parameters are the gates [length, batch, G * hidden], the weight in tiles (see `products`), what a
layer has of a bias of the state [G * hidden], peepholes [3 * hidden] and lengths [batch], and the initial
states [batch, hidden]; its results are those of all steps [length, batch, hidden], and the last states. Half
precision adds up in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tvm import tirx

from annotated_region.recurrent_loops.activations import scalar_function
from annotated_region.recurrent_loops.loop import CLIPPED, GATES, LANES, RecurrentLoop, tiles_of
from annotated_region.recurrent_loops.products import TiledWeight, by_blocks
from annotated_region.recurrent_loops.statements import (
    INDEX,
    Column,
    columns_of,
    element,
    loop_of,
    number_of,
    store,
    together,
    whole_function,
    wide,
)
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["LoopWriter", "function_of"]


def function_of(loop: RecurrentLoop) -> tirx.PrimFunc:
    """The loop as a function; see the module for its parameters."""
    return LoopWriter(loop).function()


class LoopWriter:
    """Writes the function of a loop."""

    def __init__(self, loop: RecurrentLoop) -> None:
        self.loop = loop
        gates = GATES[loop.cell]
        self.functions = [
            scalar_function(each, loop.clip if place < CLIPPED else None)
            for place, each in enumerate(loop.functions)
        ]
        self.computed = "float32" if loop.dtype == "float16" else loop.dtype
        self.length, self.batch = (tirx.Var(name, INDEX) for name in ("length", "batch"))
        pair = (self.batch, loop.hidden)
        self.gates = self.buffer("gates", (self.length, self.batch, gates * loop.hidden))
        self.tiles = tiles_of(loop.hidden)
        self.weight = self.tiled_weight(loop.dtype, self.computed)
        self.bias = self.buffer("bias", (gates * loop.hidden,))
        self.peepholes = self.buffer("peepholes", (3 * loop.hidden,))
        self.lengths = tirx.decl_buffer((self.batch,), "int32", "lengths")
        self.initial = [self.buffer(f"initial_{number}", pair) for number in range(loop.states)]
        self.result = self.buffer("result", (self.length, self.batch, loop.hidden))
        self.last = [self.buffer(f"last_{number}", pair) for number in range(loop.states)]
        # Where the statements that are written compute: a step, a sequence, its place in its block, and
        # whether that is one of the batch.
        self.step: PrimExpr = number_of(0)
        self.row: PrimExpr = number_of(0)
        self.place: PrimExpr = number_of(0)
        self.is_within: PrimExpr = tirx.const(True, "bool")
        self.begin_block(1)

    def buffer(self, name: str, shape: tuple[PrimExpr | int, ...]) -> tirx.Buffer:
        return tirx.decl_buffer(shape, self.loop.dtype, name)

    def tiled_weight(self, dtype: str, computed: str) -> TiledWeight:
        """The weight, of a data type, whose sums have another one."""
        shape = (GATES[self.loop.cell] * self.tiles, self.loop.hidden, LANES)
        return TiledWeight(tirx.decl_buffer(shape, dtype, "weight"), self.loop.hidden, computed)

    def begin_block(self, rows: int) -> None:
        """Make the buffers of a block of so many sequences."""
        loop = self.loop
        self.rows = rows
        self.sums = tirx.decl_buffer(
            (rows, GATES[loop.cell] * self.tiles * LANES), self.weight.computed, "sums"
        )
        self.reset = tirx.decl_buffer((rows, loop.hidden), self.computed, "reset")
        self.state = [self.buffer(f"state_{number}", (rows, loop.hidden)) for number in range(loop.states)]

    def function(self) -> tirx.PrimFunc:
        """The function."""
        return whole_function(self.parameters(), by_blocks(self.batch, self._blocks))

    def parameters(self) -> list[tirx.Buffer]:
        """What the function reads and writes."""
        initial = {f"initial_{number}": each for number, each in enumerate(self.initial)}
        known = {
            "gates": self.gates,
            "weight": self.weight.buffer,
            "bias": self.bias,
            "peepholes": self.peepholes,
            "lengths": self.lengths,
            **initial,
        }
        return [*(known[name] for name in self.loop.operands), self.result, *self.last]

    def blocks_of(self, rows: int) -> PrimExpr:
        """The number of blocks of so many sequences."""
        return tirx.floordiv(self.batch + (rows - 1), number_of(rows))

    def _blocks(self, rows: int) -> tirx.Stmt:
        """All sequences in blocks of so many."""
        self.begin_block(rows)
        return loop_of("block", self.blocks_of(rows), self._block, tirx.ForKind.PARALLEL)

    def _block(self, block: PrimExpr) -> tirx.Stmt:
        """All steps of a block; where it lacks a sequence, it computes the last one of the batch again."""
        reset = [self.reset] if self.loop.cell == "GRU" else []
        return together(
            [
                *map(tirx.AllocBuffer, [self.sums, *reset, *self.state]),
                self.each_row(block, lambda: [self.copied(self.initial, is_into_block=True)]),
                loop_of("t", self.length, partial(self.at_step, block)),
                self.each_row(block, lambda: [self.copied(self.last, is_into_block=False)]),
            ]
        )

    def each_row(self, block: PrimExpr, statements: Callable[[], list[tirx.Stmt]]) -> tirx.Stmt:
        """Statements for each sequence of a block."""

        def one(place: PrimExpr) -> tirx.Stmt:
            number = block * self.rows + place
            self.place, self.row = place, tirx.Min(number, self.batch - 1)
            self.is_within = number < self.batch
            return together(statements())

        return loop_of("b", self.rows, one)

    def copied(self, states: Sequence[tirx.Buffer], *, is_into_block: bool) -> tirx.Stmt:
        """The states of a sequence: those of the block from others, or the other way."""

        def copy(column: PrimExpr) -> tirx.Stmt:
            pairs = [
                ((own, self.place), (other, self.row)) for own, other in zip(self.state, states, strict=True)
            ]
            moves = [pair if is_into_block else pair[::-1] for pair in pairs]
            return together(
                [
                    store(target, element(source, source_at, column), target_at, column)
                    for (target, target_at), (source, source_at) in moves
                ]
            )

        return columns_of(self.loop.hidden, copy)

    def at_step(self, block: PrimExpr, number: PrimExpr) -> tirx.Stmt:
        """One step: the state and the result; behind the end of a sequence the state stays."""
        self.step = self.length - 1 - number if self.loop.is_reversed else number
        every = list(range(GATES[self.loop.cell]))
        if self.loop.cell != "GRU" or self.loop.resets_behind:
            return together([*self._product(every), self.each_row(block, self.row_at_step)])
        return together(
            [
                *self._product(every[:2]),
                self.each_row(block, lambda: [columns_of(self.loop.hidden, self._reset)]),
                *self._product(every[2:], self.reset),
                self.each_row(block, self.row_at_step),
            ]
        )

    def _product(self, gates: Sequence[int], operand: tirx.Buffer | None = None) -> list[tirx.Stmt]:
        """The product of the block's states, or of another operand, with the weights of some gates."""
        states = self.operand() if operand is None else operand
        return self.weight.product(
            gates,
            self.rows,
            lambda row, place: wide(element(states, row, place), self.weight.computed),
            self.sums,
        )

    def operand(self) -> tirx.Buffer:
        """What the weight is multiplied with, [rows of the block, hidden]."""
        return self.state[0]

    def row_at_step(self) -> list[tirx.Stmt]:
        """The state and the result of a sequence, behind the product."""
        cell = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.loop.cell]
        step = [*cell(), self._results(lambda column: self.state_at(0, column))]
        if not self.loop.has_lengths:
            return step
        nothing = self._results(lambda _column: tirx.FloatImm(self.loop.dtype, 0.0))
        is_inside = self.step < tirx.Cast(INDEX, element(self.lengths, self.row))
        return [tirx.IfThenElse(is_inside, together(step), nothing)]

    def _results(self, value: Column) -> tirx.Stmt:
        return columns_of(
            self.loop.hidden,
            lambda column: store(self.result, value(column), self.step, self.row, column),
        )

    # -- cells ------------------------------------------------------------------------------------

    def _lstm(self) -> list[tirx.Stmt]:
        """Gates in the order i, o, f, c."""
        gate, update, squash = self.functions

        def cell(column: PrimExpr) -> tirx.Stmt:
            before = self._state(1, column)
            i = gate(self._gate(0, column) + self._seen(0, before, column))
            f = (
                self._one() - i
                if self.loop.is_coupled
                else gate(self._gate(2, column) + self._seen(2, before, column))
            )
            after = f * before + i * update(self._gate(3, column))
            return self._set(1, after, column)

        def state(column: PrimExpr) -> tirx.Stmt:
            after = self._state(1, column)
            o = gate(self._gate(1, column) + self._seen(1, after, column))
            return self._set(0, o * squash(after), column)

        return [columns_of(self.loop.hidden, each) for each in (cell, state)]

    def _reset(self, column: PrimExpr) -> tirx.Stmt:
        """What a GRU keeps of the state in front of its second product."""
        gate = self.functions[0]
        return store(self.reset, gate(self._gate(1, column)) * self._state(0, column), self.place, column)

    def _gru(self) -> list[tirx.Stmt]:
        """Gates in the order z, r, h."""
        gate, update = self.functions

        def state(column: PrimExpr) -> tirx.Stmt:
            before, z = self._state(0, column), gate(self._gate(0, column))
            seen = self._sum(2, column)
            if self.loop.resets_behind:
                seen = gate(self._gate(1, column)) * seen
            new = update(self._given(2, column) + seen)
            return self._set(0, (self._one() - z) * new + z * before, column)

        return [columns_of(self.loop.hidden, state)]

    def _rnn(self) -> list[tirx.Stmt]:
        (update,) = self.functions
        return [
            columns_of(self.loop.hidden, lambda column: self._set(0, update(self._gate(0, column)), column))
        ]

    # -- parts of cells ---------------------------------------------------------------------------

    def _wide(self, value: PrimExpr) -> PrimExpr:
        return wide(value, self.computed)

    def _one(self) -> PrimExpr:
        return tirx.FloatImm(self.computed, 1.0)

    def _given(self, gate: int, column: PrimExpr) -> PrimExpr:
        """The input's part of a gate."""
        return self._wide(element(self.gates, self.step, self.row, column + gate * self.loop.hidden))

    def _sum(self, gate: int, column: PrimExpr) -> PrimExpr:
        """The state's part of a gate."""
        total = self.sum_of(gate, column)
        if not self.loop.has_bias:
            return total
        return total + self._wide(element(self.bias, column + gate * self.loop.hidden))

    def sum_of(self, gate: int, column: PrimExpr) -> PrimExpr:
        """A sum of the product."""
        return element(self.sums, self.place, column + gate * self.tiles * LANES)

    def _gate(self, gate: int, column: PrimExpr) -> PrimExpr:
        """Both parts of a gate."""
        return self._given(gate, column) + self._sum(gate, column)

    def _seen(self, peephole: int, cell: PrimExpr, column: PrimExpr) -> PrimExpr:
        """What a gate sees of the cell."""
        if not self.loop.has_peepholes:
            return tirx.FloatImm(self.computed, 0.0)
        return self._wide(element(self.peepholes, column + peephole * self.loop.hidden)) * cell

    def _state(self, number: int, column: PrimExpr) -> PrimExpr:
        return self._wide(self.state_at(number, column))

    def state_at(self, number: int, column: PrimExpr) -> PrimExpr:
        """An element of the state."""
        return element(self.state[number], self.state_place(), column)

    def state_place(self) -> PrimExpr:
        """Where the state of a sequence is."""
        return self.place

    def _set(self, number: int, value: PrimExpr, column: PrimExpr) -> tirx.Stmt:
        return store(self.state[number], value, self.state_place(), column)
