"""The update of a shape when a node joins a region: the cycle test, and the removal of irrelevant state."""

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
    """The choice for a node, relative to a shape.

    Attributes
    ----------
    region
        As in `Choice`.
    place
        The place of the node.
    pending
        The composites that are pending afterwards, with regions in the old numbering.
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
        The values read, kept and defined.
    shape
        The shape before.
    joining
        The choice for the node.

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
    """A shape under update; regions have their old numbers, and a new region has the next number."""

    stands: list[Stand]
    regions: list[OpenRegion]

    def before_reading(self, read: Iterable[Stand], joined: int) -> int:
        """The open regions that precede a node which reads values at `read` and joins region `joined`."""
        before = 0
        for stand in read:
            if stand.region == HOST:
                before |= stand.before
            elif stand.region != joined:
                before |= 1 << stand.region | self.regions[stand.region].before
        return before

    def put_before(self, region: int, before: int) -> None:
        """Add the regions `before` to the predecessors of `region` and of all its successors."""
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
        """The regions that must stay open for some later node, as a bit set.

        A later node that depends on live values cannot join the regions that precede one of them
        (case 1). A node without producers may join any region; but unless it shares a region with
        its readers, any region of its target that does not follow them is equally good, in particular one
        without predecessors of the same target: only such regions stay open for it (case 2). For nodes that
        depend only on such nodes this argument does not hold, and all regions stay open (case 3). The
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
        """The regions that precede one of the values in `slots`, without the defining regions."""
        before = 0
        for slot in slots:
            _place, region, outside = self.stands[slot]
            before |= outside if region == HOST else self.regions[region].before
        return before

    def follows_its_like(self, region: OpenRegion) -> bool:
        """Whether a region of the same place precedes `region`."""
        for index, other in enumerate(self.regions):
            if region.before >> index & 1 and other.place == region.place:
                return True
        return False

    def renumbered(
        self, shapes: PlacementShapes, origin: tuple[int, ...], pending: tuple[Choice, ...]
    ) -> PlacementShape:
        """The shape restricted to the regions `origin`, renumbered."""
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
        """The regions that stay open, in the order of their new numbers, which are canonical."""
        made = [stand.region for stand in self.stands if stand.region != HOST]
        seen = dict.fromkeys([region for region in made if still_open >> region & 1])
        for choice in pending:
            seen[choice.region] = None
        idle = [index for index in range(len(self.regions)) if still_open >> index & 1 and index not in seen]
        idle.sort(key=lambda index: (self.regions[index].place, self.regions[index].before.bit_count()))
        return (*seen, *idle)


@dataclass(frozen=True, slots=True)
class _Renumbering:
    """The map from old to new numbers of the regions that stay open."""

    new: dict[int, int]
    known: dict[int, int] = field(default_factory=dict)

    def bits(self, regions: int) -> int:
        """A bit set of regions in the new numbering, without the removed ones."""
        found = self.known.get(regions)
        if found is None:
            found = 0
            for old, new in self.new.items():
                found |= (regions >> old & 1) << new
            self.known[regions] = found
        return found

    def stand(self, stand: Stand, regions: list[OpenRegion]) -> Stand:
        """The location of a value in the new numbering; outside all open regions if its region is removed."""
        if stand.region == HOST:
            return Stand(stand.place, HOST, self.bits(stand.before)) if stand.before else stand
        new = self.new.get(stand.region)
        if new is None:
            return Stand(stand.place, HOST, self.bits(regions[stand.region].before))
        return stand if new == stand.region else Stand(stand.place, new, 0)
