"""Matches the ops of an edited model with the ops of a lock.

Both are sequences in program order. Names alone are not enough: ``lv7`` is another op as soon as one is
inserted before it; neither is structure alone, because the blocks of a network are equal. So ops are matched
in rounds with keys of decreasing precision. Each round

1.  matches ops whose key is unique on both sides, at any position;
2.  matches ops with equal keys directly after or before a matched pair, which extends matches through equal
    blocks up to the edit.

This is patience diff (Cohen) with several keys in place of lines. An unmatched op is new, or
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, TypeAlias

__all__ = ["OpLabel", "aligned"]


class OpLabel(NamedTuple):
    """The identifying features of an op: its key, its op name, and the two fingerprints of `LockedOp`."""

    key: str
    op: str
    local: str
    around: str


_Round: TypeAlias = Callable[[OpLabel], Hashable]

# An op with changed attributes or types is the same op if its key is the same.
_CALLED: Final[_Round] = lambda label: (label.op, label.key)  # noqa: E731 - one of a table
_AROUND: Final[_Round] = lambda label: (label.op, label.local, label.around)  # noqa: E731
_ALONE: Final[_Round] = lambda label: (label.op, label.local)  # noqa: E731
_NAMES_FIRST: Final[tuple[_Round, ...]] = (
    lambda label: label,
    _AROUND,
    lambda label: (label.op, label.local, label.key),
    _ALONE,
    _CALLED,
)
_NAMES_LAST: Final[tuple[_Round, ...]] = (_AROUND, _ALONE, _CALLED)
_MOST_STRANGERS = 0.1


def _rounds(old: Sequence[OpLabel], new: Sequence[OpLabel]) -> tuple[_Round, ...]:
    """The keys of the rounds: names come first, unless too many ops differ from the old op of their name."""
    known = {label.key: (label.op, label.local) for label in old}
    both = [label for label in new if label.key in known]
    strangers = sum(known[label.key] != (label.op, label.local) for label in both)
    return _NAMES_LAST if strangers > _MOST_STRANGERS * len(both) else _NAMES_FIRST


def aligned(old: Sequence[OpLabel], new: Sequence[OpLabel]) -> list[int | None]:
    """For each op of `new`, its index in `old`, or None.

    The indices are distinct. O(n) in the ops, for each of the rounds.

    Examples
    --------
    >>> first, second, third = (OpLabel(name, "relu", "1", "2") for name in "abc")
    >>> aligned([first, third], [first, second, third])
    [0, None, 1]
    """
    pairs = _Pairs(len(old), len(new))
    for look in _rounds(old, new):
        before, after = [look(label) for label in old], [look(label) for label in new]
        pairs.join_unique(before, after)
        pairs.join_beside(before, after, step=1)
        pairs.join_beside(before, after, step=-1)
    return pairs.old_of


class _Pairs:
    """The pairs so far, from both sides."""

    def __init__(self, old: int, new: int) -> None:
        self.old_of: list[int | None] = [None] * new
        self.new_of: list[int | None] = [None] * old

    def join(self, old: int, new: int) -> None:
        self.old_of[new], self.new_of[old] = old, new

    def join_unique(self, before: Sequence[Hashable], after: Sequence[Hashable]) -> None:
        """Case 1."""
        only = _only(before, self.new_of)
        for kind, new in _only(after, self.old_of).items():
            old = only.get(kind)
            if old is not None and new is not None:
                self.join(old, new)

    def join_beside(self, before: Sequence[Hashable], after: Sequence[Hashable], step: int) -> None:
        """Case 2, in one direction along the sequences; each match may enable the next."""
        positions = range(len(after)) if step > 0 else range(len(after) - 1, -1, -1)
        for new in positions:
            if self.old_of[new] is not None:
                continue
            old = self._beside(new - step, step)
            if old is not None and before[old] == after[new]:
                self.join(old, new)

    def _beside(self, neighbour: int, step: int) -> int | None:
        """The op of the lock next to the one that a neighbour is paired with, if it is free."""
        if neighbour < 0 or neighbour >= len(self.old_of):
            # The ends of the sequences, before the first and after the last op, count as matched.
            old: int | None = -1 if step > 0 else len(self.new_of)
        else:
            old = self.old_of[neighbour]
        if old is None or not 0 <= old + step < len(self.new_of):
            return None
        return old + step if self.new_of[old + step] is None else None


def _only(kinds: Sequence[Hashable], partner: Sequence[int | None]) -> dict[Hashable, int | None]:
    """For each key, its only unmatched op; None if there are several."""
    found: dict[Hashable, int | None] = {}
    for position, kind in enumerate(kinds):
        if partner[position] is None:
            found[kind] = None if kind in found else position
    return found
