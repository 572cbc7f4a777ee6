"""A network as a row of segments, and what makes two of them the same problem.

Where one value alone connects all that comes before with all that follows, nothing of the past matters but
where that value stands: no later node can join any region but the value's own. So a placement costs the sum
of what its segments cost, given the places of the values between them, and equal segments, of which deep
networks are made, are one problem.

        .-> b -.          .-> e -.
     a -'-> c -'-> d -----'-> f -'-> g        segments: a | b, c, d | e, f, g; the second and the third are
                                              equal if their nodes cost and read the same
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from annotated_region.ids import Place, UnitId, ValueId
from annotated_region.placement.elimination import frontier_sizes
from annotated_region.placement.problem import PlacementProblem, PlacementUnit, PlacementValue

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

    A cut lies behind a node that makes the only live value, where every node so far leads to that value,
    every later node depends on it, and no unit lies on both sides. O(nodes + edges + units).
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
    sizes = frontier_sizes(problem, tuple(range(problem.nodes)))
    spanned = _spanned(problem)
    sources = [node for node, before in enumerate(problem.predecessors) if not before]
    sinks = [node for node, after in enumerate(problem.successors) if not after]
    candidates = range(max(sources, default=0), min(sinks, default=0))
    return [
        node
        for node in candidates
        if sizes[node] == 1 and not spanned[node] and len(_read_later(problem, node)) == 1
    ]


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
    found, begun = [], 0
    for delta in change[: problem.nodes]:
        begun += delta
        found.append(begun > 0)
    return found


def units_within(problem: PlacementProblem, segment: PlacementSegment) -> list[UnitId]:
    """The units of a segment, ascending: their ranks are their numbers in its form."""
    return sorted({unit for node in segment.nodes for unit in problem.units_of[node]})


def form_of(
    problem: PlacementProblem, segment: PlacementSegment, units: Sequence[UnitId], weights: Weights
) -> SegmentForm:
    """A segment in numbers of its own.

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
    """
    inside = segment.nodes
    shift = (segment.entry is not None) - inside.start
    held = dict.fromkeys(value for node in inside for value in (*problem.reads[node], *problem.makes[node]))
    values = tuple(_local_value(problem.values[value], inside, shift) for value in held)
    numbers = {value: ValueId(index) for index, value in enumerate(held)}
    return SegmentForm(
        inside.stop + shift,
        values,
        tuple([_local_unit(problem.units[unit], shift) for unit in units]),
        tuple([weights[unit] for unit in units]) if weights else (),
        None if segment.entry is None else numbers[segment.entry],
        segment.exit is not None,
    )


def _local_unit(unit: PlacementUnit, shift: int) -> PlacementUnit:
    """A unit in the numbers of a segment."""
    return PlacementUnit(unit.place, tuple([node + shift for node in unit.nodes]), unit.cost)


def _local_value(value: PlacementValue, inside: range, shift: int) -> PlacementValue:
    """A value in the numbers of a segment; what is made before the segment is its entry."""
    made = value.producer
    producer = None if made is None else max(0, made + shift)
    readers = tuple([node + shift for node in value.consumers if node in inside])
    return PlacementValue(producer, readers, value.transfer, value.host_reads)
