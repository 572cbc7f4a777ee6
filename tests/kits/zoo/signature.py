"""What a network of the zoo takes: named inputs whose extents may be symbols, and calls that bind these."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

__all__ = ["Extent", "Form", "Input", "Kind", "Sizes", "arrays", "forms_of"]

Extent = int | str
"""A number of elements, the symbol that stands for it, or a sum as ``"past + length"``."""

Sizes = Mapping[str, int]
"""The value of each symbol in one call."""


class Kind(Enum):
    """What an input holds."""

    NORMAL = "normal"
    """Normal numbers."""
    UNIT = "unit"
    """Numbers from zero up to one, as of a diffusion's time."""
    WORDS = "words"
    """Whole numbers below 32."""
    POSITIONS = "positions"
    """In each row the whole numbers that follow the symbol ``past``, less the padding of `SEEN`."""
    SEEN = "seen"
    """Ones and, in all rows but the first, a zero in front, as padding on the left leaves them (int64)."""
    EDGES = "edges"
    """Symmetric zeros and ones with ones on the diagonal: which nodes of a graph are neighbours."""

    @property
    def dtype(self) -> str:
        """The type of the elements."""
        return "int64" if self in (Kind.WORDS, Kind.POSITIONS, Kind.SEEN) else "float32"


@dataclass(frozen=True, slots=True)
class Input:
    """One input: its name, its extents, what it holds."""

    name: str
    shape: tuple[Extent, ...]
    kind: Kind = Kind.NORMAL

    def extents(self, sizes: Sizes) -> tuple[int, ...]:
        """The extents in one call."""
        known = self.known(sizes)
        return tuple(extent for extent in known if isinstance(extent, int))

    def known(self, bound: Sizes) -> tuple[Extent, ...]:
        """The extents as far as the symbols have values."""
        return tuple(_value(str(extent), bound) for extent in self.shape)


def _value(extent: str, bound: Sizes) -> Extent:
    terms = [str(bound.get(term, term)) for term in extent.split(" + ")]
    return sum(map(int, terms)) if all(map(str.isdigit, terms)) else " + ".join(terms)


@dataclass(frozen=True, slots=True)
class Form:
    """One way to import a network.

    Attributes
    ----------
    name
        Tells it from the network's other forms.
    bound
        The symbols whose values are known when it is imported; the others stay symbolic.
    calls
        The sizes that it is run with; all agree with `bound`.
    """

    name: str
    bound: Sizes
    calls: tuple[Sizes, ...]


def forms_of(*calls: Sizes) -> tuple[Form, ...]:
    """The usual forms: everything fixed to the first call, and every symbol free for all calls."""
    first = calls[0]
    fixed = Form("fixed", first, (first,))
    return (fixed, Form("symbolic", {}, calls)) if first else (fixed,)


def arrays(inputs: tuple[Input, ...], sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded values of all inputs, by name."""
    return {each.name: _values(each, sizes, seed) for each in inputs}


def _values(given: Input, sizes: Sizes, seed: int) -> np.ndarray:
    shape = given.extents(sizes)
    generator = np.random.default_rng([seed, zlib.crc32(given.name.encode())])
    match given.kind:
        case Kind.NORMAL:
            return generator.standard_normal(shape, dtype=np.float32)
        case Kind.UNIT:
            return generator.random(shape, dtype=np.float32)
        case Kind.WORDS:
            return generator.integers(0, 32, shape)
        case Kind.POSITIONS:
            padding = (np.arange(shape[0]) > 0).astype("int64")[:, None]
            return np.asarray(np.arange(shape[-1]) + sizes.get("past", 0) - padding)
        case Kind.SEEN:
            seen = np.ones(shape, "int64")
            seen[1:, :1] = 0
            return seen
        case Kind.EDGES:
            halves = generator.random(shape) < 0.3
            both = halves | np.swapaxes(halves, -1, -2) | np.eye(shape[-1], dtype=bool)
            return both.astype("float32")
