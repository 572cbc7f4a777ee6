"""Families of options that belong together: everything in one layout.

Two uses belong to one family if one option has both, and a node that could also do otherwise. So from one
pinned node the family spreads over all that can follow it without a transpose:

    conv (NCHW or NHWC) -> relu (either) -> pool (either)        families: {all NCHW}, {all NHWC}

Families that share no node move together: a choice holds as many of them as fit.
"""

from __future__ import annotations

from collections import Counter

from annotated_region.layout_plan.problem import Choice, LayoutProblem, Use

__all__ = ["family_choices"]


def family_choices(problem: LayoutProblem, start: Choice) -> list[Choice]:
    """Choices that cover all options: in each, the nodes of some families join them; the others stay.

    Notes
    -----
    Union-find over the uses; O(uses) but for the inverse of Ackermann's function. Families are packed
    first fit, O(nodes x families of a node).
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
    # A node may have several options in one family: the first of each node move together, then the second ...
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
    """For each option, the uses that not all options share, in order."""
    options = problem.nodes[node]
    shared = frozenset.intersection(*(option.uses for option in options))
    return [sorted(option.uses - shared) for option in options]
