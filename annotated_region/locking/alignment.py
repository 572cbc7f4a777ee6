"""Which op of a model is which op of a lock, after the model was edited.

Both are sequences in program order. Names alone do not tell: ``lv7`` is another op as soon as one is inserted
before it; and neither does structure alone, as the blocks of a network are alike. So pairs are made in
rounds, of ops that agree in less and less. In each round

1.  ops pair that are the only ones of their kind on both sides, wherever they stand;
2.  ops pair that agree and stand right behind a pair, or right before one, which runs along blocks that are
    alike up to where the edit was.

This is patience diff (Cohen) with several keys in the place of lines. An op that is left over is new, or
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, TypeAlias

__all__ = ["OpLabel", "aligned"]


class OpLabel(NamedTuple):
    """What an op is known by: its key, what it computes, and the two fingerprints of `LockedOp`."""

    key: str
    op: str
    local: str
    around: str


_Round: TypeAlias = Callable[[OpLabel], Hashable]

# An op whose attributes or types changed is the same op, if it is called the same.
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
    """In which order to compare: names count first unless one op in ten is called like another one."""
    known = {label.key: (label.op, label.local) for label in old}
    both = [label for label in new if label.key in known]
    strangers = sum(known[label.key] != (label.op, label.local) for label in both)
    return _NAMES_LAST if strangers > _MOST_STRANGERS * len(both) else _NAMES_FIRST


def aligned(old: Sequence[OpLabel], new: Sequence[OpLabel]) -> list[int | None]:
    """For each op of `new` its position in `old`, or None.

    No position stands twice. O(n) in the ops, for each of the rounds.

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
        """Case 2, one way along the sequences; what was joined leads on to the next."""
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
            # Before the first op, and behind the last one, stands the edge of both sequences.
            old: int | None = -1 if step > 0 else len(self.new_of)
        else:
            old = self.old_of[neighbour]
        if old is None or not 0 <= old + step < len(self.new_of):
            return None
        return old + step if self.new_of[old + step] is None else None


def _only(kinds: Sequence[Hashable], partner: Sequence[int | None]) -> dict[Hashable, int | None]:
    """By kind, the one op without partner that is of it; None if there are several."""
    found: dict[Hashable, int | None] = {}
    for position, kind in enumerate(kinds):
        if partner[position] is None:
            found[kind] = None if kind in found else position
    return found
