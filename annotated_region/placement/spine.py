"""Launches along the spine: the allowance subtracted from the bound of a label before its comparison.

The potential (`annotated_region.placement.prices`) counts a launch for each future run of nodes of the spine,
and another launch is paid when a region is created. If such a run joins a region that was
created elsewhere, the bound counts its launch twice, so it must not prune the label. The results of
the look-ahead (`annotated_region.placement.lookahead`) reduce the allowance.

    spine    S1 -> S2 -> S3      A created a region that S3 may join: the bound counts its launch twice,
                         ^       once for A and once for the run of S3
    aside    A ----------'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from annotated_region.ids import Place, ValueId
from annotated_region.placement.problem import PlacementProblem
from annotated_region.placement.shapes import HOST, PlacementShape
from annotated_region.placement.transitions import Transitions

__all__ = ["Ahead", "OffSpine", "Spine"]


class OffSpine(Enum):
    """The reason why no slot holds the value that the next node of the spine reads."""

    BEFORE = auto()
    """The spine has not been reached."""
    AFTER = auto()
    """The spine has been left."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The known slack of bounds after a step, from the look-ahead.

    Attributes
    ----------
    least
        The slack for every place of the spine's value.
    by_place
        The slack by the place of the spine's value; empty if only `least` is known.
    """

    least: float = 0.0
    by_place: Mapping[Place, float] = field(default_factory=dict)

    def at(self, place: Place | None) -> float:
        """The slack if the spine's value is at `place`; None if it is not defined yet."""
        return self.least if place is None else self.by_place.get(place, self.least)


class Spine:
    """The spine along the steps of a search.

    Attributes
    ----------
    slots
        After each step, the slot of the value that the next node of the spine reads.
    ahead
        After each step, the known slack of bounds; initially none.
    """

    def __init__(self, transitions: Transitions) -> None:
        self._launch = transitions.problem.launch
        self.slots = _slots(transitions)
        self._feeds = _feeding_slots(transitions)
        self.ahead = [Ahead()] * len(transitions.steps)

    def allowance(self, index: int, shape: PlacementShape) -> float:
        """The allowance to subtract from the bound of a label after step `index` before comparing it with a
        cost.

        A future run of the spine may join an open region that does not precede the spine (case 1). Of
        the regions with values that the spine's next node depends on, it can join at most one, because the
        others then precede it (case 2).
        """
        slot = self.slots[index]
        if slot is OffSpine.AFTER:
            return -self.ahead[index].least
        watched = _NOWHERE if isinstance(slot, OffSpine) else _watch(shape, slot)
        feeding = self._feeding(index, shape)
        credit, single = 0.0, 0.0
        for rank, region in enumerate(shape.regions):
            if watched.barred >> rank & 1:
                continue
            launch = self._launch[region.place]
            if not feeding >> rank & 1:
                credit += launch  # case 1
            elif region.place != watched.place and launch > single:
                single = launch  # case 2
        return credit + single - self.ahead[index].at(watched.place)

    def _feeding(self, index: int, shape: PlacementShape) -> int:
        """The open regions with values that the spine's next node depends on, as a bit set."""
        feeding = 0
        for feed in self._feeds[index]:
            region = shape.stands[feed].region
            if region != HOST:
                feeding |= 1 << region
        return feeding


class _Watched(NamedTuple):
    """The location of the spine's value: its place, and the open regions that the spine can no
    longer join.
    """

    place: Place | None
    barred: int


_NOWHERE = _Watched(None, 0)


def _watch(shape: PlacementShape, slot: int) -> _Watched:
    """The value in a slot; its own region is barred as well, because staying in it creates no region."""
    stand = shape.stands[slot]
    if stand.region == HOST:
        return _Watched(stand.place, stand.before)
    return _Watched(stand.place, 1 << stand.region | shape.regions[stand.region].before)


def _slots(transitions: Transitions) -> list[int | OffSpine]:
    """After each step, the slot of the value that the next node of the spine reads."""
    potential = transitions.potential
    value: ValueId | OffSpine = OffSpine.BEFORE
    slots: list[int | OffSpine] = []
    for step in transitions.steps:
        if step.node == potential.spine[-1]:
            value = OffSpine.AFTER
        elif step.node in potential.carriers:
            value = potential.carriers[step.node]
        slots.append(value if isinstance(value, OffSpine) else step.live.index(value))
    return slots


def _feeding_slots(transitions: Transitions) -> list[tuple[int, ...]]:
    """After each step, the slots on which the next node of the spine depends."""
    visits = {step.node: index for index, step in enumerate(transitions.steps)}
    upcoming = iter(transitions.potential.spine)
    following = next(upcoming, None)
    needs: dict[ValueId, None] = {}
    found: list[tuple[int, ...]] = []
    for index, step in enumerate(transitions.steps):
        if step.node == following:
            following = next(upcoming, None)
            needs = _needs(transitions.problem, following, visits, index)
        elif index == 0:
            needs = _needs(transitions.problem, following, visits, index)
        found.append(tuple(slot for slot, value in enumerate(step.live) if value in needs))
    return found


def _needs(
    problem: PlacementProblem, node: int | None, visits: Mapping[int, int], index: int
) -> dict[ValueId, None]:
    """The values read by `node` and by those of its transitive producers that are visited after
    step `index`.
    """
    needs: dict[ValueId, None] = {}
    stack = [] if node is None else [node]
    seen = set(stack)
    while stack:
        for value in problem.reads[stack.pop()]:
            needs[value] = None
            producer = problem.values[value].producer
            if producer is not None and producer not in seen and visits[producer] > index:
                seen.add(producer)
                stack.append(producer)
    return needs
