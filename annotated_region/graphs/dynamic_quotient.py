r"""The quotient graph under merges: each merge is checked for cycles, and rejected with a witness path.

The case that makes the check necessary::

      a        a and c have one colour, h has not. The edge a -> c invites a merge, but {a, c} would
     / \       need h while h needs {a, c}. The path a -> h -> c is the witness.
    h   |
     \ /
      c
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from annotated_region.graphs.contraction import contract
from annotated_region.graphs.cycles import CycleError
from annotated_region.graphs.dag import Dag
from annotated_region.graphs.disjoint_sets import DisjointSets
from annotated_region.graphs.order_list import OrderList

__all__ = ["DynamicQuotient"]


class DynamicQuotient:
    """An acyclic graph of groups that shrinks by merges and stays acyclic.

    Each group is identified by any of its vertices.

    Parameters
    ----------
    dag
        The graph.
    groups
        The initial groups; every other vertex starts as its own group.

    Raises
    ------
    CycleError
        The initial groups already close a cycle.

    Attributes
    ----------
    steps
        The number of edges visited by all searches and merges so far, for callers that bound their work.

    Notes
    -----
    A topological order of the groups is maintained. Merging a and b, where a precedes b, is safe iff no path
    of two or more edges leads from a to b. Such a path lies between the two in the order, so a forward search
    from a and a backward search from b alternate within that window. If they meet, the path is the witness.
    Otherwise one of them is exhausted, say the one from a, with the set F of reached groups: no member of F
    reaches b, so F can move directly behind b, and the merged group takes b's place. All successors of F
    inside the window are in F, so the order stays topological. The other case is symmetric.

    The search with the lower edge count after its next vertex advances next, so a check visits at most 2
    min(f, b) edges, where f and b are the edges that each search alone would visit. Merging the adjacency
    lists costs O(log n) amortised per edge, since the shorter list is always the one moved. The two-way
    search is that of Bender, Fineman, Gilbert and Tarjan, "A new approach to incremental cycle detection and
    related problems" (2016); moving the affected region is from Pearce and Kelly, "A dynamic topological sort
    algorithm for directed acyclic graphs" (2006), with an order list in place of their ranks so that moving
    one side's region suffices.

    Examples
    --------
    >>> quotient = DynamicQuotient(Dag([[1, 2], [2], [3], []]))
    >>> quotient.merge(0, 2)
    [1]
    >>> quotient.merge(2, 3), quotient.members(3)
    ([], (2, 3))
    """

    __slots__ = ("_block_of", "_members", "_order", "_predecessors", "_sets", "_successors", "steps")

    def __init__(self, dag: Dag, groups: Iterable[Sequence[int]] = ()) -> None:
        """Contract the initial groups, in O(n log n + m)."""
        quotient, blocks, self._block_of = contract(dag, groups)
        try:
            self._order = OrderList(quotient.topological())
        except CycleError as error:
            raise error.expanded(blocks) from None
        self._sets = DisjointSets(len(blocks))
        self._members = [list(block) for block in blocks]
        self._successors = [dict.fromkeys(targets) for targets in quotient.successors]
        self._predecessors = [dict.fromkeys(sources) for sources in quotient.predecessors]
        self.steps = 0

    def members(self, vertex: int) -> tuple[int, ...]:
        """The group that contains `vertex`, ascending."""
        return tuple(sorted(self._members[self._root(vertex)]))

    def name(self, vertex: int) -> int:
        """An id shared by all vertices of a group; it changes when the group is merged."""
        return self._root(vertex)

    def size(self, vertex: int) -> int:
        """The number of vertices in the group of `vertex`, in O(1) amortised."""
        return len(self._members[self._root(vertex)])

    def same(self, left: int, right: int) -> bool:
        """Whether two vertices lie in one group."""
        return self._root(left) == self._root(right)

    def groups(self) -> list[tuple[int, ...]]:
        """All groups, single vertices included, in the maintained topological order."""
        return [tuple(sorted(self._members[block])) for block in self._order.items()]

    def witness(self, left: int, right: int) -> list[int]:
        """The obstacle to merging two groups: the vertices of other groups on a path between them.

        Returns
        -------
        list
            One vertex of each group on the path, from the earlier group to the later; empty if the two can be
            merged.
        """
        first, last = self._in_order(left, right)
        if first == last:
            return []
        path, _ = self._search(first, last, None)
        return [min(self._members[block]) for block in path or ()]

    def merge(self, left: int, right: int) -> list[int]:
        """Merge the groups of two vertices, unless that would close a cycle.

        Returns
        -------
        list
            Empty if the groups are merged; otherwise the `witness`, and nothing has changed.
        """
        first, last = self._in_order(left, right)
        if first == last:
            return []
        path, side = self._search(first, last, None)
        if side is not None:
            self._join(first, last, side)
        return [min(self._members[block]) for block in path or ()]

    def try_merge(self, left: int, right: int, budget: int) -> bool:
        """Merge the groups of two vertices if at most `budget` edges suffice to show that no cycle closes.

        Returns
        -------
        bool
            Whether the two are in one group now. False may mean that the budget was too small.
        """
        first, last = self._in_order(left, right)
        if first == last:
            return True
        _, side = self._search(first, last, budget)
        if side is not None:
            self._join(first, last, side)
        return side is not None

    def _root(self, vertex: int) -> int:
        """The representative block of the group of `vertex`."""
        return self._sets.find(self._block_of[vertex])

    def _in_order(self, left: int, right: int) -> tuple[int, int]:
        """The roots of two vertices, in topological order."""
        one, other = self._root(left), self._root(right)
        label = self._order.label
        return (one, other) if label[one] <= label[other] else (other, one)

    def _search(self, first: int, last: int, budget: int | None) -> tuple[list[int] | None, _Side | None]:
        """A path of two or more edges from `first` to `last` (its inner blocks), or the exhausted side.

        Neither, if the budget is used up first.
        """
        ahead = _Side(first, last, self._successors)
        behind = _Side(last, first, self._predecessors)
        label = self._order.label
        path = None
        while path is None and ahead.waiting and behind.waiting:
            side, other = (ahead, behind) if ahead.cost() <= behind.cost() else (behind, ahead)
            if budget is not None and ahead.steps + behind.steps > budget:
                break
            path = side.advance(other, label)
        self.steps += ahead.steps + behind.steps
        if path is not None:
            return (path if path[0] == first else path[::-1])[1:-1], None
        exhausted = [side for side in (ahead, behind) if not side.waiting]
        return None, exhausted[0] if exhausted else None

    def _join(self, first: int, last: int, side: _Side) -> None:
        """Merge two blocks. The exhausted side's region moves out of the way, see the class docstring."""
        label = self._order.label
        moved = sorted(side.found(), key=label.__getitem__)
        degree = [len(self._successors[block]) + len(self._predecessors[block]) for block in (first, last)]
        kept, gone = (first, last) if degree[0] >= degree[1] else (last, first)
        if side.start == first:
            self._order.move_after(last, [kept, *moved] if kept != last else moved)
        else:
            self._order.move_before(first, [*moved, kept] if kept != first else moved)
        self._order.remove(gone)
        self._sets.unite(kept, gone)
        self._members[kept].extend(self._members[gone])
        self._members[gone] = []
        self._redirect(gone, kept)
        self.steps += min(degree) + len(moved)

    def _redirect(self, gone: int, kept: int) -> None:
        """Redirect the edges of a merged block to the block that absorbed it."""
        for edges, mirror in ((self._successors, self._predecessors), (self._predecessors, self._successors)):
            for neighbour in edges[gone]:
                del mirror[neighbour][gone]
                if neighbour != kept:
                    mirror[neighbour][kept] = None
                    edges[kept][neighbour] = None
            edges[gone] = {}


class _Side:
    """One direction of the two-way search: breadth first from `start` towards `goal`."""

    __slots__ = ("_edges", "_position", "_queue", "goal", "seen", "start", "steps")

    def __init__(self, start: int, goal: int, edges: Sequence[dict[int, None]]) -> None:
        self.start = start
        self.goal = goal
        self.seen = {start: start}
        self.steps = 0
        self._edges = edges
        self._queue = [start]
        self._position = 0

    @property
    def waiting(self) -> bool:
        """Whether there are blocks to expand."""
        return self._position < len(self._queue)

    def cost(self) -> int:
        """The number of visited edges after expanding the next block."""
        return self.steps + len(self._edges[self._queue[self._position]])

    def found(self) -> list[int]:
        """The reached blocks, without the start."""
        return self._queue[1:]

    def advance(self, other: _Side, label: list[int]) -> list[int] | None:
        """Expand one block; returns the path from start to goal if the two searches meet."""
        block = self._queue[self._position]
        low, high = sorted((label[self.start], label[self.goal]))
        self._position += 1
        self.steps += len(self._edges[block])
        for neighbour in self._edges[block]:
            if neighbour in self.seen or not low <= label[neighbour] <= high:
                continue
            if neighbour == self.goal and block == self.start:
                continue  # the direct edge is contracted by the merge
            if neighbour in other.seen:
                return [*self._trail(block)[::-1], *other._trail(neighbour)]
            self.seen[neighbour] = block
            self._queue.append(neighbour)
        return None

    def _trail(self, block: int) -> list[int]:
        """The path from a block back to the start."""
        trail = [block]
        while block != self.start:
            block = self.seen[block]
            trail.append(block)
        return trail
