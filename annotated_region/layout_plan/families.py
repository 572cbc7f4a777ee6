"""Families of compatible options: all nodes in one layout.

Two uses belong to one family if one option has both, and its node also has other options. So a family spreads
from one pinned node over all nodes that can follow it without a transpose:

    conv (NCHW or NHWC) -> relu (either) -> pool (either)        families: {all NCHW}, {all NHWC}

Families without a common node move together: one choice combines as many of them as fit.
"""

from __future__ import annotations

from collections import Counter

from annotated_region.layout_plan.problem import Choice, LayoutProblem, Use

__all__ = ["family_choices"]


def family_choices(problem: LayoutProblem, start: Choice) -> list[Choice]:
    """Choices that together cover all options: each moves the nodes of some families, and keeps the others.

    Notes
    -----
    Union-find over the uses: O(uses), up to the inverse Ackermann function. Families are packed by first fit,
    in O(nodes x families of a node).
    """
    parents: dict[Use, Use] = {}

    def root(use: Use) -> Use:
        while parents.setdefault(use, use) != use:
            parents[use] = parents[parents[use]]
            use = parents[use]
        return use

    for node in problem.free:
        for uses in _distinct_uses(problem, node):
            for use in uses:
                parents[root(use)] = root(uses[0])
    # A node may have several options in one family: the first ones of all its nodes move together, then the
    # second ones, and so on.
    members: dict[tuple[Use | None, int], dict[int, int]] = {}
    for node in problem.free:
        met: Counter[Use | None] = Counter()
        for index, uses in enumerate(_distinct_uses(problem, node)):
            family = root(uses[0]) if uses else None
            members.setdefault((family, met[family]), {})[node] = index
            met[family] += 1
    packed: list[dict[int, int]] = []
    for moving in members.values():
        home = next((choice for choice in packed if not choice.keys() & moving.keys()), None)
        if home is None:
            packed.append(home := {})
        home.update(moving)
    return [tuple(choice.get(node, index) for node, index in enumerate(start)) for choice in packed]


def _distinct_uses(problem: LayoutProblem, node: int) -> list[list[Use]]:
    """The uses of each option that are not common to all options, sorted."""
    options = problem.nodes[node]
    shared = frozenset.intersection(*(option.uses for option in options))
    return [sorted(option.uses - shared) for option in options]
