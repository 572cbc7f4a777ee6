"""A candidate placement that gives each segment of a network to the target that computes it fastest.

Costs of single ops do not show what an engine saves inside a large region, and times of whole networks do not
show where engines differ. Segments are in between: the network is cut where few values cross, into parts of
about equal cost; each part is timed as a whole in the form that each obvious placement gives it, and a
shortest path over the segments chooses. Stages of pipelines are found in the same way (PipeDream, Narayanan
et al. 2019; Alpa, Zheng et al. 2022); here they are for engines on one machine, and run one after the other.

    a - b - c | d - e - f | g - h        `dnnl alone`     3 + 5 + 2
                                         `openvino alone` 4 + 3 + 2    =>  dnnl a b c, openvino d e f g h
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from annotated_region.costs.model import SegmentTimingCostModel
from annotated_region.dataflow.graph import DataflowGraph, Scope
from annotated_region.ids import NodeId
from annotated_region.policies.policy import Resolution
from annotated_region.policies.region_forms import in_accepted_form
from annotated_region.regions.node_region import NodeRegion

__all__ = ["MOST_SEGMENTS", "placed_by_segments"]

MOST_SEGMENTS = 8
"""The number of segments at most: each is built for each placement that is combined."""

MOST_CROSSING = 2
"""The number of values that may cross a cut."""

CHANGE = 0.01
"""The share of the whole time that a change of placement between segments must gain."""

Segment = range
"""Consecutive positions in the program order of a scope."""


def placed_by_segments(
    graph: DataflowGraph,
    placements: Sequence[Resolution],
    weights: Mapping[NodeId, float],
    model: SegmentTimingCostModel,
) -> Resolution | None:
    """The fastest combination of some placements by segments.

    Parameters
    ----------
    graph
        The function.
    placements
        The placements to combine.
    weights
        The approximate seconds of each op, for segments of about equal cost.
    model
        Times the segments.

    Returns
    -------
    The combination; None if the function has several scopes or cannot be cut, or if one of the placements is
    the fastest in all segments.
    """
    if len(graph.scopes) != 1 or len(placements) < 2:
        return None
    (scope,) = graph.scopes
    segments = _segments(graph, scope, placements, weights)
    if len(segments) < 2:
        return None
    parts = [
        [_SegmentPart.of(graph, scope, each, placement) for placement in placements] for each in segments
    ]
    asked = [part for row in parts for part in row]
    seconds = iter(model.segment_seconds(graph, [(part.nodes, part.members) for part in asked]))
    times = [[next(seconds) for _part in row] for row in parts]
    chosen = _shortest(times)
    if chosen is None or len(set(chosen)) == 1:
        return None
    members = [
        member
        for number, stretch in _stretches(segments, chosen)
        for member in _SegmentPart.of(graph, scope, stretch, placements[number]).members
    ]
    return Resolution(sorted(members, key=lambda member: member.sort_key))


@dataclass(frozen=True, slots=True)
class _SegmentPart:
    """What a placement makes of a segment: its nodes, and the regions in it."""

    nodes: tuple[NodeId, ...]
    members: Sequence[NodeRegion]

    @staticmethod
    def of(graph: DataflowGraph, scope: Scope, segment: Segment, placement: Resolution) -> _SegmentPart:
        """The part of a placement; cut along the program order, its regions form no cycle."""
        nodes = tuple(scope.nodes[segment.start : segment.stop])
        inside = set(nodes)
        cut = (_within(member, inside) for member in placement.regions)
        return _SegmentPart(nodes, list(in_accepted_form(graph, [each for each in cut if each is not None])))


def _within(member: NodeRegion, inside: set[NodeId]) -> NodeRegion | None:
    """The part of a region in a segment, which cuts no composite; None if nothing is."""
    nodes = tuple(node for node in member.nodes if node in inside)
    units = tuple(unit for unit in member.units if inside.issuperset(unit.nodes))
    return replace(member, nodes=nodes, units=units) if nodes else None


def _segments(
    graph: DataflowGraph, scope: Scope, placements: Sequence[Resolution], weights: Mapping[NodeId, float]
) -> list[Segment]:
    """Parts of about equal cost, between cuts that few values cross and that divide no composite."""
    places = _cuts(graph, scope, placements)
    share = math.fsum(weights.get(node, 0.0) for node in scope.nodes) / MOST_SEGMENTS
    segments, first, weight = [], 0, 0.0
    for place, node in enumerate(scope.nodes, 1):
        weight += weights.get(node, 0.0)
        if place in places and weight >= share:
            segments.append(range(first, place))
            first, weight = place, 0.0
    if first < len(scope.nodes):
        rest = range(first, len(scope.nodes))
        # A rest that costs little belongs to the last segment.
        if segments and weight < share / 2:
            rest = range(segments.pop().start, rest.stop)
        segments.append(rest)
    return segments


def _cuts(graph: DataflowGraph, scope: Scope, placements: Sequence[Resolution]) -> set[int]:
    """The positions in a scope where it may be cut: in front of the node there."""
    position = {node: place for place, node in enumerate(scope.nodes)}
    changes = [0] * (len(scope.nodes) + 1)
    for node, place in position.items():
        readers = [position[edge.consumer] for edge in graph.out_of[node] if edge.consumer in position]
        if readers:
            changes[place + 1] += 1
            changes[max(readers) + 1] -= 1
    for unit in {unit.nodes for each in placements for member in each.regions for unit in member.composites}:
        changes[position[unit[0]] + 1] += MOST_CROSSING + 1
        changes[position[unit[-1]] + 1] -= MOST_CROSSING + 1
    found, crossing = set(), 0
    for place, change in enumerate(changes):
        crossing += change
        if crossing <= MOST_CROSSING and 0 < place < len(scope.nodes):
            found.add(place)
    return found


def _shortest(times: Sequence[Sequence[float]]) -> list[int] | None:
    """The placement of each segment on the fastest path; None if a segment has no placement that runs."""
    change = CHANGE * min(math.fsum(column) for column in zip(*times, strict=True))
    change = change if math.isfinite(change) else 0.0
    best: list[tuple[float, list[int]]] = [(time, [number]) for number, time in enumerate(times[0])]
    for row in times[1:]:
        best = [
            min(
                (spent + (0.0 if path[-1] == number else change) + time, [*path, number])
                for spent, path in best
            )
            for number, time in enumerate(row)
        ]
    spent, path = min(best)
    return path if math.isfinite(spent) else None


def _stretches(segments: Sequence[Segment], chosen: Sequence[int]) -> Iterator[tuple[int, Segment]]:
    """Neighbouring segments with the same placement as one."""
    first = 0
    for number in range(1, len(segments) + 1):
        if number == len(segments) or chosen[number] != chosen[first]:
            yield chosen[first], range(segments[first].start, segments[number - 1].stop)
            first = number
