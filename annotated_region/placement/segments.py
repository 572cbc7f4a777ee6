"""A network as a row of segments, and what makes two of them the same problem.

Behind a node that all earlier nodes lead to and all later ones depend on, no later node can join any region
but that node's own. Where its value alone is read later, nothing else of the past matters: a placement costs
the sum of what its segments cost, given the places of the values between them, and equal segments, of which
deep networks are made, are one problem. Where other values are read across such a cut as well, as a mask of
attention is by all layers, the segments without what moving those costs are a bound, and a guide.

        .-> b -.          .-> e -.
     a -'-> c -'-> d -----'-> f -'-> g        segments: a | b, c, d | e, f, g; the second and the third are
                                              equal if their nodes cost and read the same
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from annotated_region.ids import Place, UnitId, ValueId
from annotated_region.placement.problem import PlacementProblem, PlacementUnit, PlacementValue, Table

__all__ = [
    "Ends",
    "PlacementSegment",
    "SegmentForm",
    "Tariff",
    "Weights",
    "form_of",
    "segments_of",
    "units_within",
]

Ends = tuple[Place | None, Place | None]
"""The places of the entry and of the exit of a segment."""

FAR, LARGE_PART = 48, 4
"""A value is read along a large part of the network if its first and last reader are more than so many nodes
apart, and more than one part in so many of all nodes."""

Weights = Mapping[UnitId, tuple[float, ...]]
"""By unit, what it takes of each resource that has a price."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """What launches and resources cost.

    Attributes
    ----------
    launch
        Seconds to enter one region, for each target.
    prices
        Seconds for one of each resource.
    step
        The step of the grid of costs, down to which what a unit pays for resources is rounded.
    """

    launch: tuple[float, ...]
    prices: tuple[float, ...] = ()
    step: float = 1.0

    def priced(self, unit: PlacementUnit, weights: Sequence[float]) -> PlacementUnit:
        """A unit that pays for the resources that it takes."""
        paid = sum([price * weight for price, weight in zip(self.prices, weights, strict=False)])
        return replace(unit, cost=unit.cost + math.floor(paid / self.step) * self.step) if paid else unit


@dataclass(frozen=True, slots=True)
class PlacementSegment:
    """The nodes between two cuts.

    Attributes
    ----------
    nodes
        The nodes, which follow one another in program order.
    entry
        The value that alone connects them with what comes before; None for the first segment.
    exit
        The value that alone connects them with what follows; None for the last segment.
    """

    nodes: range
    entry: ValueId | None
    exit: ValueId | None


@dataclass(frozen=True, slots=True)
class SegmentForm:
    """A segment in numbers of its own; equal forms are the same problem.

    Where there is an entry, node 0 stands for what makes it. The last node makes the exit.

    Attributes
    ----------
    nodes
        The number of nodes.
    values
        The values that they exchange; the entry is made by node 0, the exit has no readers.
    units
        What may be chosen for the nodes, but not for node 0.
    weights
        For each unit, what it takes of each resource that has a price; empty where nothing has.
    entry
        Which value is the entry, if there is one.
    has_exit
        Whether the last node makes an exit.
    """

    nodes: int
    values: tuple[PlacementValue, ...]
    units: tuple[PlacementUnit, ...]
    weights: tuple[tuple[float, ...], ...]
    entry: ValueId | None
    has_exit: bool

    @property
    def places(self) -> list[Place]:
        """Where the last node can run."""
        last = self.nodes - 1
        return sorted({unit.place for unit in self.units if unit.nodes[-1] == last})

    def between(self, problem: PlacementProblem, tariff: Tariff, ends: Ends) -> PlacementProblem:
        """The problem of one segment, its entry made at one place and its last node at another.

        Parameters
        ----------
        problem
            The problem that the segment is from; it says what regions look like.
        tariff
            What launches and resources cost.
        ends
            The places; None where there is no entry, or no exit.
        """
        last = self.nodes - 1
        entry, leaving = ends
        units = [
            unit if leaving in (None, unit.place) or last not in unit.nodes else replace(unit, cost=math.inf)
            for unit in map(tariff.priced, self.units, self.weights or ((),) * len(self.units))
        ]
        if entry is not None:
            units.append(PlacementUnit(entry, (0,), 0.0))
        regions = (problem.connected, problem.single)
        return PlacementProblem(self.nodes, tariff.launch, self.values, tuple(units), *regions)

    def paid_before(self, tariff: Tariff, entry: Place | None) -> float:
        """What `between` charges for making the entry: a launch, and moving it for the host to read."""
        host = len(tariff.launch)
        if self.entry is None or entry is None or entry == host:
            return 0.0
        value = self.values[self.entry]
        return tariff.launch[entry] + (value.transfer[entry][host] if value.host_reads else 0.0)


def segments_of(problem: PlacementProblem) -> list[PlacementSegment]:
    """The segments, in program order; one that holds everything if nothing cuts the network.

    A cut lies behind a node from which all later nodes can be reached, and which all earlier ones reach, if
    other nodes read one value of it, no unit lies on both sides, and of other values only those cross it that
    are read along a large part of the network (`FAR`). O(nodes + edges + units).
    """
    cuts = _cuts(problem)
    starts = [0, *(cut + 1 for cut in cuts)]
    ends = [*starts[1:], problem.nodes]
    joints = [None, *(_read_later(problem, cut)[0] for cut in cuts), None]
    return [
        PlacementSegment(range(start, end), entry, leaving)
        for start, end, entry, leaving in zip(starts, ends, joints, joints[1:], strict=False)
    ]


def _cuts(problem: PlacementProblem) -> list[int]:
    """The nodes behind which the network falls into two."""
    none = problem.nodes
    spanned, crossing = _spanned(problem), _crossing(problem)
    soonest = (after[0] if after else none for after in problem.successors)
    latest = [before[-1] if before else -1 for before in problem.predecessors]
    # Before each node, the latest first reader of a node; from each node on, the earliest node last read.
    reached = [-1, *accumulate(soonest, max)]
    needed = [*accumulate(reversed(latest), min)][::-1]
    return [
        node
        for node in range(problem.nodes - 1)
        if reached[node] <= node <= needed[node + 1]
        and not spanned[node]
        and len(_read_later(problem, node)) == 1
        and crossing[node] == _is_near(problem, problem.values[_read_later(problem, node)[0]])
    ]


def _crossing(problem: PlacementProblem) -> list[int]:
    """For each node, how many values live behind it are not read along a large part of the network."""
    change = [0] * (problem.nodes + 1)
    for value in problem.values:
        if value.consumers and _is_near(problem, value):
            change[value.consumers[0] if value.producer is None else value.producer] += 1
            change[value.consumers[-1]] -= 1
    return list(accumulate(change[: problem.nodes]))


def _is_near(problem: PlacementProblem, value: PlacementValue) -> bool:
    """Whether a value is read in a small part of the network."""
    first = value.consumers[0] if value.producer is None else value.producer
    return value.consumers[-1] - first <= max(FAR, problem.nodes // LARGE_PART)


def _read_later(problem: PlacementProblem, node: int) -> list[ValueId]:
    """The values of a node that other nodes read."""
    return [value for value in problem.makes[node] if problem.values[value].consumers]


def _spanned(problem: PlacementProblem) -> list[bool]:
    """For each node, whether some unit holds nodes on both sides of its end."""
    change = [0] * (problem.nodes + 1)
    for unit in problem.units:
        if math.isfinite(unit.cost):
            change[unit.nodes[0]] += 1
            change[unit.nodes[-1]] -= 1
    return [begun > 0 for begun in accumulate(change[: problem.nodes])]


def units_within(problem: PlacementProblem, segment: PlacementSegment) -> list[UnitId]:
    """The units of a segment, ascending: their ranks are their numbers in its form."""
    return sorted({unit for node in segment.nodes for unit in problem.units_of[node]})


def form_of(
    problem: PlacementProblem,
    segment: PlacementSegment,
    units: Sequence[UnitId],
    weights: Weights,
    parts: Mapping[ValueId, int],
) -> SegmentForm:
    """A segment in numbers of its own.

    What it reads of earlier segments beside its entry is free, and a parameter that several segments read
    costs each of them its part: together that is never more than what a placement pays.

    Parameters
    ----------
    problem
        The problem; what it limits is left out.
    segment
        One of its segments.
    units
        As `units_within` gives them.
    weights
        What they take of what has a price; empty if nothing has.
    parts
        In how many segments a parameter is read.
    """
    inside = segment.nodes
    shift = (segment.entry is not None) - inside.start
    held = dict.fromkeys(value for node in inside for value in (*problem.reads[node], *problem.makes[node]))
    numbers = {value: ValueId(index) for index, value in enumerate(held)}
    values = []
    for value in held:
        local = _local_value(problem.values[value], inside, shift)
        if value == segment.entry:
            local = replace(local, producer=0)
        elif local.producer is None:
            of_all = problem.values[value]
            share = 1 / parts[value] if of_all.producer is None else 0.0
            local = replace(local, host_reads=False, transfer=_scaled(of_all.transfer, share))
        values.append(local)
    return SegmentForm(
        inside.stop + shift,
        tuple(values),
        tuple([_local_unit(problem.units[unit], shift) for unit in units]),
        tuple([weights[unit] for unit in units]) if weights else (),
        None if segment.entry is None else numbers[segment.entry],
        segment.exit is not None,
    )


def _local_unit(unit: PlacementUnit, shift: int) -> PlacementUnit:
    """A unit in the numbers of a segment."""
    return PlacementUnit(unit.place, tuple([node + shift for node in unit.nodes]), unit.cost)


def _local_value(value: PlacementValue, inside: range, shift: int) -> PlacementValue:
    """A value in the numbers of a segment; what is not made in it has no producer."""
    made = value.producer
    producer = None if made is None or made not in inside else made + shift
    readers = tuple([node + shift for node in value.consumers if node in inside])
    return PlacementValue(producer, readers, value.transfer, value.host_reads)


def _scaled(table: Table, share: float) -> Table:
    """A table of transfers times a share."""
    return table if share == 1 else tuple([tuple([cost * share for cost in row]) for row in table])
