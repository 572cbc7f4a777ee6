"""Lower bounds on the cost of the rest of the network beyond its prices, at articulation points.

If a single value connects the visited with the unvisited nodes (an articulation point), the rest can be
solved separately for each place of that value. Solving segments from last to first gives, for each such cut
and each place, a lower bound on the slack of a label's bound, mostly from launches away from the spine.

        .-> b -.          .-> e -.
     a -'-> c -'-> d -----'-> f -'-> g        d alone is live between two segments: the segment from d on
        segment        cut    segment         is solved once for each place of d, then the one that ends in d

The initial state of a segment must be at least as favourable as every real prefix: the region of the value
is open, there is no other order between regions, one idle region of each target is open for
nodes without producers, and parameters are paid everywhere. Other open regions are accounted for
by the caller, which subtracts their launches (`Spine.allowance`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from annotated_region.ids import Place, ValueId
from annotated_region.placement.frontier import FrontierSearch, SearchLimits, most_work
from annotated_region.placement.labels import Label, Layer
from annotated_region.placement.shapes import HOST, OpenRegion, Stand
from annotated_region.placement.spine import Ahead, OffSpine

__all__ = ["LookedAhead", "look_ahead"]

FIRST_WIDTH = 8
"""Labels per layer in the first run over a segment."""

WIDER = 8
"""The factor by which the width grows with each run."""

SHORTEST = 6
"""The minimum number of steps between two cuts: shorter segments do not improve the bound."""


@dataclass(frozen=True, slots=True)
class LookedAhead:
    """The result of a look-ahead: the increase of the bound of the whole problem, and the work done."""

    rise: float
    work: int


def look_ahead(search: FrontierSearch, slack: float, width: int, ration: int) -> LookedAhead:
    """Fill ``search.spine.ahead``, and return the increase of the bound of the whole problem.

    Parameters
    ----------
    search
        The search, whose spine is updated.
    slack
        The difference between the best known cost and the potential's bound: a larger increase is useless.
    width
        The maximum number of labels kept after a step.
    ration
        The approximate work: each segment gets an equal share of the remaining work.

    Notes
    -----
    The cost of one run of the search with `width`, times the number of places of a cut value.
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
    """The steps, cut after each step of `_cuts`."""
    starts = [0, *(cut + 1 for cut in _cuts(search))]
    ends = [*starts[1:], len(search.transitions.steps)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _cuts(search: FrontierSearch) -> list[int]:
    """The steps after which their value is the only live one except parameters, and no unit is incomplete."""
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
        """Allot the first of `segments` segments an equal share of the remaining work."""
        self._until = self.work + (self._ration - self.work) // segments

    def ahead_of(self, segment: range) -> Ahead:
        """The slack of bounds at the cut before a segment."""
        cut = _Cut(self.search, segment.start - 1)
        places, until, rises = cut.places(), self._until, {}
        for number, place in enumerate(places):
            self._until = self.work + max(0, until - self.work) // (len(places) - number)
            rises[place] = self.rise(cut.entry(place), segment)
        lost = cut.lost_by_paid_parameters()
        by_place = {place: max(0.0, rise - lost) for place, rise in rises.items()}
        return Ahead(min(by_place.values()), by_place)

    def rise(self, layer: Layer, segment: range) -> float:
        """The minimum increase over a segment and all later ones, at most the slack.

        A narrow run finds an attainable increase, which prunes the next run. The bounds of labels dropped
        because of the work limit count in the minimum as well.
        """
        least, room = self.slack, FIRST_WIDTH
        while True:
            ration = max(0, self._until - self.work)
            limits = SearchLimits(least, room, ration, most_work(ration))
            explored = self.search.explore(layer, segment, limits)
            self.work += explored.work
            for shape, variants in explored.layer.items():
                allowance = self.search.spine.allowance(segment.stop - 1, shape)
                least = min([least, *(label.bound - allowance for label in variants.values())])
            if explored.dropped >= least or room >= self.width or self.work >= self._until:
                return min(least, explored.dropped)
            room = min(WIDER * room, self.width)


class _Cut:
    """A step after which a single defined value is live, apart from parameters."""

    def __init__(self, search: FrontierSearch, index: int) -> None:
        self.transitions = search.transitions
        self.problem = search.transitions.problem
        self.index = index
        self.step = search.transitions.steps[index]

    def places(self) -> list[Place]:
        """The possible places of the value."""
        units = self.problem.units
        return sorted({units[unit].place for unit in self.problem.units_of[self.step.node]})

    def entry(self, place: Place) -> Layer:
        """The initial layer, with a single label, of the segment after the cut for a value at `place`."""
        made_by_host = place == self.problem.host
        waiting = [
            target for target in map(Place, range(self.problem.host)) if self.step.source_places >> target & 1
        ]
        idle = (1 << len(waiting)) - 1  # the idle regions precede the value
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
        """The paid destinations for a value at `place`: the host if it reads the value, all for
        parameters.
        """
        paid = 0
        for slot, value in enumerate(self.step.live):
            bits = self.paid_of_made(value, place) if value in self.step.made else self.useful(value)
            paid |= bits << slot * self.transitions.places
        return paid

    def paid_of_made(self, value: ValueId, place: Place) -> int:
        """The paid destinations of the value defined at the cut."""
        host = self.problem.host
        if not self.problem.values[value].host_reads or place == host:
            return 0
        readers = self.transitions.readers_after(value, self.index)
        return 1 << host & self.transitions.useful_bits(value, readers, place)

    def readers_left(self, parameter: ValueId) -> tuple[int, ...]:
        """The readers of a parameter after the cut, in the order of steps."""
        wanted = set(self.problem.values[parameter].consumers)
        return tuple(step.node for step in self.transitions.steps[self.index + 1 :] if step.node in wanted)

    def useful(self, parameter: ValueId) -> int:
        """The relevant destinations to which a parameter could have been sent before the cut."""
        readers = self.readers_left(parameter)
        return self.transitions.useful_bits(parameter, readers, self.problem.host)

    def lost_by_paid_parameters(self) -> float:
        """The maximum error of treating all live parameters as paid."""
        potential, host = self.transitions.potential, self.problem.host
        lost = 0.0
        for value in self.step.live:
            if self.problem.values[value].producer is None:
                readers = self.readers_left(value)
                lost += potential.rest(value, readers, host, 0)
                lost -= potential.rest(value, readers, host, self.useful(value))
        return lost
