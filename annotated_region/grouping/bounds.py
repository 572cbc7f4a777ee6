"""Lower bounds on the number of groups."""

from __future__ import annotations

from annotated_region.grouping.components import components
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["levels", "lower_bound", "part_levels"]

_PROPAGATED = 8
"""The number of parts whose levels a vertex propagates to its successors."""


def lower_bound(problem: GroupingProblem) -> int:
    """A lower bound on the groups of any valid grouping of all coloured vertices.

    Groups have one colour, so the bounds of the colours add up. A colour needs as many groups as its longest
    path has levels, and enough to hold its weight. If its groups must be connected, each lies within one
    weakly connected part of the colour, so the bounds of the parts add up as well.

    Notes
    -----
    O(k (n + m)) for k colours.
    """
    return sum(_bound_of(problem, colour) for colour in problem.limits)


def _bound_of(problem: GroupingProblem, colour: int) -> int:
    """The bound of one colour."""
    limits = problem.limits[colour]
    own = [vertex for vertex in problem.topological if problem.colours[vertex] == colour]
    bound = max(levels(problem, colour), default=0)
    if limits.connected:
        parts = components(problem.dag, own, [-1 if kind is None else kind for kind in problem.colours])
        filled = (_filled(problem, part, limits.max_weight) for part in parts)
        return max(bound, sum(map(max, part_levels(problem, parts), filled)))
    return max(bound, _filled(problem, own, limits.max_weight))


def _filled(problem: GroupingProblem, vertices: list[int], most: int | None) -> int:
    """The number of groups that some vertices need by weight alone."""
    if most is None:
        return 0
    weights = [problem.weights[vertex] for vertex in vertices]
    alone = sum(weight >= most for weight in weights)
    return alone - sum(weight for weight in weights if weight < most) // -most


def levels(problem: GroupingProblem, colour: int) -> list[int]:
    """For each vertex, the most groups of one colour on any path that ends there.

    A path enters a new group each time it re-enters the colour from a vertex outside it.
    """
    level = [0] * len(problem.dag)
    for vertex in problem.topological:
        own = problem.colours[vertex] == colour
        reached = int(own)
        for source in problem.dag.predecessors[vertex]:
            step = own and problem.colours[source] != colour
            reached = max(reached, level[source] + step)
        level[vertex] = reached
    return level


def part_levels(problem: GroupingProblem, parts: Partition) -> list[int]:
    """For each weakly connected part of a colour, the most groups on any path inside it.

    Parameters
    ----------
    problem
        The graph.
    parts
        The parts, each in topological order.

    Notes
    -----
    A path enters a new group of a part each time it re-enters the part from outside. Vertices are visited in
    topological order; each propagates the levels of the parts that paths to it have touched and that have
    vertices still to come. It propagates at most `_PROPAGATED` of them, which keeps the whole O(n + m) and
    can only weaken the bound.
    """
    part_of = [-1] * len(problem.dag)
    for index, members in enumerate(parts):
        for vertex in members:
            part_of[vertex] = index
    last = {part_of[vertex]: rank for rank, vertex in enumerate(problem.topological) if part_of[vertex] >= 0}
    found = [1] * len(last)
    touched: list[dict[int, int]] = [{} for _ in part_of]
    for rank, vertex in enumerate(problem.topological):
        part = part_of[vertex]
        level: dict[int, int] = {}
        for source in problem.dag.predecessors[vertex]:
            for other, count in touched[source].items():
                reached = count + (other == part != part_of[source])
                if last[other] >= rank and level.get(other, 0) < reached:
                    level[other] = reached
        if part >= 0:
            level.setdefault(part, 1)
            found[part] = max(found[part], level[part])
        touched[vertex] = level if len(level) <= _PROPAGATED else _few(level, part)
    return found


def _few(level: dict[int, int], part: int) -> dict[int, int]:
    """At most `_PROPAGATED` of the levels, that of the vertex's own part first."""
    own = {part: level[part]} if part in level else {}
    return own | dict(list(level.items())[: _PROPAGATED - 1])
