"""The product with the state in a loop over a sequence: a block of rows by a weight that lies in tiles.

A weight is larger than what a core keeps at hand, and every step reads all of it. So a block of several
sequences reads it together, and it lies in the order in which it is read: tiles of as many columns as are
computed at once, [tiles, hidden, lanes], each with all rows. The columns of each gate are filled up to whole
tiles. The sums of a tile are kept in registers, which is what the blocks' sizes are for: the idea, and the
name of a tile, are those of the micro-kernel of Goto and van de Geijn's *Anatomy of High-Performance Matrix
Multiplication* (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tvm import relax, tirx

from annotated_region.recurrent_loops.loop import LANES, tiles_of
from annotated_region.recurrent_loops.statements import (
    element,
    loop_of,
    number_of,
    store,
    together,
    wide,
)
from annotated_region.tvm_adapter.nodes import PrimExpr
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["TiledWeight", "by_blocks", "tiled"]

BLOCKS = (1, 2, 4)
"""The sequences of a block: one, two of up to four (so that two threads share four), four of more."""

StateOf: TypeAlias = Callable[[int, PrimExpr], PrimExpr]
"""The element of a state of a block, by its number and its place."""

_VECTORS = 2
"""The least vectors of sums at once; a sequence alone has as many tiles."""


def tiled(
    weight: relax.Expr, gates: int, hidden: int, emit: Callable[[relax.Expr], relax.Expr]
) -> relax.Expr:
    """A weight [gates * hidden, hidden] as [gates * tiles, hidden, lanes]."""
    tiles, dtype = tiles_of(hidden), str(tensor_type(weight).dtype)
    whole = emit(relax.op.reshape(weight, relax.ShapeExpr([gates, hidden, hidden])))
    missing = tiles * LANES - hidden
    if missing:
        nothing = emit(relax.op.zeros(relax.ShapeExpr([gates, missing, hidden]), dtype))
        whole = emit(relax.op.concat([whole, nothing], 1))
    whole = emit(relax.op.reshape(whole, relax.ShapeExpr([gates * tiles, LANES, hidden])))
    return emit(relax.op.permute_dims(whole, [0, 2, 1]))


def by_blocks(batch: PrimExpr, block: Callable[[int], tirx.Stmt]) -> tirx.Stmt:
    """A statement for all sequences of a batch; `block` writes it for blocks of so many."""
    one, few, many = BLOCKS
    is_few = batch <= number_of(many)
    return tirx.IfThenElse(
        batch <= number_of(one), block(one), tirx.IfThenElse(is_few, block(few), block(many))
    )


@dataclass(frozen=True, slots=True)
class TiledWeight:
    """The weight of a loop.

    Attributes
    ----------
    buffer
        Its tiles, [gates * tiles, hidden, lanes].
    hidden
        The number of its rows, and of the columns of each gate.
    computed
        The data type of the sums.
    """

    buffer: tirx.Buffer
    hidden: int
    computed: str

    def product(self, gates: Sequence[int], rows: int, state: StateOf, sums: tirx.Buffer) -> list[tirx.Stmt]:
        """The product of a block's states with the columns of some gates, which follow each other.

        Parameters
        ----------
        gates
            The gates.
        rows
            The number of states.
        state
            The element of a state, by its number and the place, in the data type of the sums.
        sums
            The result, [rows, gates * tiles * lanes].
        """
        tiles = tiles_of(self.hidden)
        first, count = gates[0] * tiles, len(gates) * tiles
        width = max(1, _VECTORS // rows)
        whole, rest = divmod(count, width)
        parts = [(whole, width, first), (rest, 1, first + whole * width)]
        return [
            loop_of("tile", times, partial(self._tiles, each, begin, rows, state, sums))
            for times, each, begin in parts
            if times
        ]

    def _tiles(
        self,
        count: int,
        begin_at: int,
        rows: int,
        state: StateOf,
        sums: tirx.Buffer,
        number: PrimExpr,
    ) -> tirx.Stmt:
        """The sums of `count` tiles, of which the first of the first number is `begin_at`."""
        first = number * count + begin_at
        total = tirx.decl_buffer((rows * count, LANES), self.computed, "total", scope="local")

        def each(made: Callable[[int, int, int, PrimExpr], tirx.Stmt]) -> list[tirx.Stmt]:
            """A statement for each vector: its number, its state, its tile, its lane."""
            return [
                loop_of("lane", LANES, partial(made, number, *divmod(number, count)), tirx.ForKind.VECTORIZED)
                for number in range(rows * count)
            ]

        def begin(number: int, _row: int, _tile: int, lane: PrimExpr) -> tirx.Stmt:
            return store(total, tirx.const(0, self.computed), number, lane)

        def end(number: int, row: int, tile: int, lane: PrimExpr) -> tirx.Stmt:
            return store(sums, element(total, number, lane), row, (first + tile) * LANES + lane)

        def add(place: PrimExpr) -> tirx.Stmt:
            def summand(number: int, row: int, tile: int, lane: PrimExpr) -> tirx.Stmt:
                weight = element(self.buffer, first + tile, place, lane)
                product = state(row, place) * wide(weight, self.computed)
                return store(total, element(total, number, lane) + product, number, lane)

            return together(each(summand))

        return together([tirx.AllocBuffer(total), *each(begin), loop_of("row", self.hidden, add), *each(end)])
