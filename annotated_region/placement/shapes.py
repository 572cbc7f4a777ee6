r"""The discrete half of a partial placement: where live values stand, and which regions come before which.

A `PlacementShape` says, of all nodes that are placed already, what can still matter: for each live slot,
where its value stands (`Stand`); the *open* regions, which a later node may still join (`OpenRegion`); the
composites that are begun and not complete. Bit sets name open regions by their positions in the shape.

The quotient graph stays acyclic because a node joins a region only if that region does not come before what
the node reads elsewhere. `before` is kept transitively closed, so the test is one bit. Regions that no later
node can join are forgotten: nothing can distinguish two pasts that agree on the rest.

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
"""The region that means: no region, the host; of a value, also: a region that no later node can join."""


class Stand(NamedTuple):
    """Where a live value stands.

    Attributes
    ----------
    place
        The place that holds it; the host for a parameter.
    region
        The open region that made it; `HOST` if there is none.
    before
        If no open region made it, the open regions that come before it, as a bit set. Otherwise 0: its region
        knows them.
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
    """What covers a node.

    Attributes
    ----------
    unit
        The unit.
    region
        The region that it joins: a position among the open ones, their number for a new one, or `HOST`.
    """

    unit: UnitId
    region: int


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class PlacementShape:
    """The discrete half of a partial placement; made by `PlacementShapes` alone, which makes each only once.

    Searches look shapes up many times for each label, so they are compared, and hashed, by identity.

    Attributes
    ----------
    stands
        Where the values of the live slots stand.
    regions
        The open regions, numbered by their first appearance in `stands` and `pending`, then by place.
    pending
        The composites that are begun and not complete, with their regions.
    """

    stands: tuple[Stand, ...]
    regions: tuple[OpenRegion, ...]
    pending: tuple[Choice, ...]


class PlacementShapes:
    """The shapes of one search: equal ones are one object. Those that nothing refers to are forgotten."""

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
