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

from annotated_region.placement.shapes import Shape

__all__ = ["Profile", "beats", "profile"]


@dataclass(frozen=True, slots=True)
class Profile:
    """A shape, taken apart for comparison.

    Attributes
    ----------
    stands
        What must agree: the places of live values, which of them share a region, the pending composites.
    order
        Which busy regions come before which busy regions and closed values, as a bit set.
    idle
        For each idle region: its place, the busy regions before it, what comes after it.
    between
        For each idle region, the idle regions before it, as a bit set.
    """

    stands: tuple[object, ...]
    order: int
    idle: tuple[tuple[int, int, int], ...]
    between: tuple[int, ...]


def profile(shape: Shape, places: int) -> Profile:
    """Take a shape apart; busy regions have the lowest indices, thanks to their canonical numbers."""
    entries, regions, pending = shape
    busy = max([0, *entries, *(region + 1 for _, region in pending)])
    mask = (1 << busy) - 1
    order = 0
    stands = []
    above = [code // places for code in regions[:busy]]  # of all that an idle region can come before
    for code in entries:
        if code < 0:
            above.append((-1 - code) // places)
            stands.append(-1 - (-1 - code) % places)
        else:
            stands.append(code)
    for before in above:
        order = order << busy | before & mask
    idle = []
    for index, code in enumerate(regions[busy:], busy):
        after = 0
        for before in above:
            after = after << 1 | before >> index & 1
        idle.append((code % places, code // places & mask, after))
    between = tuple(code // places >> busy for code in regions[busy:])
    key = (tuple(stands), tuple(code % places for code in regions[:busy]), pending)
    return Profile(key, order, tuple(idle), between)


def beats(cheap: Profile, dear: Profile, saving: float, launch: Sequence[float]) -> bool:
    """Whether `cheap`, which costs `saving` less and stands alike, is at least as good whatever follows."""
    if cheap.order & ~dear.order:
        return False
    matched: list[tuple[int, int]] = []
    for index, (place, _before, _after) in enumerate(dear.idle):
        twin = _twin(cheap, dear, index, matched)
        if twin is not None:
            matched.append((twin, index))
            continue
        saving -= launch[place]
        if saving < 0:
            return False
    return True


def _twin(cheap: Profile, dear: Profile, index: int, matched: list[tuple[int, int]]) -> int | None:
    """An idle region of `cheap` that can stand in for one of `dear`, next to those matched before."""
    place, before, after = dear.idle[index]
    for twin, (other, above, below) in enumerate(cheap.idle):
        if other != place or above & ~before or below & ~after:
            continue
        if all(
            left != twin
            and cheap.between[twin] >> left & 1 <= dear.between[index] >> right & 1
            and cheap.between[left] >> twin & 1 <= dear.between[right] >> index & 1
            for left, right in matched
        ):
            return twin
    return None
