"""The cheapest plan, and a proof of how far from the cheapest it can be.

1.  Start: as it is, node by node what adds the least, or whole families of layouts.
2.  Dynamic programming over the frontier: exact where few values are live at once, else a lower bound.
3.  Then fusion moves with families until none helps. Where no node has more than two options, one move is
    exact, at any size.
"""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.layout_plan.families import family_choices
from annotated_region.layout_plan.frontier import search
from annotated_region.layout_plan.fusion import fuse
from annotated_region.layout_plan.problem import Choice, LayoutProblem, evaluate

__all__ = ["DEFAULT_WIDTH", "LayoutSolution", "greedy", "solve"]

DEFAULT_WIDTH = 2000
"""States of the dynamic program."""


@dataclass(frozen=True, slots=True)
class LayoutSolution:
    """A choice with its cost and its certificate of quality.

    Attributes
    ----------
    choice
        For each node, the index of its option.
    cost
        What `evaluate` says of it.
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
        The problem; the first option of each node is preferred among equals.
    width
        How many states the search may keep. It bounds the search, never the validity of the answer.
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
    """The choice that takes, node by node, the option that adds the least; the first of equals."""
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
