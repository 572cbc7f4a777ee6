"""The layout of 8-bit and 4-bit weights in the library: the order in which the runtime's kernels read them.

The C++ side is `runtime/packed_weights.h`, which has a drawing of the layout.
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
    """The integers in a constant, one or several per byte.

    Attributes
    ----------
    name
        The constant, uint8 or int8.
    bits
        The bits of each integer: 8, or 4 if a byte contains two, the first in the lower bits.
    signed
        Whether the constant is int8.
    """

    name: str
    bits: int
    signed: bool = False

    def value(self, lookup: Lookup) -> np.ndarray:
        """The integers of each row of the constant."""
        array = lookup(self.name)
        if self.bits == 8:
            return array
        return np.stack([array & 15, array >> 4], axis=-1).reshape(*array.shape[:-1], -1)


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A constant computed during code generation: a weight with scales and zero points per group.

    An element represents ``(word - zero) * scale``, with the zero point and the scale of its group.

    Attributes
    ----------
    words
        The integers by group: all groups of the first column, then those of the next.
    scales
        The name of the constant with one float per group.
    zeros
        A common zero point, or the name of the constant with one per group.
    depth, columns
        The extents of the weight; the last group of a column may extend beyond its depth.
    group
        The number of rows of a group.
    halves
        Whether scales and zero points are stored as float16, which then holds all of them exactly.
    """

    words: Words
    scales: str
    zeros: int | str
    depth: int
    columns: int
    group: int
    halves: bool = False

    @property
    def bits(self) -> int:
        """The bits of a stored element."""
        return self.words.bits

    @property
    def groups(self) -> int:
        """The number of groups of a column."""
        return -(-self.depth // self.group)

    @property
    def stored_group(self) -> int:
        """The number of stored rows of a group, including zero padding to whole words."""
        each = WORD // self.bits
        return -(-self.group // each) * each

    @property
    def middle(self) -> int:
        """The number subtracted from each element before it is stored, which makes it signed."""
        return 0 if self.words.signed else 1 << (self.bits - 1)

    @property
    def has_zeros(self) -> bool:
        """Whether zero points are stored along with the scales."""
        return self.zeros != self.middle

    @property
    def size(self) -> int:
        """The size in bytes."""
        tiles = -(-self.columns // TILE)
        words = self.stored_group * self.bits // 8
        return tiles * self.groups * TILE * (words + (1 + self.has_zeros) * (2 if self.halves else 4))

    def value(self, lookup: Lookup) -> np.ndarray:
        """The content as bytes."""
        words = self.words.value(lookup).reshape(self.columns, self.groups, self.group)
        parts = [self._tiled(each) for each in self._factors(lookup)]
        parts.append(self._stored(words.astype(np.int16) - self.middle))
        return np.concatenate([_bytes(part) for part in parts], axis=2).reshape(-1)

    def fits_halves(self, lookup: Lookup) -> bool:
        """Whether float16 holds all scales and zero points exactly, as they are stored."""
        with np.errstate(over="ignore"):
            return all((each.astype(np.float16) == each).all() for each in self._factors(lookup))

    def _factors(self, lookup: Lookup) -> list[np.ndarray]:
        """The scales, and the zero points that are stored, [columns, groups]."""
        scales = self._scales(lookup)
        return [scales, self._zeros(lookup) - np.float32(self.middle)] if self.has_zeros else [scales]

    def _scales(self, lookup: Lookup) -> np.ndarray:
        return lookup(self.scales).reshape(self.columns, self.groups).astype(np.float32)

    def _zeros(self, lookup: Lookup) -> np.ndarray:
        if isinstance(self.zeros, int):
            return np.full((self.columns, self.groups), self.zeros, np.float32)
        return lookup(self.zeros).reshape(self.columns, self.groups).astype(np.float32)

    def _tiled(self, numbers: np.ndarray) -> np.ndarray:
        """Floats [columns, groups] as they are stored: [tiles, groups, 1, columns of a tile]."""
        return _in_tiles(numbers.astype(np.float16 if self.halves else np.float32)[..., None])

    def _stored(self, numbers: np.ndarray) -> np.ndarray:
        """Integers [columns, groups, rows] as words [tiles, groups, words of a column, columns of a tile]."""
        each = WORD // self.bits
        widths = [(0, 0), (0, 0), (0, self.stored_group - self.group)]
        rows = np.pad(numbers, widths).reshape(*numbers.shape[:2], -1, each)
        words = np.zeros(rows.shape[:3], np.uint32)
        for item in range(each):
            part = rows[..., item].astype(np.uint32) & np.uint32((1 << self.bits) - 1)
            words |= part << np.uint32(item * self.bits)
        return _in_tiles(words)


def _bytes(part: np.ndarray) -> np.ndarray:
    """[tiles, groups, n, columns of a tile] of any type as bytes [tiles, groups, bytes of a group]."""
    return np.ascontiguousarray(part).view(np.uint8).reshape(*part.shape[:2], -1)


def _in_tiles(words: np.ndarray) -> np.ndarray:
    """Numbers [columns, groups, n] as [tiles, groups, n, columns of a tile]; missing columns are zero."""
    columns = -(-len(words) // TILE) * TILE
    padded = np.pad(words, [(0, columns - len(words)), (0, 0), (0, 0)])
    return np.asarray(padded.reshape(-1, TILE, *words.shape[1:]).transpose(0, 2, 3, 1))
