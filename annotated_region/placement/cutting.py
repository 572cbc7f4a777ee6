"""Cutting a sequence into the largest parts that are accepted, with a bounded number of questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Cut", "cut"]

Item = TypeVar("Item")

ASKED_OF_ALL = 24
"""A sequence of so many items has each of its beginnings asked for; a longer one has some."""


@dataclass(frozen=True, slots=True)
class Cut(Generic[Item]):
    """Parts of a sequence.

    Attributes
    ----------
    parts
        The accepted parts, in order, each a run of items.
    refused
        The items that are in no part.
    """

    parts: list[list[Item]]
    refused: list[Item]


def cut(items: Sequence[Item], accepts: Callable[[Sequence[Item]], bool]) -> Cut[Item]:
    """Cut a sequence into accepted runs: the longest accepted beginning, then the same of what is left.

    Cut so along a topological order of its units, a region of an acyclic quotient leaves it acyclic: its
    parts follow one another, and no path leaves the region and comes back.

    Parameters
    ----------
    items
        The sequence.
    accepts
        Whether a run may be a part. It may accept a run and refuse a shorter one.

    Notes
    -----
    O(n) questions for each part of a short sequence, O(log n) for each of a long one, which are then answered
    with the longest beginning that bisection and the first `ASKED_OF_ALL` lengths find.
    """
    parts: list[list[Item]] = []
    refused: list[Item] = []
    left = list(items)
    while left:
        length = _longest(left, accepts)
        if length:
            parts.append(left[:length])
        else:
            refused.append(left[0])
        left = left[max(length, 1) :]
    return Cut(parts, refused)


def _longest(items: Sequence[Item], accepts: Callable[[Sequence[Item]], bool]) -> int:
    """The length of the longest accepted beginning that is found; 0 if none is."""
    if accepts(items):
        return len(items)
    low, high = 0, len(items)  # a beginning of `low` items is accepted, or `low` is 0; one of `high` is not
    while high - low > 1 and high > ASKED_OF_ALL:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(items[:middle]) else (low, middle)
    if high > ASKED_OF_ALL:
        return low
    for length in range(high - 1, low, -1):
        if accepts(items[:length]):
            return length
    return low
