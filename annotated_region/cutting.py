"""Cuts a sequence into maximal accepted parts, with a bounded number of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Cut", "cut"]

Item = TypeVar("Item")

ASKED_OF_ALL = 24
"""The length up to which all prefixes of a sequence are queried; for longer ones, only some."""


@dataclass(frozen=True, slots=True)
class Cut(Generic[Item]):
    """Parts of a sequence.

    Attributes
    ----------
    parts
        The accepted parts, in order, each a contiguous run of items.
    refused
        The items outside all parts.
    """

    parts: list[list[Item]]
    refused: list[Item]


def cut(items: Sequence[Item], accepts: Callable[[Sequence[Item]], bool]) -> Cut[Item]:
    """Cut a sequence greedily into accepted runs: the longest accepted prefix, then recursively the rest.

    Cutting a region along a topological order of its units keeps an acyclic quotient acyclic: its
    parts are ordered, and no path leaves the region and re-enters it.

    Parameters
    ----------
    items
        The sequence.
    accepts
        Whether a run may be a part. It need not be monotone: it may accept a run and refuse a shorter one.

    Notes
    -----
    O(n) queries per part of a short sequence. For a long one O(log n) per part: the result is then
    the longest prefix found by bisection and by the first `ASKED_OF_ALL` lengths.
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
    """The length of the longest accepted prefix found; 0 if there is none."""
    if accepts(items):
        return len(items)
    low, high = 0, len(items)  # invariant: `low` is 0 or an accepted length; `high` is a refused length
    while high - low > 1 and high > ASKED_OF_ALL:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(items[:middle]) else (low, middle)
    if high > ASKED_OF_ALL:
        return low
    for length in range(high - 1, low, -1):
        if accepts(items[:length]):
            return length
    return low
