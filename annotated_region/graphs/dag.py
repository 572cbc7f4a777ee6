"""A directed graph on 0..n-1, as adjacency lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from annotated_region.graphs.cycles import Adjacency, CycleError, find_cycle, indegrees, peeled

__all__ = ["Dag"]


@dataclass(frozen=True)
class Dag:
    """A directed graph given by its successor lists; parallel edges count once.

    Acyclicity is checked by `topological`, not by the constructor.

    Attributes
    ----------
    successors
        ``successors[v]``: the distinct users of the value of `v`, in the given order.

    Raises
    ------
    ValueError
        An edge has an end outside ``0..n-1``.

    Examples
    --------
    >>> dag = Dag([[1, 2, 2], [2], []])
    >>> dag.successors, dag.predecessors
    ([[1, 2], [2], []], [[], [0], [0, 1]])
    """

    successors: Adjacency

    def __post_init__(self) -> None:
        """Remove parallel edges, in O(n + m)."""
        successors = [list(dict.fromkeys(targets)) for targets in self.successors]
        size = len(successors)
        for vertex, targets in enumerate(successors):
            if targets and not 0 <= min(targets) <= max(targets) < size:
                target = next(target for target in targets if not 0 <= target < size)
                raise ValueError(f"edge {vertex} -> {target} leaves the vertices 0..{size - 1}")
        object.__setattr__(self, "successors", successors)

    @classmethod
    def trusted(cls, successors: Adjacency) -> Dag:
        """The graph with these lists, in O(1). Not checked: the lists contain valid vertices, each once."""
        dag = object.__new__(cls)
        object.__setattr__(dag, "successors", successors)
        return dag

    @cached_property
    def predecessors(self) -> Adjacency:
        """``predecessors[v]``: the operands of `v`, ascending. O(n + m) at the first access."""
        found: list[list[int]] = [[] for _ in self.successors]
        for vertex, targets in enumerate(self.successors):
            for target in targets:
                found[target].append(vertex)
        return found

    def __len__(self) -> int:
        """The number of vertices."""
        return len(self.successors)

    def reversed(self) -> Dag:
        """The graph with all edges reversed; it shares the lists of this one."""
        turned = Dag.trusted(self.predecessors)
        turned.__dict__["predecessors"] = self.successors
        return turned

    def induced(self, vertices: Sequence[int]) -> Dag:
        """The subgraph induced by some vertices, numbered in the given order.

        Notes
        -----
        O(the edges at `vertices`), independent of the rest of the graph.

        Examples
        --------
        >>> Dag([[1, 2], [3], [3], []]).induced([0, 2, 3])
        Dag(successors=[[1], [2], []])
        """
        local = {vertex: index for index, vertex in enumerate(vertices)}
        return Dag.trusted([[local[t] for t in self.successors[vertex] if t in local] for vertex in vertices])

    def topological(self) -> list[int]:
        """A topological order, breadth first from the sources; deterministic.

        Raises
        ------
        CycleError
            The graph is cyclic.

        Notes
        -----
        Kahn's algorithm (1962), O(n + m). `annotated_region.graphs.program_order` gives the order closest to
        the numbering, at the price of a logarithmic factor.
        """
        order = peeled(self.successors, indegrees(self.successors))
        if len(order) < len(self):
            raise CycleError([(vertex,) for vertex in find_cycle(self.successors)])
        return order
