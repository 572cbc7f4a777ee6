"""`DynamicQuantizeLSTM` over sequences of any length: a loop whose product with the state is one of integers.

The state of all sequences of the batch is quantized at each step by its own range, so that the loop over the
steps is the outer one::

    for t in the direction's order:
        scale, zero = range(state)
        for block of sequences in batch:
            sums = (quantized(state[block]) - zero) @ weight
            for b in block:
                state[b] = cell(gates[t, b], sums[b] * scale * scales, state[b])

The weight is that of `RecurrentLoop` less its zero points, in int32, and is followed by the scale of each
column.
"""

from __future__ import annotations

from functools import partial

from tvm import tirx

from annotated_region.recurrent_loops.loop import RecurrentLoop
from annotated_region.recurrent_loops.products import by_blocks
from annotated_region.recurrent_loops.statements import (
    columns_of,
    element,
    loop_of,
    number_of,
    store,
    together,
    whole_function,
)
from annotated_region.recurrent_loops.writer import LoopWriter
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["quantized_loop"]


def quantized_loop(loop: RecurrentLoop) -> tirx.PrimFunc:
    """The function of a direction of an LSTM of float32, without lengths."""
    return _QuantizedLoopWriter(loop).function()


class _QuantizedLoopWriter(LoopWriter):
    """Writes the function of a loop of integers."""

    def __init__(self, loop: RecurrentLoop) -> None:
        super().__init__(loop)
        self.weight = self.tiled_weight("int32", "int32")
        self.scales = self.buffer("scales", (4 * loop.hidden,))
        self.least, self.largest, self.scale, self.zero = (
            tirx.decl_buffer((1,), "float32", name) for name in ("least", "largest", "scale", "zero")
        )

    def begin_block(self, rows: int) -> None:
        """The state of all sequences is in the results, for the range of each step."""
        super().begin_block(rows)
        self.state = self.last
        self.levels = tirx.decl_buffer((rows, self.loop.hidden), "int32", "levels")

    def state_place(self) -> PrimExpr:
        """Where the state of a sequence is."""
        return self.row

    def function(self) -> tirx.PrimFunc:
        """The function."""
        body = together(
            [
                *map(tirx.AllocBuffer, (self.least, self.largest, self.scale, self.zero)),
                by_blocks(self.batch, self._steps),
            ]
        )
        return whole_function(self.parameters(), body)

    def parameters(self) -> list[tirx.Buffer]:
        """Those of a loop of floats; the scales follow the weight."""
        gates, weight, *others = super().parameters()
        return [gates, weight, self.scales, *others]

    def _steps(self, rows: int) -> tirx.Stmt:
        """All steps, in blocks of so many sequences."""
        self.begin_block(rows)

        def begin(row: PrimExpr) -> tirx.Stmt:
            self.row = self.place = row
            return self.copied(self.initial, is_into_block=True)

        def step(number: PrimExpr) -> tirx.Stmt:
            blocks = loop_of("block", self.blocks_of(rows), partial(self.at_step, number=number))
            return together([*self._range(), blocks])

        return together(
            [
                *map(tirx.AllocBuffer, (self.sums, self.levels)),
                loop_of("first", self.batch, begin),
                loop_of("t", self.length, step),
            ]
        )

    def at_step(self, block: PrimExpr, number: PrimExpr) -> tirx.Stmt:
        """A step of a block, whose quantized state is computed first."""
        return together([self.each_row(block, self._quantized), super().at_step(block, number)])

    def row_at_step(self) -> list[tirx.Stmt]:
        """The state of a sequence, which a block that lacks one leaves as it is."""
        return [tirx.IfThenElse(self.is_within, together(super().row_at_step()), None)]

    def _quantized(self) -> list[tirx.Stmt]:
        scale, zero = (element(each, 0) for each in (self.scale, self.zero))

        def level(column: PrimExpr) -> tirx.Stmt:
            value = element(self.last[0], self.row, column)
            byte = _within_bytes(tirx.nearbyint(value / scale) + zero) - zero
            return store(self.levels, byte, self.place, column)

        return [columns_of(self.loop.hidden, level)]

    def operand(self) -> tirx.Buffer:
        return self.levels

    def sum_of(self, gate: int, column: PrimExpr) -> PrimExpr:
        """A sum of the product of integers, in its unit."""
        sums = tirx.Cast("float32", super().sum_of(gate, column))
        return sums * (element(self.scale, 0) * element(self.scales, column + gate * self.loop.hidden))

    def _range(self) -> list[tirx.Stmt]:
        """The scale and the zero point of the state, whose range includes 0; the scale of zeros is 1."""
        nothing, first = _single(0.0), number_of(0)

        def seen(row: PrimExpr, column: PrimExpr) -> tirx.Stmt:
            value = element(self.last[0], row, column)
            return together(
                [
                    store(self.least, tirx.Min(element(self.least, first), value), first),
                    store(self.largest, tirx.Max(element(self.largest, first), value), first),
                ]
            )

        least, largest, scale = (element(each, first) for each in (self.least, self.largest, self.scale))
        quantum = (largest - least) / _single(255.0)
        return [
            *(store(each, nothing, first) for each in (self.least, self.largest)),
            loop_of(
                "r", self.batch, lambda row: loop_of("c", self.loop.hidden, lambda column: seen(row, column))
            ),
            store(self.scale, tirx.Select(tirx.EQ(largest, least), _single(1.0), quantum), first),
            store(self.zero, tirx.nearbyint(_within_bytes(nothing - least / scale)), first),
        ]


def _single(number: float) -> PrimExpr:
    return tirx.FloatImm("float32", number)


def _within_bytes(value: PrimExpr) -> PrimExpr:
    """A number clipped to those of a byte."""
    return tirx.Min(tirx.Max(value, _single(0.0)), _single(255.0))
