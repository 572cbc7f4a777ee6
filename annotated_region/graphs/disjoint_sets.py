"""Disjoint sets of integers under union."""

from __future__ import annotations

__all__ = ["DisjointSets"]


class DisjointSets:
    """A partition of 0..n-1 that grows coarser: a union-find forest with path halving.

    Who names the union is the caller's choice, because callers keep data by name; so the trees are not
    balanced, and halving alone keeps them low.

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
        """The name of the set that holds `item`: one of its members."""
        parent = self._parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def unite(self, kept: int, gone: int) -> int:
        """Make one set of the sets of two items; the name of the first names the union, and is returned."""
        name = self.find(kept)
        self._parent[self.find(gone)] = name
        return name
