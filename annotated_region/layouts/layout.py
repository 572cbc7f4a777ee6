"""Layout: the order and blocks in which the elements of a tensor are stored.

A layout is relative to the tensor's axes. Each stored axis is a piece of one of them:

    NCHW -> NHWC       (0) (2) (3) (1)              axis 1 goes last
    NCHW -> NCHW4c     (0) (1: 4..) (2) (3) (1: ..4)   index // 4 and index % 4 of axis 1
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeAlias

from tvm import relax

__all__ = ["Extent", "Layout", "Piece", "extent_of", "merged", "product", "split"]

Extent: TypeAlias = int | relax.Expr
"""The extent of an axis: a number, or an expression where the shape is symbolic."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of digits of the index along one axis: ``index // low % (high // low)``.

    The index is a mixed-radix number. With blocks of 4 it has two digits, ``index // 4`` (low 4, no high) and
    ``index % 4`` (low 1, high 4).

    Attributes
    ----------
    axis
        The axis of the tensor.
    low
        The place value of the lowest digit.
    high
        The place value of the digit above the highest; None if the piece includes the most significant digit.
    """

    axis: int
    low: int = 1
    high: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the piece is the whole axis."""
        return self.low == 1 and self.high is None


@dataclass(frozen=True, slots=True)
class Layout:
    """The pieces of a tensor's axes in storage order.

    Attributes
    ----------
    pieces
        The pieces.
    joined
        The number of pieces that form each stored axis; None if it is one each.
    """

    pieces: tuple[Piece, ...]
    joined: tuple[int, ...] | None = None

    @staticmethod
    def of_order(order: Sequence[int]) -> Layout:
        """The layout of ``permute_dims(tensor, order)``."""
        return Layout(tuple(map(Piece, order)))

    @staticmethod
    def between(old: str, new: str) -> Layout | None:
        """The layout that converts one named layout to another, such as NCHW to NHWC or NCHW8c.

        None if the axes differ, or `old` has blocks.
        """
        tokens = re.findall(r"([A-Z])|(\d+)([a-z])", new)
        blocks = {letter.upper(): int(size) for _, size, letter in tokens if letter}
        letters = [axis for axis, _, _ in tokens if axis]
        plain = "".join(f"{axis}{size}{letter}" for axis, size, letter in tokens) == new
        if not plain or sorted(letters) != sorted(old) or not set(blocks) <= set(old):
            return None
        if len(letters) + len(blocks) != len(tokens) or 0 in blocks.values():
            return None
        return Layout(
            tuple(
                Piece(old.index(axis), blocks.get(axis, 1)) if axis else _block(old, letter, int(size))
                for axis, size, letter in tokens
            )
        )

    @property
    def rank(self) -> int:
        """The rank of the tensor."""
        return sum(piece.high is None for piece in self.pieces)

    @property
    def order(self) -> tuple[int, ...] | None:
        """The axes in storage order; None if there are blocks."""
        plain = self.joined is None and all(piece.is_whole for piece in self.pieces)
        return tuple(piece.axis for piece in self.pieces) if plain else None

    @property
    def is_identity(self) -> bool:
        """Whether the layout is the tensor's own."""
        return self.order == tuple(range(len(self.pieces)))

    def position(self, axis: int) -> int | None:
        """The stored position of an axis, which may be negative; None if it is split into blocks."""
        whole = Piece(axis % self.rank)
        return self.pieces.index(whole) if whole in self.pieces else None

    def positions(self, axes: Sequence[int]) -> tuple[int, ...] | None:
        """The stored positions of several axes; None if one of them is split into blocks."""
        found = [self.position(axis) for axis in axes]
        return None if None in found else tuple(index for index in found if index is not None)

    def letters(self, old: str) -> str:
        """The name of the layout, where `old` names the tensor's own axes."""
        return "".join(
            old[piece.axis] if piece.high is None else f"{piece.high}{old[piece.axis].lower()}"
            for piece in self.pieces
        )

    def shape(self, extents: Sequence[Extent]) -> tuple[Extent, ...] | None:
        """The stored shape; None if an extent is not a multiple of its block.

        Pieces of an axis of extent 1 have extent 1, so that it can be broadcast.
        """
        found = [_extent(piece, extents[piece.axis]) for piece in self.pieces]
        shape = tuple(extent for extent in found if extent is not None)
        if len(shape) < len(found):
            return None
        if self.joined is None:
            return shape
        ends = accumulate(self.joined, initial=0)
        return tuple(product(shape[first:end]) for first, end in pairwise(ends))

    def without(self, axes: Sequence[int]) -> Layout:
        """The layout of the tensor without some of its axes."""
        kept = [axis for axis in range(self.rank) if axis not in axes]
        pieces = (piece for piece in self.pieces if piece.axis not in axes)
        return Layout(tuple(Piece(kept.index(piece.axis), piece.low, piece.high) for piece in pieces))

    def with_first(self, axis: int) -> Layout:
        """The layout of the tensor with one more axis, which is stored first."""
        moved = (Piece(p.axis + (p.axis >= axis), p.low, p.high) for p in self.pieces)
        return Layout((Piece(axis), *moved))


def merged(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The same digits in the fewest pieces: ``index // 4`` followed by ``index % 4`` is ``index``."""
    runs: list[Piece] = []
    for piece in pieces:
        if runs and runs[-1].axis == piece.axis and runs[-1].low == piece.high:
            runs[-1] = Piece(piece.axis, piece.low, runs[-1].high)
        else:
            runs.append(piece)
    return tuple(runs)


def split(pieces: Sequence[Piece]) -> Callable[[Piece], tuple[Piece, ...]] | None:
    """A function that splits a piece wherever one of `pieces` begins; None if the boundaries do not nest."""
    cuts: dict[int, list[int]] = {}
    for piece in pieces:
        cuts.setdefault(piece.axis, []).append(piece.low)
    weights = {axis: sorted(set(lows)) for axis, lows in cuts.items()}
    if any(high % low for lows in weights.values() for low, high in pairwise(lows)):
        return None

    def parts(piece: Piece) -> tuple[Piece, ...]:
        inside = (w for w in weights[piece.axis] if w >= piece.low and w < (piece.high or math.inf))
        bounds = pairwise([*inside, piece.high])
        return tuple(Piece(piece.axis, low, high) for low, high in bounds if low)[::-1]

    return parts


def product(extents: Iterable[Extent]) -> Extent:
    """The product of some extents."""
    whole: Extent = 1
    for extent in extents:
        whole = whole * extent
    return whole


def extent_of(piece: Piece, extent: Extent) -> Extent:
    """The extent of a piece of an axis whose extent is a multiple of its blocks."""
    if piece.is_whole:
        return extent
    return extent // piece.low if piece.high is None else piece.high // piece.low


def _block(old: str, letter: str, size: int) -> Piece:
    return Piece(old.index(letter.upper()), 1, size)


def _extent(piece: Piece, extent: Extent) -> Extent | None:
    if piece.is_whole or not isinstance(extent, int):
        return extent if piece.is_whole else None
    if extent == 1:
        return 1
    return None if extent % (piece.high or piece.low) else extent_of(piece, extent)
