"""Lower bounds: how many groups there have to be at least."""

from __future__ import annotations

from annotated_region.grouping.components import components
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["levels", "lower_bound", "part_levels"]

_HANDED_ON = 8
"""The levels of how many parts one vertex tells its successors."""


def lower_bound(problem: GroupingProblem) -> int:
    """A number of groups that no valid grouping of all coloured vertices can go below.

    Each colour needs groups of its own, so the bounds of the colours add up. One colour needs as many groups
    as its longest path has levels, and enough to hold its weight. If its groups have to be connected, each
    lies in one weakly connected part of the colour, so the parts' own levels add up too.

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
    """The number of groups that some vertices fill by their weight alone."""
    if most is None:
        return 0
    weights = [problem.weights[vertex] for vertex in vertices]
    alone = sum(weight >= most for weight in weights)
    return alone - sum(weight for weight in weights if weight < most) // -most


def levels(problem: GroupingProblem, colour: int) -> list[int]:
    """For each vertex the most groups of one colour that a path up to it has to touch.

    A path touches a new group each time that it comes back to the colour from a vertex of another kind.
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
    """For each weakly connected part of a colour the most groups that a path has to touch inside it.

    Parameters
    ----------
    problem
        The graph.
    parts
        The parts, each in topological order.

    Notes
    -----
    A path touches a new group of a part each time that it comes back to the part from elsewhere. Going
    through the graph in topological order, each vertex hands on the levels of the parts that paths to it have
    touched and that have vertices still to come; it hands on a few of them only, which keeps the whole O(n +
    m) and can only make the numbers smaller.
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
        touched[vertex] = level if len(level) <= _HANDED_ON else _few(level, part)
    return found


def _few(level: dict[int, int], part: int) -> dict[int, int]:
    """Some of the levels, the vertex's own part first."""
    own = {part: level[part]} if part in level else {}
    return own | dict(list(level.items())[: _HANDED_ON - 1])
