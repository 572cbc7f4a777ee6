"""Lower bounds: how many groups there have to be at least."""

from __future__ import annotations

from annotated_region.grouping.components import components
from annotated_region.grouping.problem import Problem

__all__ = ["levels", "lower_bound"]


def lower_bound(problem: Problem) -> int:
    """A number of groups that no valid grouping of all coloured vertices can go below.

    Each colour needs groups of its own, so the bounds of the colours add up. One colour needs as many groups as
    its longest path has levels, as many as it has weakly connected parts if they have to be connected, and
    enough to hold its weight.

    Notes
    -----
    O(k (n + m)) for k colours.
    """
    return sum(_bound_of(problem, colour) for colour in problem.limits)


def _bound_of(problem: Problem, colour: int) -> int:
    """The bound of one colour."""
    limits = problem.limits[colour]
    own = [vertex for vertex in problem.topological if problem.colours[vertex] == colour]
    bound = max(levels(problem, colour), default=0)
    if limits.connected:
        key = [index if kind != colour else -1 for index, kind in enumerate(problem.colours)]
        bound = max(bound, len(components(problem.dag, own, key)))
    if limits.max_weight is not None:
        weights = [problem.weights[vertex] for vertex in own]
        alone = sum(weight >= limits.max_weight for weight in weights)
        shared = sum(weight for weight in weights if weight < limits.max_weight)
        bound = max(bound, alone + -(-shared // max(limits.max_weight, 1)))
    return bound


def levels(problem: Problem, colour: int) -> list[int]:
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
