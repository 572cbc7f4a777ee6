"""What the rest of the network costs beyond its prices, seen from where a single value is live.

Where one value alone connects what is done with what is to come (an articulation point), the rest can be
solved by itself for each place of that value. Going backwards, segment by segment, gives for each such cut
and each place a bound on what the label's own bound still lacks, mostly launches away from the spine.

        .-> b -.          .-> e -.
     a -'-> c -'-> d -----'-> f -'-> g        d alone is live between two segments: the segment from d on
        segment        cut    segment         is solved once for each place of d, then the one that ends in d

The solver of a segment may be given more than any real past leaves behind, never less: the value's
own region is open, nothing else comes after anything, one idle region of each target waits for
nodes that depend on nothing, parameters are paid everywhere. Other open regions are accounted for
by the caller, who takes their launches off (`Spine.allowance`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from annotated_region.ids import Place, ValueId
from annotated_region.placement.frontier import FrontierSearch, SearchLimits
from annotated_region.placement.labels import Label, Layer
from annotated_region.placement.shapes import HOST, OpenRegion, Stand
from annotated_region.placement.spine import Ahead, OffSpine

__all__ = ["LookedAhead", "look_ahead"]

FIRST_WIDTH = 8
"""The first, narrow run over a segment."""

WIDER = 8
"""How much wider each further run is."""

SHORTEST = 6
"""Steps between two cuts, at least: shorter segments teach nothing that the next one does not."""


@dataclass(frozen=True, slots=True)
class LookedAhead:
    """What looking ahead found: by how much the bound of the whole problem rises, and the work done."""

    rise: float
    work: int


def look_ahead(search: FrontierSearch, slack: float, width: int, ration: int) -> LookedAhead:
    """Fill ``search.spine.ahead``, and say by how much the bound of the whole problem rises.

    Parameters
    ----------
    search
        The search to instruct.
    slack
        The difference of the best known cost and the potential's bound: more need not be proven.
    width
        The most labels to keep after a step.
    ration
        How much to work, about: each segment gets an equal part of what those before it have left.

    Notes
    -----
    As one run of the search with `width`, times the places of a cut value.
    """
    segments = _segments(search)
    solver = _Solver(search, slack, width, ration)
    ahead = search.spine.ahead
    least = 0.0
    for left, (before, segment) in reversed(list(enumerate(pairwise(segments), 2))):
        cut = segment.start - 1
        if solver.work < ration:
            solver.take_part(left)
            ahead[cut] = solver.ahead_of(segment)
            least = ahead[cut].least
        else:
            least = max(least, ahead[cut].least)
            if not ahead[cut].by_place:
                ahead[cut] = Ahead(least)
        ahead[before.start : cut] = [Ahead(least)] * (cut - before.start)
    if solver.work >= ration:
        return LookedAhead(least, solver.work)
    solver.take_part(1)
    rise = solver.rise({search.transitions.shapes.empty: {0: Label(0.0, None, None)}}, segments[0])
    return LookedAhead(max(rise, least), solver.work)


def _segments(search: FrontierSearch) -> list[range]:
    """The steps, cut behind each step of `_cuts`."""
    starts = [0, *(cut + 1 for cut in _cuts(search))]
    ends = [*starts[1:], len(search.transitions.steps)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _cuts(search: FrontierSearch) -> list[int]:
    """The steps that make the only live value but parameters, in the middle of nothing else."""
    transitions = search.transitions
    spanned = transitions.spanned()
    values = transitions.problem.values
    found: list[int] = []
    for index, step in enumerate(transitions.steps):
        made = [value for value in step.live if values[value].producer is not None]
        alone = len(made) == 1 and made == list(step.made)
        slot = search.spine.slots[index]
        on_spine = not isinstance(slot, OffSpine) and step.live[slot] in made
        far = not found or index - found[-1] >= SHORTEST
        if far and alone and on_spine and not spanned[index] and not step.detached_places:
            found.append(index)
    return found


class _Solver:
    """Solves segments, and counts the work."""

    def __init__(self, search: FrontierSearch, slack: float, width: int, ration: int) -> None:
        self.search = search
        self.slack = slack
        self.width = width
        self.work = 0
        self._ration = ration
        self._until = ration

    def take_part(self, segments: int) -> None:
        """Begin the first of some segments, which share the work that is left."""
        self._until = self.work + (self._ration - self.work) // segments

    def ahead_of(self, segment: range) -> Ahead:
        """What bounds lack at the cut before a segment."""
        cut = _Cut(self.search, segment.start - 1)
        places, until, rises = cut.places(), self._until, {}
        for number, place in enumerate(places):
            self._until = self.work + max(0, until - self.work) // (len(places) - number)
            rises[place] = self.rise(cut.entry(place), segment)
        lost = cut.lost_by_paid_parameters()
        by_place = {place: max(0.0, rise - lost) for place, rise in rises.items()}
        return Ahead(min(by_place.values()), by_place)

    def rise(self, layer: Layer, segment: range) -> float:
        """The least rise over a segment and all that follows it, at most the slack.

        A narrow run finds a rise that can be reached, which is the limit that makes the next run small. What
        is dropped for lack of work counts in the answer as well.
        """
        least, room = self.slack, FIRST_WIDTH
        while True:
            ration = max(0, self._until - self.work)
            explored = self.search.explore(layer, segment, SearchLimits(least, room, ration))
            self.work += explored.work
            for shape, variants in explored.layer.items():
                allowance = self.search.spine.allowance(segment.stop - 1, shape)
                least = min([least, *(label.bound - allowance for label in variants.values())])
            if explored.dropped >= least or room >= self.width or self.work >= self._until:
                return min(least, explored.dropped)
            room = min(WIDER * room, self.width)


class _Cut:
    """A step behind which one made value is live, apart from parameters."""

    def __init__(self, search: FrontierSearch, index: int) -> None:
        self.transitions = search.transitions
        self.problem = search.transitions.problem
        self.index = index
        self.step = search.transitions.steps[index]

    def places(self) -> list[Place]:
        """The places where the value can stand."""
        units = self.problem.units
        return sorted({units[unit].place for unit in self.problem.units_of[self.step.node]})

    def entry(self, place: Place) -> Layer:
        """The one label from which the segment after the cut starts, if the value stands at `place`."""
        made_by_host = place == self.problem.host
        waiting = [
            target for target in map(Place, range(self.problem.host)) if self.step.source_places >> target & 1
        ]
        idle = (1 << len(waiting)) - 1  # the idle regions come before the value
        regions = [OpenRegion(target, 0) for target in waiting]
        if made_by_host:
            made = Stand(place, HOST, idle)
        else:
            made = Stand(place, 0, 0)
            regions.insert(0, OpenRegion(place, idle << 1))
        parameter = Stand(self.problem.host, HOST, 0)
        stands = (made if value in self.step.made else parameter for value in self.step.live)
        shape = self.transitions.shapes.of(tuple(stands), tuple(regions), ())
        return {shape: {self.charged(place): Label(0.0, None, None)}}

    def charged(self, place: Place) -> int:
        """What is paid where the value stands at `place`: what the host reads, and parameters everywhere."""
        paid = 0
        for slot, value in enumerate(self.step.live):
            bits = self.paid_of_made(value, place) if value in self.step.made else self.useful(value)
            paid |= bits << slot * self.transitions.places
        return paid

    def paid_of_made(self, value: ValueId, place: Place) -> int:
        """Where the value made at the cut has been sent."""
        host = self.problem.host
        if not self.problem.values[value].host_reads or place == host:
            return 0
        readers = self.transitions.readers_after(value, self.index)
        return 1 << host & self.transitions.useful_bits(value, readers, place)

    def readers_left(self, parameter: ValueId) -> tuple[int, ...]:
        """Who reads a parameter after the cut, in the order of the steps."""
        wanted = set(self.problem.values[parameter].consumers)
        return tuple(step.node for step in self.transitions.steps[self.index + 1 :] if step.node in wanted)

    def useful(self, parameter: ValueId) -> int:
        """Where a parameter could have been sent before the cut, if that matters."""
        readers = self.readers_left(parameter)
        return self.transitions.useful_bits(parameter, readers, self.problem.host)

    def lost_by_paid_parameters(self) -> float:
        """What is lost, at most, by taking the live parameters for paid."""
        potential, host = self.transitions.potential, self.problem.host
        lost = 0.0
        for value in self.step.live:
            if self.problem.values[value].producer is None:
                readers = self.readers_left(value)
                lost += potential.rest(value, readers, host, 0)
                lost -= potential.rest(value, readers, host, self.useful(value))
        return lost
