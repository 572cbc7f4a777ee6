"""Prunes partial placements that are dominated by another one for every continuation.

Let two partial placements agree on the locations of live values and on the paid destinations. The first
dominates the second if

1. its order of regions is a subset of the second's order, and
2. it is cheaper even after paying for the *idle* regions of the second that it cannot match with one of
   its own. An idle region is an open region that defines no live value and holds no pending composite. Nodes
   that the second would add to an idle region can form a new region in the first for one more launch: no
   values flow between the idle part and the new nodes, so the split closes no cycle and adds no transfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from annotated_region.ids import Place
from annotated_region.placement.shapes import HOST, PlacementShape

__all__ = ["PlacementProfile", "beats", "profile"]

MATCHED = 24
"""The number of idle regions of a shape that are matched; further ones count as unmatched."""


class IdleRegion(NamedTuple):
    """An open region that defines no live value and holds no pending composite.

    Attributes
    ----------
    place
        Its target.
    before
        The busy regions that precede it, as a bit set.
    after
        The busy regions and closed values that it precedes, as a bit set.
    """

    place: Place
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PlacementProfile:
    """The components of a shape, for comparison.

    Attributes
    ----------
    stands
        The components that must be equal: places of live values, sharing of regions, pending composites.
    order
        The order relation from busy regions to busy regions and closed values, as a bit set.
    idle
        The idle regions.
    between
        For each idle region, the idle regions that precede it, as a bit set.
    """

    stands: tuple[object, ...]
    order: int
    idle: tuple[IdleRegion, ...]
    between: tuple[int, ...]


def profile(shape: PlacementShape) -> PlacementProfile:
    """The profile of a shape; busy regions have the lowest indices in the canonical numbering."""
    stands, regions, pending = shape.stands, shape.regions, shape.pending
    busy = 1 + max([HOST, *[stand.region for stand in stands], *[choice.region for choice in pending]])
    mask = (1 << busy) - 1
    # The predecessors of each possible successor of an idle region: busy regions, and closed values.
    befores = [region.before for region in regions[:busy]]
    befores += [stand.before for stand in stands if stand.region == HOST]
    order = 0
    for before in befores:
        order = order << busy | before & mask
    idle = [
        IdleRegion(region.place, region.before & mask, _column(befores, index))
        for index, region in enumerate(regions[busy:], busy)
    ]
    between = tuple([region.before >> busy for region in regions[busy:]])
    agreeing = (
        tuple([(stand.place, stand.region) for stand in stands]),
        tuple([region.place for region in regions[:busy]]),
        pending,
    )
    return PlacementProfile(agreeing, order, tuple(idle), between)


def _column(befores: Sequence[int], index: int) -> int:
    """The entries of `befores` that contain region `index`, as a bit set."""
    after = 0
    for before in befores:
        after = after << 1 | before >> index & 1
    return after


def beats(cheap: PlacementProfile, dear: PlacementProfile, saving: float, launch: Sequence[float]) -> bool:
    """Whether `cheap`, with equal stands and a cost lower by `saving`, is at least as good for every
    continuation.
    """
    if cheap.order & ~dear.order:
        return False
    if sum([launch[region.place] for region in dear.idle]) <= saving:
        return True
    matched: list[tuple[int, int]] = []
    for index, region in enumerate(dear.idle):
        twin = _twin(cheap, dear, index, matched) if index < MATCHED else None
        if twin is not None:
            matched.append((twin, index))
            continue
        saving -= launch[region.place]
        if saving < 0:
            return False
    return True


def _twin(
    cheap: PlacementProfile, dear: PlacementProfile, index: int, matched: list[tuple[int, int]]
) -> int | None:
    """An idle region of `cheap` that can replace one of `dear`, given the previous matches."""
    wanted = dear.idle[index]
    for twin, offered in enumerate(cheap.idle):
        if offered.place != wanted.place or offered.before & ~wanted.before or offered.after & ~wanted.after:
            continue
        if _agree(cheap, dear, twin, index, matched):
            return twin
    return None


def _agree(
    cheap: PlacementProfile, dear: PlacementProfile, twin: int, index: int, matched: list[tuple[int, int]]
) -> bool:
    """Whether the order of `twin` and earlier matched regions is implied by that of the regions
    they replace.
    """
    comes_after, may_come_after = cheap.between[twin], dear.between[index]
    for left, right in matched:
        if left == twin or comes_after >> left & 1 > may_come_after >> right & 1:
            return False
        if cheap.between[left] >> twin & 1 > dear.between[right] >> index & 1:
            return False
    return True
