"""Recurrent layers over sequences of any length: each direction is one loop of TVM.

Relax has no loops, and a sequence whose length only a call tells cannot be unrolled. The product with the
input is an op as always; what depends on the step before is a function::

    for b in batch:
        for t in the direction's order, while t is within sequence b:
            sums = state[b] @ weight
            state[b] = cell(gates[t, b], sums, state[b])
            result[t, b] = state[b]

Its parameters are the gates [length, batch, G * hidden], the weight [hidden, G * hidden], what a layer has of
a bias of the state [G * hidden], peepholes [3 * hidden] and lengths [batch], and the initial states [batch,
hidden]; its results are those of all steps [length, batch, hidden], and the last states. Half precision adds
up in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import tvm
from tvm import tirx

from annotated_region.tvm_adapter.nodes import BufferType, PrimExpr, SBlock, SBlockRealize
from annotated_region.tvm_adapter.types import expect

__all__ = [
    "LoopActivation",
    "LoopWriter",
    "RecurrentCell",
    "RecurrentLoop",
    "columns_of",
    "element",
    "loop_activation",
    "loop_of",
    "number_of",
    "store",
    "together",
    "whole_function",
]

LoopActivation: TypeAlias = Callable[[PrimExpr], PrimExpr]
RecurrentCell: TypeAlias = Literal["LSTM", "GRU", "RNN"]
Column: TypeAlias = Callable[[PrimExpr], PrimExpr]
"""The element of a row at a column."""

GATES: Mapping[RecurrentCell, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
_INDEX, _LANES = "int64", 16
"""The type of indices, and the columns that are added up at once where their number allows it."""
_ROWS = (8, 4, 1)
"""The rows of a weight that are added up at once: the most that divide their number."""

_ACTIVATIONS: Mapping[str, LoopActivation] = {
    "relu": lambda value: tirx.Max(value, tirx.FloatImm(_dtype_of(value), 0.0)),
    "sigmoid": tirx.sigmoid,
    "tanh": tirx.tanh,
}


def loop_activation(name: str) -> LoopActivation | None:
    """The function of a name of ONNX, in any case; None if loops do not compute it."""
    return _ACTIVATIONS.get(name.lower())


@dataclass(frozen=True, slots=True)
class RecurrentLoop:
    """One direction of a layer.

    Attributes
    ----------
    cell
        The operator.
    hidden
        The hidden size.
    dtype
        The data type of all tensors but the lengths.
    functions
        The activation functions, as ONNX lists them.
    is_reversed
        Whether it runs from the end to the start.
    has_bias
        Whether the state's product has a bias of its own: of a GRU that resets behind the product.
    resets_behind
        Whether a GRU resets behind the product (``linear_before_reset``).
    has_peepholes
        Whether there are peepholes, of an LSTM.
    has_lengths
        Whether the sequences have lengths of their own.
    """

    cell: RecurrentCell
    hidden: int
    dtype: str
    functions: Sequence[LoopActivation]
    is_reversed: bool
    has_bias: bool = False
    resets_behind: bool = False
    has_peepholes: bool = False
    has_lengths: bool = False

    @property
    def states(self) -> int:
        """The number of tensors in a state."""
        return 2 if self.cell == "LSTM" else 1

    def function(self) -> tirx.PrimFunc:
        """The loop as a function; see the module for its parameters."""
        return LoopWriter(self).function()


class LoopWriter:
    """Writes the function of a loop."""

    def __init__(self, loop: RecurrentLoop) -> None:
        self.loop = loop
        self.width = GATES[loop.cell] * loop.hidden
        self.computed = "float32" if loop.dtype == "float16" else loop.dtype
        self.length, self.batch = (tirx.Var(name, _INDEX) for name in ("length", "batch"))
        pair = (self.batch, loop.hidden)
        self.gates = self.buffer("gates", (self.length, self.batch, self.width))
        self.weight = self.buffer("weight", (loop.hidden, self.width))
        self.bias = self.buffer("bias", (self.width,))
        self.peepholes = self.buffer("peepholes", (3 * loop.hidden,))
        self.lengths = tirx.decl_buffer((self.batch,), "int32", "lengths")
        self.initial = [self.buffer(f"initial_{number}", pair) for number in range(loop.states)]
        self.result = self.buffer("result", (self.length, self.batch, loop.hidden))
        self.last = [self.buffer(f"last_{number}", pair) for number in range(loop.states)]
        self.sums = tirx.decl_buffer((self.width,), self.computed, "sums")
        self.reset = tirx.decl_buffer((loop.hidden,), self.computed, "reset")
        # Where the statements that are written compute.
        self.step: PrimExpr = number_of(0)
        self.row: PrimExpr = number_of(0)

    def buffer(self, name: str, shape: tuple[PrimExpr | int, ...]) -> tirx.Buffer:
        return tirx.decl_buffer(shape, self.loop.dtype, name)

    def function(self) -> tirx.PrimFunc:
        """The function."""
        loop = self.loop
        optional = {"bias": loop.has_bias, "peepholes": loop.has_peepholes, "lengths": loop.has_lengths}
        given = [getattr(self, name) for name, is_given in optional.items() if is_given]
        parameters = [self.gates, self.weight, *given, *self.initial, self.result, *self.last]
        return whole_function(parameters, loop_of("b", self.batch, self._sequence, tirx.ForKind.PARALLEL))

    def _sequence(self, row: PrimExpr) -> tirx.Stmt:
        """All steps of one sequence of the batch."""
        self.row = row
        return together(
            [
                tirx.AllocBuffer(self.sums),
                *([tirx.AllocBuffer(self.reset)] if self.loop.cell == "GRU" else []),
                self.begin(),
                loop_of("t", self.length, self.at_step),
            ]
        )

    def begin(self) -> tirx.Stmt:
        """The state before the first step."""
        pairs = list(zip(self.last, self.initial, strict=True))
        return columns_of(
            self.loop.hidden,
            lambda column: together(
                [store(last, element(first, self.row, column), self.row, column) for last, first in pairs]
            ),
        )

    def at_step(self, number: PrimExpr) -> tirx.Stmt:
        """One step: the state and the result; behind the end of a sequence the state stays."""
        self.step = self.length - 1 - number if self.loop.is_reversed else number
        cells = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}
        step = together(
            [*cells[self.loop.cell](), self._results(lambda column: element(self.last[0], self.row, column))]
        )
        if not self.loop.has_lengths:
            return step
        nothing = self._results(lambda _column: tirx.FloatImm(self.loop.dtype, 0.0))
        is_inside = self.step < tirx.Cast(_INDEX, element(self.lengths, self.row))
        return tirx.IfThenElse(is_inside, step, nothing)

    def _results(self, value: Column) -> tirx.Stmt:
        return columns_of(
            self.loop.hidden,
            lambda column: store(self.result, value(column), self.step, self.row, column),
        )

    # -- cells ------------------------------------------------------------------------------------

    def _lstm(self) -> list[tirx.Stmt]:
        """Gates in the order i, o, f, c."""
        gate, update, squash = self.loop.functions

        def cell(column: PrimExpr) -> tirx.Stmt:
            before = self._state(1, column)
            i, f = (gate(self._gate(each, column) + self._seen(each, before, column)) for each in (0, 2))
            after = f * before + i * update(self._gate(3, column))
            return self._set(1, after, column)

        def state(column: PrimExpr) -> tirx.Stmt:
            after = self._state(1, column)
            o = gate(self._gate(1, column) + self._seen(1, after, column))
            return self._set(0, o * squash(after), column)

        return [
            *self.product(lambda row: self._state(0, row), 0, self.width),
            columns_of(self.loop.hidden, cell),
            columns_of(self.loop.hidden, state),
        ]

    def _gru(self) -> list[tirx.Stmt]:
        """Gates in the order z, r, h."""
        gate, update = self.loop.functions
        border = 2 * self.loop.hidden

        def reset(column: PrimExpr) -> tirx.Stmt:
            return store(self.reset, gate(self._gate(1, column)) * self._state(0, column), column)

        def state(column: PrimExpr) -> tirx.Stmt:
            before, z = self._state(0, column), gate(self._gate(0, column))
            seen = self._sum(2, column)
            if self.loop.resets_behind:
                seen = gate(self._gate(1, column)) * seen
            new = update(self._given(2, column) + seen)
            return self._set(0, (tirx.FloatImm(self.computed, 1.0) - z) * new + z * before, column)

        if self.loop.resets_behind:
            product = self.product(lambda row: self._state(0, row), 0, self.width)
        else:
            product = [
                *self.product(lambda row: self._state(0, row), 0, border),
                columns_of(self.loop.hidden, reset),
                *self.product(lambda row: element(self.reset, row), border, self.width),
            ]
        return [*product, columns_of(self.loop.hidden, state)]

    def _rnn(self) -> list[tirx.Stmt]:
        (update,) = self.loop.functions
        return [
            *self.product(lambda row: self._state(0, row), 0, self.width),
            columns_of(self.loop.hidden, lambda column: self._set(0, update(self._gate(0, column)), column)),
        ]

    # -- parts of cells ---------------------------------------------------------------------------

    def product(self, state: Column, first: int, last: int) -> list[tirx.Stmt]:
        """The columns from `first` on, before `last`, of the product of a state with the weight."""

        def begin(column: PrimExpr) -> tirx.Stmt:
            place = column + first
            zero = tirx.FloatImm(self.computed, 0.0)
            return store(
                self.sums, self._wide(element(self.bias, place)) if self.loop.has_bias else zero, place
            )

        def summand(row: PrimExpr, place: PrimExpr) -> PrimExpr:
            return state(row) * self._wide(element(self.weight, row, place))

        def add(first_row: PrimExpr, count: int) -> tirx.Stmt:
            def sum_up(column: PrimExpr) -> tirx.Stmt:
                place = column + first
                total = element(self.sums, place)
                for number in range(count):
                    total = total + summand(first_row + number, place)
                return store(self.sums, total, place)

            return columns_of(last - first, sum_up)

        # Several rows at once, because the sums are read and written for each of them otherwise.
        count = next(each for each in _ROWS if self.loop.hidden % each == 0)
        rows = loop_of("rows", self.loop.hidden // count, lambda number: add(number * count, count))
        return [columns_of(last - first, begin), rows]

    def _wide(self, value: PrimExpr) -> PrimExpr:
        return value if self.computed == self.loop.dtype else tirx.Cast(self.computed, value)

    def _given(self, gate: int, column: PrimExpr) -> PrimExpr:
        """The input's part of a gate."""
        return self._wide(element(self.gates, self.step, self.row, column + gate * self.loop.hidden))

    def _sum(self, gate: int, column: PrimExpr) -> PrimExpr:
        """The state's part of a gate."""
        return element(self.sums, column + gate * self.loop.hidden)

    def _gate(self, gate: int, column: PrimExpr) -> PrimExpr:
        """Both parts of a gate."""
        return self._given(gate, column) + self._sum(gate, column)

    def _seen(self, peephole: int, cell: PrimExpr, column: PrimExpr) -> PrimExpr:
        """What a gate sees of the cell."""
        if not self.loop.has_peepholes:
            return tirx.FloatImm(self.computed, 0.0)
        return self._wide(element(self.peepholes, column + peephole * self.loop.hidden)) * cell

    def _state(self, number: int, column: PrimExpr) -> PrimExpr:
        return self._wide(element(self.last[number], self.row, column))

    def _set(self, number: int, value: PrimExpr, column: PrimExpr) -> tirx.Stmt:
        return store(self.last[number], value, self.row, column)


def whole_function(parameters: Sequence[tirx.Buffer], body: tirx.Stmt) -> tirx.PrimFunc:
    """A function of tensors that share no memory."""
    whole = SBlockRealize([], True, SBlock([], [], [], "root", body))
    return tirx.PrimFunc(list(parameters), whole).with_attr("tirx.noalias", True)


def element(buffer: tirx.Buffer, *places: PrimExpr) -> PrimExpr:
    return tirx.BufferLoad(buffer, list(places))


def _dtype_of(value: PrimExpr) -> str:
    return str(expect(tvm.ir.PrimType, value.ty).dtype)


def store(buffer: tirx.Buffer, value: PrimExpr, *places: PrimExpr) -> tirx.Stmt:
    wanted, found = str(expect(BufferType, buffer.ty).dtype), _dtype_of(value)
    return tirx.BufferStore(buffer, value if wanted == found else tirx.Cast(wanted, value), list(places))


def together(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def loop_of(
    name: str,
    extent: PrimExpr | int,
    body: Callable[[PrimExpr], tirx.Stmt],
    kind: tirx.ForKind = tirx.ForKind.SERIAL,
) -> tirx.Stmt:
    index = tirx.Var(name, _INDEX)
    return tirx.For(index, number_of(0), number_of(extent), kind, body(index))


def number_of(extent: PrimExpr | int) -> PrimExpr:
    return tirx.IntImm(_INDEX, extent) if isinstance(extent, int) else extent


def columns_of(count: int, body: Callable[[PrimExpr], tirx.Stmt]) -> tirx.Stmt:
    """A loop over columns, by vectors if their number allows it."""
    if count % _LANES:
        return loop_of("column", count, body)

    def vector(first: PrimExpr) -> tirx.Stmt:
        return loop_of("lane", _LANES, lambda lane: body(first * _LANES + lane), tirx.ForKind.VECTORIZED)

    return loop_of("vector", count // _LANES, vector)
