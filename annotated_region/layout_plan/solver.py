"""Finds a cheapest plan, with a lower bound.

1.  Initial choices: the original layouts, the greedy choice, and whole families of layouts.
2.  Dynamic programming over the frontier: optimal if few values are live at once, else a lower bound.
3.  Fusion moves with families until none improves the choice. If no node has more than two options, one
    move is optimal, for any size.
"""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.layout_plan.families import family_choices
from annotated_region.layout_plan.frontier import search
from annotated_region.layout_plan.fusion import fuse
from annotated_region.layout_plan.problem import Choice, LayoutProblem, evaluate

__all__ = ["DEFAULT_WIDTH", "LayoutSolution", "greedy", "solve"]

DEFAULT_WIDTH = 2000
"""The most states of the dynamic program."""


@dataclass(frozen=True, slots=True)
class LayoutSolution:
    """A choice with its cost and a lower bound.

    Attributes
    ----------
    choice
        The option index of each node.
    cost
        Its cost by `evaluate`.
    lower_bound
        No choice costs less.
    """

    choice: Choice
    cost: int
    lower_bound: int


def solve(problem: LayoutProblem, width: int = DEFAULT_WIDTH) -> LayoutSolution:
    """Find the cheapest choice.

    Parameters
    ----------
    problem
        The problem; of equal options of a node the first is preferred.
    width
        The most states of the search; it affects the quality of the answer, never its validity.
    """
    start = tuple(0 for _ in problem.nodes)
    families = family_choices(problem, start)
    candidates = [start, greedy(problem), *families]
    costs = [evaluate(problem, candidate) for candidate in candidates]
    best, known = candidates[costs.index(min(costs))], min(costs)
    bound = search(problem, known, width)
    if bound.choice is not None:
        return LayoutSolution(bound.choice, bound.lower_bound, bound.lower_bound)
    if bound.lower_bound == known:
        return LayoutSolution(best, known, known)
    return _by_moves(problem, best, families, bound.lower_bound)


def greedy(problem: LayoutProblem) -> Choice:
    """The choice that takes, node by node, the first option with the smallest additional cost."""
    storages = [set(anchors) for anchors in problem.anchors]
    choice = []
    for node in problem.nodes:
        added = [
            option.cost
            + sum(
                problem.weights[value]
                for value, storage in option.uses
                if storages[value] and storage not in storages[value]
            )
            for option in node
        ]
        choice.append(added.index(min(added)))
        for value, storage in node[choice[-1]].uses:
            storages[value].add(storage)
    return tuple(choice)


def _by_moves(problem: LayoutProblem, best: Choice, families: list[Choice], bound: int) -> LayoutSolution:
    """Step 3."""
    if len(families) == 2 and all(len(problem.nodes[node]) == 2 for node in problem.free):
        fusion = fuse(problem, *families)
        if fusion.is_exact:
            return LayoutSolution(fusion.choice, fusion.cost, fusion.cost)
    cost = evaluate(problem, best)
    while True:
        before = cost
        for family in family_choices(problem, best):
            fusion = fuse(problem, best, family)
            best, cost = fusion.choice, fusion.cost
        if cost >= before:
            return LayoutSolution(best, cost, bound)
