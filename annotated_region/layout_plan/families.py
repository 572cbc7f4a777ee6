"""Families of options that belong together: everything in one layout.

Two uses belong to one family if one option has both, and a node that could also do otherwise. So from one
pinned node the family spreads over all that can follow it without a transpose:

    conv (NCHW or NHWC) -> relu (either) -> pool (either)        families: {all NCHW}, {all NHWC}

Families that share no node move together: a choice holds as many of them as fit.
"""

from __future__ import annotations

from annotated_region.layout_plan.problem import Choice, Problem, Use

__all__ = ["family_choices"]


def family_choices(problem: Problem, start: Choice) -> list[Choice]:
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
    members: dict[Use, dict[int, int]] = {}
    for node in problem.free:
        for index, uses in enumerate(_distinct_uses(problem, node)):
            for use in uses[:1]:
                members.setdefault(root(use), {}).setdefault(node, index)
    packed: list[dict[int, int]] = []
    for family in members.values():
        home = next((choice for choice in packed if not choice.keys() & family.keys()), None)
        if home is None:
            packed.append(home := {})
        home.update(family)
    return [tuple(choice.get(node, index) for node, index in enumerate(start)) for choice in packed]


def _distinct_uses(problem: Problem, node: int) -> list[list[Use]]:
    """For each option, the uses that not all options share, in order."""
    options = problem.nodes[node]
    shared = frozenset.intersection(*(option.uses for option in options))
    return [sorted(option.uses - shared) for option in options]
