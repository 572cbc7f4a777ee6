"""`DynamicQuantizeLSTM` over sequences of any length: a loop whose product with the state is one of integers.

The state of all sequences of the batch is quantized at each step by its own range, so that the loop over the
steps is the outer one::

    for t in the direction's order:
        scale, zero = range(state)
        for b in batch:
            sums = (quantized(state[b]) - zero) @ weight
            state[b] = cell(gates[t, b], sums * scale * scales, state[b])

The weight is that of `RecurrentLoop` less its zero points, in int32, and is followed by the scale of each
column.
"""

from __future__ import annotations

from tvm import tirx

from annotated_region.importing.onnx_models.converters.recurrent_loops import (
    Column,
    LoopWriter,
    RecurrentLoop,
    columns_of,
    element,
    loop_of,
    number_of,
    store,
    together,
    whole_function,
)
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["quantized_loop"]


def quantized_loop(loop: RecurrentLoop) -> tirx.PrimFunc:
    """The function of a direction of an LSTM of float32, without lengths."""
    return _QuantizedLoopWriter(loop).function()


class _QuantizedLoopWriter(LoopWriter):
    """Writes the function of a loop of integers."""

    def __init__(self, loop: RecurrentLoop) -> None:
        super().__init__(loop)
        self.weight = tirx.decl_buffer((loop.hidden, self.width), "int32", "weight")
        self.scales = self.buffer("scales", (self.width,))
        self.whole_sums = tirx.decl_buffer((self.width,), "int32", "whole_sums")
        self.least, self.largest, self.scale, self.zero = (
            tirx.decl_buffer((1,), "float32", name) for name in ("least", "largest", "scale", "zero")
        )

    def function(self) -> tirx.PrimFunc:
        """The function."""
        peepholes = [self.peepholes] if self.loop.has_peepholes else []
        parameters = [
            self.gates,
            self.weight,
            self.scales,
            *peepholes,
            *self.initial,
            self.result,
            *self.last,
        ]
        own = (self.sums, self.whole_sums, self.least, self.largest, self.scale, self.zero)
        body = together(
            [
                *map(tirx.AllocBuffer, own),
                loop_of("first", self.batch, self._begin_row),
                loop_of("t", self.length, self._step_of_all),
            ]
        )
        return whole_function(parameters, body)

    def _begin_row(self, row: PrimExpr) -> tirx.Stmt:
        self.row = row
        return self.begin()

    def _step_of_all(self, number: PrimExpr) -> tirx.Stmt:
        """The range of the state, and one step of each sequence."""

        def step(row: PrimExpr) -> tirx.Stmt:
            self.row = row
            return self.at_step(number)

        return together([*self._range(), loop_of("b", self.batch, step)])

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

    def product(self, state: Column, first: int, last: int) -> list[tirx.Stmt]:
        """The product of the quantized state with the weight."""
        place = number_of(0)
        scale, zero = element(self.scale, place), element(self.zero, place)

        def begin(column: PrimExpr) -> tirx.Stmt:
            return store(self.whole_sums, tirx.IntImm("int32", 0), column + first)

        def add(row: PrimExpr) -> tirx.Stmt:
            byte = _within_bytes(tirx.nearbyint(state(row) / scale) + zero) - zero

            def summand(column: PrimExpr) -> tirx.Stmt:
                at = column + first
                product = tirx.Cast("int32", byte) * element(self.weight, row, at)
                return store(self.whole_sums, element(self.whole_sums, at) + product, at)

            return columns_of(last - first, summand)

        def scaled(column: PrimExpr) -> tirx.Stmt:
            at = column + first
            sums = tirx.Cast("float32", element(self.whole_sums, at))
            return store(self.sums, sums * (scale * element(self.scales, at)), at)

        return [
            columns_of(last - first, begin),
            loop_of("row", self.loop.hidden, add),
            columns_of(last - first, scaled),
        ]


def _single(number: float) -> PrimExpr:
    return tirx.FloatImm("float32", number)


def _within_bytes(value: PrimExpr) -> PrimExpr:
    """A number clipped to those of a byte."""
    return tirx.Min(tirx.Max(value, _single(0.0)), _single(255.0))
