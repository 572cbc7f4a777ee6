"""A network as a sequence of segments, and their equality as problems.

After a node that all earlier nodes reach and that reaches all later ones, no later node can join any region
except that node's own. If only its value is read later, the rest of the past is irrelevant: the cost of a
placement is the sum over its segments, given the places of the values between them, and equal segments, of
which deep networks consist, are the same problem. If other values cross such a cut as well, such as an
attention mask that all layers read, the segments without their transfer costs give a bound, and a heuristic.

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
"""A value is read along a large part of the network if the distance of its first and last reader exceeds
`FAR` nodes, and one `LARGE_PART`-th of all nodes."""

Weights = Mapping[UnitId, tuple[float, ...]]
"""For each unit, its use of each priced resource."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """The costs of launches and resources.

    Attributes
    ----------
    launch
        Seconds to enter one region, for each target.
    prices
        Seconds per unit of each resource.
    step
        The step of the cost grid, to which resource costs are rounded down.
    """

    launch: tuple[float, ...]
    prices: tuple[float, ...] = ()
    step: float = 1.0

    def priced(self, unit: PlacementUnit, weights: Sequence[float]) -> PlacementUnit:
        """The unit with the price of its resources added to its cost."""
        paid = sum([price * weight for price, weight in zip(self.prices, weights, strict=False)])
        return replace(unit, cost=unit.cost + math.floor(paid / self.step) * self.step) if paid else unit


@dataclass(frozen=True, slots=True)
class PlacementSegment:
    """The nodes between two cuts.

    Attributes
    ----------
    nodes
        The nodes, consecutive in program order.
    entry
        The only value that connects them with earlier nodes; None for the first segment.
    exit
        The only value that connects them with later nodes; None for the last segment.
    """

    nodes: range
    entry: ValueId | None
    exit: ValueId | None


@dataclass(frozen=True, slots=True)
class SegmentForm:
    """A segment in local numbering; equal forms are the same problem.

    If there is an entry, node 0 represents its producer. The last node defines the exit.

    Attributes
    ----------
    nodes
        The number of nodes.
    values
        Their values; node 0 defines the entry, the exit has no readers.
    units
        The units of all nodes except node 0.
    weights
        For each unit, its use of each priced resource; empty if there are none.
    entry
        The index of the entry value, if there is one.
    has_exit
        Whether the last node defines an exit.
    """

    nodes: int
    values: tuple[PlacementValue, ...]
    units: tuple[PlacementUnit, ...]
    weights: tuple[tuple[float, ...], ...]
    entry: ValueId | None
    has_exit: bool

    @property
    def places(self) -> list[Place]:
        """The possible places of the last node."""
        last = self.nodes - 1
        return sorted({unit.place for unit in self.units if unit.nodes[-1] == last})

    def between(self, problem: PlacementProblem, tariff: Tariff, ends: Ends) -> PlacementProblem:
        """The problem of one segment for given places of its entry and of its last node.

        Parameters
        ----------
        problem
            The whole problem, with its constraints on regions.
        tariff
            The costs of launches and resources.
        ends
            The places; None if there is no entry, or no exit.
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
        """The cost of the entry in `between`: a launch, and the transfer to the host if it
        reads the entry.
        """
        host = len(tariff.launch)
        if self.entry is None or entry is None or entry == host:
            return 0.0
        value = self.values[self.entry]
        return tariff.launch[entry] + (value.transfer[entry][host] if value.host_reads else 0.0)


def segments_of(problem: PlacementProblem) -> list[PlacementSegment]:
    """The segments, in program order; a single segment if there is no cut.

    There is a cut after a node that reaches all later nodes, and that all earlier ones reach, if other nodes
    read exactly one of its values, no unit crosses the cut, and all other values that cross it
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
    """The nodes after which there is a cut."""
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
    """For each node, the number of values live after it that are not read along a large part of
    the network.
    """
    change = [0] * (problem.nodes + 1)
    for value in problem.values:
        if value.consumers and _is_near(problem, value):
            change[value.consumers[0] if value.producer is None else value.producer] += 1
            change[value.consumers[-1]] -= 1
    return list(accumulate(change[: problem.nodes]))


def _is_near(problem: PlacementProblem, value: PlacementValue) -> bool:
    """Whether all readers of a value lie in a small part of the network."""
    first = value.consumers[0] if value.producer is None else value.producer
    return value.consumers[-1] - first <= max(FAR, problem.nodes // LARGE_PART)


def _read_later(problem: PlacementProblem, node: int) -> list[ValueId]:
    """The values of a node that other nodes read."""
    return [value for value in problem.makes[node] if problem.values[value].consumers]


def _spanned(problem: PlacementProblem) -> list[bool]:
    """For each node, whether some unit holds nodes up to it and nodes after it."""
    change = [0] * (problem.nodes + 1)
    for unit in problem.units:
        if math.isfinite(unit.cost):
            change[unit.nodes[0]] += 1
            change[unit.nodes[-1]] -= 1
    return [begun > 0 for begun in accumulate(change[: problem.nodes])]


def units_within(problem: PlacementProblem, segment: PlacementSegment) -> list[UnitId]:
    """The units of a segment, ascending; their positions are their numbers in its form."""
    return sorted({unit for node in segment.nodes for unit in problem.units_of[node]})


def form_of(
    problem: PlacementProblem,
    segment: PlacementSegment,
    units: Sequence[UnitId],
    weights: Weights,
    parts: Mapping[ValueId, int],
) -> SegmentForm:
    """A segment in local numbering.

    Reads of values of earlier segments other than the entry are free, and the transfer costs of a parameter
    are divided among the segments that read it: the sum never exceeds the cost of a placement.

    Parameters
    ----------
    problem
        The problem; its limits are ignored.
    segment
        One of its segments.
    units
        The result of `units_within`.
    weights
        The use of priced resources by each unit; empty if there are none.
    parts
        For each parameter, the number of segments that read it.
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
    """A unit in the numbering of a segment."""
    return PlacementUnit(unit.place, tuple([node + shift for node in unit.nodes]), unit.cost)


def _local_value(value: PlacementValue, inside: range, shift: int) -> PlacementValue:
    """A value in the numbering of a segment; without a producer if it is defined outside."""
    made = value.producer
    producer = None if made is None or made not in inside else made + shift
    readers = tuple([node + shift for node in value.consumers if node in inside])
    return PlacementValue(producer, readers, value.transfer, value.host_reads)


def _scaled(table: Table, share: float) -> Table:
    """A transfer table, scaled by a share."""
    return table if share == 1 else tuple([tuple([cost * share for cost in row]) for row in table])
