"""How weights of 8 or 4 bits lie in the library: in the order in which the runtime's products read them.

The runtime's side of this is `runtime/packed_weights.h`, which draws the layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["PackedWeight", "Words"]

TILE = 64
WORD = 32
Lookup = Callable[[str], np.ndarray]


@dataclass(frozen=True, slots=True)
class Words:
    """Whole numbers that a constant holds, one in each byte or several.

    Attributes
    ----------
    name
        The constant, of uint8 or int8.
    bits
        Of each number: 8, or 4 where a byte holds two, the first in the lower bits.
    signed
        Whether the constant is of int8.
    """

    name: str
    bits: int
    signed: bool = False

    def value(self, lookup: Lookup) -> np.ndarray:
        """The numbers of each row of the constant."""
        array = lookup(self.name)
        if self.bits == 8:
            return array
        return np.stack([array & 15, array >> 4], axis=-1).reshape(*array.shape[:-1], -1)


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A constant that is made when the code is generated: a weight with scales and zero points of its groups.

    An element stands for ``(word - zero) * scale``, with the zero point and the scale of its group.

    Attributes
    ----------
    words
        The whole numbers, group by group: those of the first column, then those of the next.
    scales
        The name of the constant with one float for each group.
    zeros
        One number for all groups, or the name of the constant with one for each group.
    depth, columns
        The extents of the weight; the last group of a column may reach beyond its depth.
    group
        How many rows a group has.
    """

    words: Words
    scales: str
    zeros: int | str
    depth: int
    columns: int
    group: int

    @property
    def bits(self) -> int:
        """Of a weight, as it is stored."""
        return self.words.bits

    @property
    def groups(self) -> int:
        """How many groups a column has."""
        return -(-self.depth // self.group)

    @property
    def stored_group(self) -> int:
        """The rows of a group with those that fill its last word; they are zero."""
        each = WORD // self.bits
        return -(-self.group // each) * each

    @property
    def middle(self) -> int:
        """What is taken from each number before it is stored, so that it has a sign."""
        return 0 if self.words.signed else 1 << (self.bits - 1)

    @property
    def has_zeros(self) -> bool:
        """Whether zero points are stored beside the scales."""
        return self.zeros != self.middle

    @property
    def size(self) -> int:
        """The bytes of the whole."""
        tiles = -(-self.columns // TILE)
        words = self.stored_group * self.bits // WORD
        return tiles * self.groups * TILE * (words + 1 + self.has_zeros) * 4

    def value(self, lookup: Lookup) -> np.ndarray:
        """The bytes."""
        words = self.words.value(lookup).reshape(self.columns, self.groups, self.group)
        parts = [self._tiled(self._scales(lookup))]
        if self.has_zeros:
            parts.append(self._tiled(self._zeros(lookup) - np.float32(self.middle)))
        parts.append(self._stored(words.astype(np.int16) - self.middle))
        return np.ascontiguousarray(np.concatenate(parts, axis=2)).view(np.uint8).reshape(-1)

    def _scales(self, lookup: Lookup) -> np.ndarray:
        return lookup(self.scales).reshape(self.columns, self.groups).astype(np.float32)

    def _zeros(self, lookup: Lookup) -> np.ndarray:
        if isinstance(self.zeros, int):
            return np.full((self.columns, self.groups), self.zeros, np.float32)
        return lookup(self.zeros).reshape(self.columns, self.groups).astype(np.float32)

    def _tiled(self, numbers: np.ndarray) -> np.ndarray:
        """Floats [columns, groups] as words [tiles, groups, 1, columns of a tile]."""
        return _in_tiles(numbers.view(np.uint32)[..., None])

    def _stored(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers [columns, groups, rows] as words [tiles, groups, words of a column, columns of a tile]."""
        each = WORD // self.bits
        widths = [(0, 0), (0, 0), (0, self.stored_group - self.group)]
        rows = np.pad(numbers, widths).reshape(*numbers.shape[:2], -1, each)
        words = np.zeros(rows.shape[:3], np.uint32)
        for item in range(each):
            part = rows[..., item].astype(np.uint32) & np.uint32((1 << self.bits) - 1)
            words |= part << np.uint32(item * self.bits)
        return _in_tiles(words)


def _in_tiles(words: np.ndarray) -> np.ndarray:
    """Words [columns, groups, n] as [tiles, groups, n, columns of a tile]; missing columns are zero."""
    columns = -(-len(words) // TILE) * TILE
    padded = np.pad(words, [(0, columns - len(words)), (0, 0), (0, 0)])
    return np.asarray(padded.reshape(-1, TILE, *words.shape[1:]).transpose(0, 2, 3, 1))
