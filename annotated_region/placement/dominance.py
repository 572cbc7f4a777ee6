"""Dropping partial placements that another one beats whatever follows.

Two partial placements agree on where the live values stand and on what has been paid. The first beats the
second if

1. it puts no region before another that the second does not put there too, and
2. it is cheaper even after paying for the *idle* regions of the second that it cannot match with one of
   its own. Idle is an open region that made no live value and holds no pending composite. What the second
   would add to an idle region, the first can put into a region of its own for one more launch: nothing
   flows between the idle part and the added one, so splitting them closes no cycle and moves no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from annotated_region.ids import Place
from annotated_region.placement.shapes import HOST, PlacementShape

__all__ = ["PlacementProfile", "beats", "profile"]


class IdleRegion(NamedTuple):
    """An open region that made no live value and holds no pending composite.

    Attributes
    ----------
    place
        Its target.
    before
        The busy regions that come before it, as a bit set.
    after
        The busy regions and closed values that come after it, as a bit set.
    """

    place: Place
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PlacementProfile:
    """A shape, taken apart for comparison.

    Attributes
    ----------
    stands
        What must agree: the places of live values, which of them share a region, the pending composites.
    order
        Which busy regions come before which busy regions and closed values, as a bit set.
    idle
        The idle regions.
    between
        For each idle region, the idle regions before it, as a bit set.
    """

    stands: tuple[object, ...]
    order: int
    idle: tuple[IdleRegion, ...]
    between: tuple[int, ...]


def profile(shape: PlacementShape) -> PlacementProfile:
    """Take a shape apart; busy regions have the lowest indices, thanks to their canonical numbers."""
    stands, regions, pending = shape.stands, shape.regions, shape.pending
    busy = 1 + max([HOST, *[stand.region for stand in stands], *[choice.region for choice in pending]])
    mask = (1 << busy) - 1
    # What comes before each of all that an idle region can come before: busy regions, and closed values.
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
    """The things that region `index` comes before, as a bit set; `befores` has one bit set for each thing."""
    after = 0
    for before in befores:
        after = after << 1 | before >> index & 1
    return after


def beats(cheap: PlacementProfile, dear: PlacementProfile, saving: float, launch: Sequence[float]) -> bool:
    """Whether `cheap`, which costs `saving` less and stands alike, is at least as good whatever follows."""
    if cheap.order & ~dear.order:
        return False
    matched: list[tuple[int, int]] = []
    for index, region in enumerate(dear.idle):
        twin = _twin(cheap, dear, index, matched)
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
    """An idle region of `cheap` that can stand in for one of `dear`, next to those matched before."""
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
    """Whether `twin` comes before or after a region matched before only if the one it stands in for does."""
    comes_after, may_come_after = cheap.between[twin], dear.between[index]
    for left, right in matched:
        if left == twin or comes_after >> left & 1 > may_come_after >> right & 1:
            return False
        if cheap.between[left] >> twin & 1 > dear.between[right] >> index & 1:
            return False
    return True
