"""Finds what keeps two groups apart: a vertex on a path between them."""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.graphs import Dag, DynamicQuotient

__all__ = ["Blockers", "blocker"]


class Blockers:
    """Finds, for pairs of groups of one valid grouping, what keeps them apart.

    Parameters
    ----------
    dag
        The graph.
    groups
        The groups, as in ``Grouping.groups``.

    Raises
    ------
    CycleError
        The grouping is not valid.

    Notes
    -----
    Construction is O(n log n + m). A query is a two-way breadth-first search bounded by a topological order
    of the groups (see `DynamicQuotient`), linear in the visited subgraph.
    """

    __slots__ = ("_dag", "_grouped", "_groups", "_quotient")

    def __init__(self, dag: Dag, groups: Sequence[Sequence[int]]) -> None:
        self._dag = dag
        self._groups = groups
        self._grouped = {vertex for group in groups for vertex in group}
        self._quotient = DynamicQuotient(dag, groups)

    def between(self, left: int, right: int) -> int | None:
        """A vertex on a path between two groups, outside both.

        Parameters
        ----------
        left, right
            Indices of two groups.

        Returns
        -------
        int or None
            A vertex in no group if the path found has one, else the smallest vertex at which the path enters
            another group. None if no path prevents the merge; then a limit or connectedness did.
        """
        path = self._quotient.witness(self._groups[left][0], self._groups[right][0])
        alone = [vertex for vertex in path if vertex not in self._grouped]
        if alone or not path:
            return alone[0] if alone else None
        ends = {*self._groups[left], *self._groups[right]}
        entered = self._quotient.members(path[0])
        return next(v for v in entered if not ends.isdisjoint(self._dag.predecessors[v]))


def blocker(dag: Dag, groups: Sequence[Sequence[int]], left: int, right: int) -> int | None:
    """`Blockers.between` for a single query.

    Examples
    --------
    >>> blocker(Dag([[1, 2], [2], []]), [(0,), (2,)], 0, 1)
    1
    """
    return Blockers(dag, groups).between(left, right)
