"""Separating: splits a grouping problem at host vertices that every other vertex precedes or follows.

::

    relu -> add -> topk -> add -> relu          topk is not claimed: what stands before it and
    '-------'              '-------'            what stands behind it can share no group

A group with vertices on both sides would form a cycle with the separator. The parts between separators are
therefore grouped independently, each with the strategies that its own size allows, and the result for a part
depends on that part alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from annotated_region.graphs import CycleError, Dag
from annotated_region.grouping.components import parts as connected
from annotated_region.grouping.problem import ColourLimits, Grouping

__all__ = ["Part", "localised", "one_group", "separated", "together"]

Part = list[int]
"""The vertices between two separators, ascending."""


def separated(
    dag: Dag,
    colours: Sequence[int | None],
    limits: Mapping[int, ColourLimits],
    fixed: Sequence[Sequence[int]],
) -> list[Part]:
    """The parts of a graph between its separators that have a coloured vertex; none if nothing separates.

    A limit on the number of groups counts those of all parts, and a fixed group may lie across or hold more
    than one colour: such problems have no parts.

    Notes
    -----
    O(n + m). In any topological order a host vertex separates exactly if no edge passes over it, no source
    comes behind it and no sink before it: then each vertex behind it has a predecessor that is not before it,
    down to the separator itself, and the same holds the other way round.
    """
    if len(colours) != len(dag) or any(each.max_groups is not None for each in limits.values()):
        return []
    try:
        order = dag.topological()
    except CycleError:
        return []
    found = list(_parts(dag, order, colours))
    part_of = {vertex: index for index, part in enumerate(found) for vertex in part}
    kinds = ({(part_of.get(vertex), colours[vertex]) for vertex in block} for block in fixed)
    if len(found) < 2 or any(len(each) > 1 for each in kinds):
        return []
    return [part for part in found if any(colours[vertex] is not None for vertex in part)]


def _parts(dag: Dag, order: Sequence[int], colours: Sequence[int | None]) -> Iterator[Part]:
    place = [0] * len(order)
    for index, vertex in enumerate(order):
        place[vertex] = index
    first_sink = min((place[v] for v, targets in enumerate(dag.successors) if not targets), default=0)
    last_source = max((place[v] for v, sources in enumerate(dag.predecessors) if not sources), default=0)
    reached = -1
    part: Part = []
    for index, vertex in enumerate(order):
        if colours[vertex] is None and reached <= index and last_source <= index <= first_sink:
            yield sorted(part)
            part = []
        else:
            part.append(vertex)
        for target in dag.successors[vertex]:
            reached = max(reached, place[target])
    yield sorted(part)


def one_group(dag: Dag, colours: Sequence[int | None], limits: Mapping[int, ColourLimits]) -> bool:
    """Whether all vertices can be one group without a search: they have one colour and no limits."""
    if len(set(colours)) > 1 or colours[0] is None:
        return False
    limit = limits.get(colours[0], ColourLimits())
    return not limit.bounded and (not limit.connected or len(connected(dag, range(len(dag)))) == 1)


def localised(limits: Mapping[int, ColourLimits], part: Part) -> dict[int, ColourLimits]:
    """The limits with predicates that are asked about the vertices of a part."""
    return {colour: _localised(limit, part) for colour, limit in limits.items()}


def _localised(limit: ColourLimits, part: Part) -> ColourLimits:
    accept = limit.accept
    if accept is None:
        return limit
    return ColourLimits(
        limit.connected,
        limit.max_weight,
        limit.max_groups,
        lambda vertices: accept([part[vertex] for vertex in vertices]),
    )


def together(size: int, answers: Iterable[tuple[Part, Grouping]]) -> Grouping:
    """The groupings of parts as one of the whole graph of `size` vertices."""
    groups: list[tuple[int, ...]] = []
    left_over: dict[int, str | None] = {}
    bound = 0
    for part, answer in answers:
        groups += [tuple(part[vertex] for vertex in members) for members in answer.groups]
        left_over |= {part[vertex]: why for vertex, why in answer.left_over.items()}
        bound += answer.lower_bound
    groups.sort()
    group_of: list[int | None] = [None] * size
    for index, members in enumerate(groups):
        for vertex in members:
            group_of[vertex] = index
    return Grouping(tuple(groups), tuple(group_of), dict(sorted(left_over.items())), bound)
