"""How a shape changes when a node joins a region: the test for cycles, and what can be forgotten then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from annotated_region.ids import Place
from annotated_region.placement.elimination import Step
from annotated_region.placement.shapes import HOST, Choice, OpenRegion, PlacementShape, PlacementShapes, Stand

__all__ = ["Advanced", "Joining", "advance"]


class Advanced(NamedTuple):
    """A shape after a step.

    Attributes
    ----------
    shape
        The shape.
    origin
        For each of its open regions, the position before the step; for a new one, the number of regions then.
    """

    shape: PlacementShape
    origin: tuple[int, ...]


class Joining(NamedTuple):
    """How a node joins what is placed.

    Attributes
    ----------
    region
        As in `Choice`.
    place
        The place of the node.
    pending
        The composites that are pending afterwards, with their regions as numbered before.
    host
        The place of the host.
    """

    region: int
    place: Place
    pending: tuple[Choice, ...]
    host: Place


def advance(shapes: PlacementShapes, step: Step, shape: PlacementShape, joining: Joining) -> Advanced | None:
    """The shape after the node of `step` joins a region; None if joining would close a cycle.

    Parameters
    ----------
    shapes
        The shapes of the search.
    step
        What is read, kept and made.
    shape
        The shape before.
    joining
        What the node joins.

    Notes
    -----
    O(live + open regions), on machine words for bit sets.
    """
    region, place = joining.region, joining.place
    arriving = [Stand(joining.host, HOST, 0)] * len(step.arrivals)
    draft = _Draft([*shape.stands, *arriving], list(shape.regions))
    before = draft.before_reading([draft.stands[slot] for _, slot in step.inputs], region)
    if region != HOST and before >> region & 1:
        return None
    draft.stands = [draft.stands[slot] for slot in step.kept]
    if region == len(draft.regions):
        draft.regions.append(OpenRegion(place, before))
    elif region != HOST:
        draft.put_before(region, before)
    made = Stand(place, HOST, before) if region == HOST else Stand(place, region, 0)
    draft.stands += [made] * len(step.made)
    origin = draft.numbering(draft.still_open(step, joining.pending), joining.pending)
    return Advanced(draft.renumbered(shapes, origin, joining.pending), origin)


@dataclass(slots=True)
class _Draft:
    """A shape while a node joins it; its regions have their old numbers, a new one the next."""

    stands: list[Stand]
    regions: list[OpenRegion]

    def before_reading(self, read: Iterable[Stand], joined: int) -> int:
        """The open regions that come before a node which reads values standing so and joins `joined`."""
        before = 0
        for stand in read:
            if stand.region == HOST:
                before |= stand.before
            elif stand.region != joined:
                before |= 1 << stand.region | self.regions[stand.region].before
        return before

    def put_before(self, region: int, before: int) -> None:
        """Put the regions `before` before `region`, and before everything that comes after it."""
        if not before & ~self.regions[region].before:
            return
        bit = 1 << region
        closed = before | self.regions[region].before
        for index, other in enumerate(self.regions):
            if index == region or other.before & bit:
                self.regions[index] = OpenRegion(other.place, other.before | closed)
        for slot, stand in enumerate(self.stands):
            if stand.before & bit:
                self.stands[slot] = Stand(stand.place, stand.region, stand.before | closed)

    def still_open(self, step: Step, pending: tuple[Choice, ...]) -> int:
        """The regions that some later node may have to join, as a bit set.

        A later node that depends on live values is kept out of the regions that come before one of them
        (case 1). A node that depends on nothing may join anything; but if it is not to share a region with
        its readers, then any region of its target that is not after them will do as well, in particular one
        before which there is no other of that target: only those stay open for it (case 2). For nodes that
        depend on such nodes alone that argument does not hold, and all regions stay open (case 3). The
        region of a composite stays open until the composite is complete (case 4).
        """
        reachable = 0
        for slots in step.ready:
            reachable |= ~self.before_values(slots)
        found = 0
        for index, region in enumerate(self.regions):
            if step.later_places >> region.place & 1 and reachable >> index & 1:
                found |= 1 << index  # case 1
            elif step.detached_places >> region.place & 1:
                found |= 1 << index  # case 3
            elif step.source_places >> region.place & 1 and not self.follows_its_like(region):
                found |= 1 << index  # case 2
        for choice in pending:
            found |= 1 << choice.region  # case 4
        return found

    def before_values(self, slots: Iterable[int]) -> int:
        """The regions that come before one of the values in `slots`, but not those that made them."""
        before = 0
        for slot in slots:
            _place, region, outside = self.stands[slot]
            before |= outside if region == HOST else self.regions[region].before
        return before

    def follows_its_like(self, region: OpenRegion) -> bool:
        """Whether a region of the same place comes before `region`."""
        for index, other in enumerate(self.regions):
            if region.before >> index & 1 and other.place == region.place:
                return True
        return False

    def renumbered(
        self, shapes: PlacementShapes, origin: tuple[int, ...], pending: tuple[Choice, ...]
    ) -> PlacementShape:
        """The shape with the regions `origin` under new numbers, and without the others."""
        if origin == tuple(range(len(self.regions))):
            return shapes.of(tuple(self.stands), tuple(self.regions), pending)
        moved = _Renumbering({old: new for new, old in enumerate(origin)})
        regions = (self.regions[old] for old in origin)
        return shapes.of(
            tuple([moved.stand(stand, self.regions) for stand in self.stands]),
            tuple([OpenRegion(region.place, moved.bits(region.before)) for region in regions]),
            tuple(Choice(choice.unit, moved.new[choice.region]) for choice in pending),
        )

    def numbering(self, still_open: int, pending: tuple[Choice, ...]) -> tuple[int, ...]:
        """The regions that stay open, in the order of their new numbers, which equal situations share."""
        made = [stand.region for stand in self.stands if stand.region != HOST]
        seen = dict.fromkeys([region for region in made if still_open >> region & 1])
        for choice in pending:
            seen[choice.region] = None
        idle = [index for index in range(len(self.regions)) if still_open >> index & 1 and index not in seen]
        idle.sort(key=lambda index: (self.regions[index].place, self.regions[index].before.bit_count()))
        return (*seen, *idle)


@dataclass(frozen=True, slots=True)
class _Renumbering:
    """New numbers for the regions that stay open, by their old ones."""

    new: dict[int, int]
    known: dict[int, int] = field(default_factory=dict)

    def bits(self, regions: int) -> int:
        """A bit set of regions in new numbers, without those that are forgotten."""
        found = self.known.get(regions)
        if found is None:
            found = 0
            for old, new in self.new.items():
                found |= (regions >> old & 1) << new
            self.known[regions] = found
        return found

    def stand(self, stand: Stand, regions: list[OpenRegion]) -> Stand:
        """Where a value stands in new numbers; outside of any open region, if its own is forgotten."""
        if stand.region == HOST:
            return Stand(stand.place, HOST, self.bits(stand.before)) if stand.before else stand
        new = self.new.get(stand.region)
        if new is None:
            return Stand(stand.place, HOST, self.bits(regions[stand.region].before))
        return stand if new == stand.region else Stand(stand.place, new, 0)
