"""Directed acyclic graphs on 0..n-1, their deterministic order, and the contraction of groups.

Everything in ``annotated_region.grouping`` works on plain integers and knows nothing of TVM.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["CycleError", "Dag", "contract", "find_cycle"]


class CycleError(ValueError):
    """A graph that has to be acyclic is not.

    Attributes
    ----------
    cycle
        The blocks along one cycle, each the tuple of its vertices; the last feeds the first.
    """

    def __init__(self, cycle: Sequence[tuple[int, ...]]) -> None:
        blocks = " -> ".join(_name(block) for block in (*cycle, *cycle[:1]))
        super().__init__(f"the graph has a cycle: {blocks}")
        self.cycle = tuple(cycle)


def _name(block: tuple[int, ...]) -> str:
    """One vertex as its number, a group in braces."""
    return str(block[0]) if len(block) == 1 else "{" + ", ".join(map(str, block)) + "}"


@dataclass(frozen=True, slots=True)
class Dag:
    """A directed graph given by its successor lists; parallel edges count once.

    Whether it is acyclic is found out by `topological`, which every algorithm here calls first.

    Attributes
    ----------
    successors
        ``successors[v]``: the vertices that use what `v` makes, each once, in the order given.
    predecessors
        The same seen from the consumers, derived; ascending.

    Raises
    ------
    ValueError
        If an edge leaves ``0..n-1``.
    """

    successors: Sequence[Sequence[int]]
    predecessors: Sequence[Sequence[int]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Drop parallel edges and derive the predecessors, in O(n + m)."""
        successors = [list(dict.fromkeys(targets)) for targets in self.successors]
        predecessors: list[list[int]] = [[] for _ in successors]
        size = len(successors)
        for vertex, targets in enumerate(successors):
            for target in targets:
                if not 0 <= target < size:
                    raise ValueError(f"edge {vertex} -> {target} leaves the vertices 0..{size - 1}")
                predecessors[target].append(vertex)
        object.__setattr__(self, "successors", successors)
        object.__setattr__(self, "predecessors", predecessors)

    def __len__(self) -> int:
        """The number of vertices."""
        return len(self.successors)

    def reversed(self) -> Dag:
        """The same graph with every edge turned round."""
        turned = Dag(())
        object.__setattr__(turned, "successors", self.predecessors)
        object.__setattr__(turned, "predecessors", self.successors)
        return turned

    def topological(self) -> list[int]:
        """A topological order, the same in every process (Kahn, "Topological sorting of large networks",
        1962).

        Raises
        ------
        CycleError
            If there is none.

        Notes
        -----
        O(n + m). The order is breadth-first from the sources; for the order closest to the program's
        own numbering see `annotated_region.grouping.ordering`.
        """
        missing = [len(sources) for sources in self.predecessors]
        ready = deque(vertex for vertex, count in enumerate(missing) if not count)
        done: list[int] = []
        while ready:
            vertex = ready.popleft()
            done.append(vertex)
            for target in self.successors[vertex]:
                missing[target] -= 1
                if not missing[target]:
                    ready.append(target)
        if len(done) < len(self):
            raise CycleError([(vertex,) for vertex in find_cycle(self, missing)])
        return done


def find_cycle(dag: Dag, missing: Sequence[int]) -> list[int]:
    """One cycle among the vertices that Kahn's algorithm could not place.

    Parameters
    ----------
    dag
        The graph.
    missing
        For each vertex, the number of predecessors that were never placed; at least one is positive.

    Notes
    -----
    Every vertex left over has a predecessor that is left over too, so walking backwards must return to a
    vertex already seen. O(n + m).
    """
    vertex = next(v for v, count in enumerate(missing) if count)
    seen: dict[int, None] = {}
    while vertex not in seen:
        seen[vertex] = None
        vertex = next(source for source in dag.predecessors[vertex] if missing[source])
    walk = list(seen)
    cycle = walk[walk.index(vertex) :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def contract(dag: Dag, groups: Iterable[Sequence[int]]) -> tuple[Dag, list[tuple[int, ...]], list[int]]:
    """The quotient graph in which each group is one vertex.

    Parameters
    ----------
    dag
        The graph.
    groups
        Disjoint sets of vertices; a vertex in none of them stays alone.

    Returns
    -------
    tuple
        The quotient, which may be cyclic; the blocks that its vertices stand for, each ascending, numbered by
        their smallest vertex; and for each old vertex the number of its block.

    Raises
    ------
    ValueError
        If the groups overlap or name an unknown vertex.

    Notes
    -----
    O(n log n + m).
    """
    blocks = _blocks(len(dag), groups)
    block_of = [0] * len(dag)
    for index, block in enumerate(blocks):
        for vertex in block:
            block_of[vertex] = index
    successors = [_targets(dag, block, block_of) for block in blocks]
    return Dag(successors), blocks, block_of


def _blocks(size: int, groups: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """The groups and the vertices left alone, by smallest vertex."""
    blocks = [tuple(sorted(group)) for group in groups if len(group)]
    inside = [vertex for block in blocks for vertex in block]
    covered = set(inside)
    if len(covered) < len(inside):
        raise ValueError("a vertex lies in two groups, or twice in one")
    if covered and not 0 <= min(covered) <= max(covered) < size:
        raise ValueError(f"a group names a vertex outside 0..{size - 1}")
    blocks.extend((vertex,) for vertex in range(size) if vertex not in covered)
    return sorted(blocks)


def _targets(dag: Dag, block: tuple[int, ...], block_of: list[int]) -> list[int]:
    """The other blocks that a block feeds, each once."""
    own = block_of[block[0]]
    found = dict.fromkeys(block_of[target] for vertex in block for target in dag.successors[vertex])
    found.pop(own, None)
    return list(found)
