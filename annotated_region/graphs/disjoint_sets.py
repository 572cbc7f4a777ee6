"""Disjoint sets of integers under union."""

from __future__ import annotations

__all__ = ["DisjointSets"]


class DisjointSets:
    """A partition of 0..n-1 under unions: a union-find forest with path halving.

    The caller chooses the representative of a union, because callers keep data by representative; so there is
    no union by rank, and path halving alone bounds the depth.

    Notes
    -----
    O(log n) amortised for each operation (Tarjan and van Leeuwen, "Worst-case analysis of set union
    algorithms", 1984).

    Examples
    --------
    >>> sets = DisjointSets(4)
    >>> sets.unite(2, 0)
    2
    >>> sets.find(0), sets.find(1)
    (2, 1)
    """

    __slots__ = ("_parent",)

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, item: int) -> int:
        """The representative of the set that contains `item`."""
        parent = self._parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def unite(self, kept: int, gone: int) -> int:
        """Unite the sets of two items; the representative of the first is kept, and returned."""
        name = self.find(kept)
        self._parent[self.find(gone)] = name
        return name
