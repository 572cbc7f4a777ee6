"""Proves that a form of symbolic extents is never negative, to see that reads are within bounds.

Minima, maxima and quotients are replaced by bounds of theirs that point the right way::

    n - min(1, n)               >=  n - n            = 0
    n + 1 - 2 * ((n - 1) // 2)  >=  n + 1 - (n - 1)  = 2
    n // 4 - 2 * (n // 8)       >=  n // 4 - n // 4  = 0
"""

from __future__ import annotations

from collections.abc import Collection
from math import gcd, prod

from annotated_region.op_info.loops.trees import Extent, Tree, linear

__all__ = ["never_negative", "plus"]

MOST_REPLACED = 8
"""The number of replacements in one proof."""


def never_negative(form: Tree, positive: Collection[Tree], left: int = MOST_REPLACED) -> bool:
    """Whether a form of sizes is nonnegative for all sizes; the `positive` ones are at least 1, others 0."""
    if all(factor > 0 and atom[0] in ("size", "product") for atom, factor in form[2]):
        least = [factor * _least(atom, positive) for atom, factor in form[2]]
        return all(_is_counted(atom, positive) for atom, _ in form[2]) and int(form[1]) + sum(least) >= 0
    if not left:
        return False
    for atom, factor in form[2]:
        rest = plus(form, linear(0, {atom: 1}), -factor)
        match atom[0]:
            case "Max" | "Min":
                # A minimum is at most either operand, and at least the smaller one.
                ends = (never_negative(plus(rest, end, factor), positive, left - 1) for end in atom[2:])
                return any(ends) if (atom[0] == "Min") == (factor < 0) else all(ends)
            case "div" if isinstance(atom[2], int) and factor > 0 and factor % atom[2] == 0:
                # k * (n // k) is at least n - (k - 1).
                bound = plus(plus(rest, atom[1], factor // atom[2]), factor // atom[2] * (1 - atom[2]), 1)
                return never_negative(bound, positive, left - 1)
            case "div" if isinstance(atom[2], int) and factor < 0 and gcd(factor, atom[2]) > 1:
                # k * (n // (k * l)) is at most n // l.
                common = gcd(factor, atom[2])
                fewer = atom[1] if common == atom[2] else linear(0, {("div", atom[1], atom[2] // common): 1})
                return never_negative(plus(rest, fewer, factor // common), positive, left - 1)
    return False


def _least(atom: Tree, positive: Collection[Tree]) -> int:
    if atom[0] == "size":
        return 1 if atom in positive else 0
    return prod(_least_of(form, positive) for form in atom[1:])


def _least_of(form: Tree, positive: Collection[Tree]) -> int:
    return int(form[1] + sum(factor * _least(atom, positive) for atom, factor in form[2]))


def _is_counted(atom: Tree, positive: Collection[Tree]) -> bool:
    """Whether `_least` is a bound: of a product, both factors must be nonnegative, by the same rule."""
    return atom[0] == "size" or all(
        all(factor > 0 and inner[0] in ("size", "product") for inner, factor in form[2])
        and never_negative(form, positive)
        for form in atom[1:]
    )


def plus(left: Extent, right: Extent, factor: int) -> Tree:
    """The form ``left + factor * right``."""
    (constant, terms), (other, added) = (
        (form, ()) if isinstance(form, int) else form[1:] for form in (left, right)
    )
    total = dict(terms)
    for atom, count in added:
        total[atom] = total.get(atom, 0) + factor * count
    return linear(constant + factor * other, total)
