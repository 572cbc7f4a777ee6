"""Order maintenance: a list that compares the positions of two items in O(1), and moves items cheaply."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["OrderList"]

_GAP = 1 << 24
_OVERFLOW = 1.4
"""A range of 2**i labels may hold (2 / _OVERFLOW)**i items before it is relabelled with the next larger
range.
"""


class OrderList:
    """Items 0..n-1 in a linear order with integer labels that increase along it.

    ``label[x] < label[y]`` iff x precedes y. This is the list-labelling structure of Bender, Cole, Demaine,
    Farach-Colton and Zito, "Two simplified algorithms for maintaining order in a list" (2002): if there is no
    free label between an item's neighbours, the smallest enclosing range of labels that is sparse enough is
    relabelled evenly. Insertion costs O(log n) amortised.
    """

    __slots__ = ("_end", "_next", "_previous", "label")

    def __init__(self, order: Sequence[int]) -> None:
        """Initialize from a permutation of 0..n-1."""
        self._end = len(order)
        self.label = [0] * (len(order) + 1)
        self._next = [0] * (len(order) + 1)
        self._previous = [0] * (len(order) + 1)
        before = self._end  # the sentinel closes the ring on both sides
        for position, item in enumerate(order, 1):
            self.label[item] = position * _GAP
            self._previous[item] = before
            self._next[before] = item
            before = item
        self._next[before] = self._end
        self._previous[self._end] = before

    def items(self) -> list[int]:
        """The items in order."""
        found = []
        item = self._next[self._end]
        while item != self._end:
            found.append(item)
            item = self._next[item]
        return found

    def remove(self, item: int) -> None:
        """Remove an item, in O(1); it may be inserted again."""
        before, after = self._previous[item], self._next[item]
        self._next[before] = after
        self._previous[after] = before

    def move_after(self, place: int, items: Sequence[int]) -> None:
        """Move `items`, in this order, directly behind `place`."""
        for item in reversed(items):
            self.remove(item)
            self._insert(item, place, self._next[place])

    def move_before(self, place: int, items: Sequence[int]) -> None:
        """Move `items`, in this order, directly in front of `place`."""
        for item in items:
            self.remove(item)
            self._insert(item, self._previous[place], place)

    def _insert(self, item: int, before: int, after: int) -> None:
        """Link `item` between two neighbours and assign its label."""
        self._next[before] = self._previous[after] = item
        self._previous[item], self._next[item] = before, after
        if before == self._end and after == self._end:
            self.label[item] = 0
        elif before == self._end:
            self.label[item] = self.label[after] - _GAP
        elif after == self._end:
            self.label[item] = self.label[before] + _GAP
        else:
            self.label[item] = (self.label[before] + self.label[after]) // 2
            if self.label[item] == self.label[before]:
                self._spread(item)

    def _spread(self, item: int) -> None:
        """Relabel the smallest range of labels around `item` that is sparse enough."""
        label = self.label
        first = last = item
        count, bits = 1, 0
        while True:
            bits += 1
            block = label[item] >> bits
            while self._previous[first] != self._end and label[self._previous[first]] >> bits == block:
                first, count = self._previous[first], count + 1
            while self._next[last] != self._end and label[self._next[last]] >> bits == block:
                last, count = self._next[last], count + 1
            if count * 2 <= (2 / _OVERFLOW) ** bits:
                break
        start, step = block << bits, (1 << bits) // count
        for position in range(count):
            label[first] = start + position * step
            first = self._next[first]
