r"""The discrete half of a partial placement: the locations of live values, and the order of regions.

A `PlacementShape` is the part of the placed prefix that affects the rest: for each live slot,
the location of its value (`Stand`); the *open* regions, which a later node may still join (`OpenRegion`); the
started but incomplete composites. Bit sets contain open regions by their indices in the shape.

The quotient graph stays acyclic because a node joins a region only if that region does not precede any value
that the node reads from elsewhere. `before` is transitively closed, so the test is one bit. Regions that no
later node can join are removed: two prefixes that agree on the rest have the same continuations.

        A1   A2       A1 in region 0.  X reads A1 on the host: region 0 comes before X.
        | \ / |       B1 reads A1 and X; may B1 join region 0?  Region 0 comes before X: no.
        X  \/  Y
        | /  \ |
        B1    B2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from annotated_region.ids import Place, UnitId

__all__ = [
    "HOST",
    "Choice",
    "OpenRegion",
    "PlacementShape",
    "PlacementShapes",
    "Stand",
    "open_regions",
]

HOST: Final = -1
"""In place of a region: the host; for a value, also a region that no later node can join."""


class Stand(NamedTuple):
    """The location of a live value.

    Attributes
    ----------
    place
        The place that holds it; the host for a parameter.
    region
        The open region that defines it; `HOST` if there is none.
    before
        If no open region defines it, the open regions that precede it, as a bit set. Otherwise 0: see
        `OpenRegion.before` of its region.
    """

    place: Place
    region: int
    before: int


class OpenRegion(NamedTuple):
    """A region that a later node may join.

    Attributes
    ----------
    place
        Its target.
    before
        The open regions that come before it, as a bit set.
    """

    place: Place
    before: int


class Choice(NamedTuple):
    """The unit and the region of a node.

    Attributes
    ----------
    unit
        The unit.
    region
        The region that it joins: an index of an open region, their count for a new region, or `HOST`.
    """

    unit: UnitId
    region: int


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class PlacementShape:
    """The discrete half of a partial placement; interned by `PlacementShapes`, which alone creates them.

    Searches look shapes up many times for each label, so interning makes comparison and hashing by identity
    valid.

    Attributes
    ----------
    stands
        The locations of the values in the live slots.
    regions
        The open regions, numbered by their first appearance in `stands` and `pending`, then by place.
    pending
        The started but incomplete composites, with their regions.
    """

    stands: tuple[Stand, ...]
    regions: tuple[OpenRegion, ...]
    pending: tuple[Choice, ...]


class PlacementShapes:
    """The interned shapes of one search, held by weak references."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[object, ...], PlacementShape] = WeakValueDictionary()
        self.empty = self.of((), (), ())

    def of(
        self, stands: tuple[Stand, ...], regions: tuple[OpenRegion, ...], pending: tuple[Choice, ...]
    ) -> PlacementShape:
        """The shape with these attributes."""
        key = (stands, regions, pending)
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = PlacementShape(stands, regions, pending)
        return shape


def open_regions(shape: PlacementShape, place: Place) -> list[int]:
    """The open regions of `place`."""
    return [index for index, region in enumerate(shape.regions) if region.place == place]
