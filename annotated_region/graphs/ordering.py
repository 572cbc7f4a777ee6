"""Topological orders of contracted graphs, as certificates that the quotient is acyclic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from annotated_region.graphs.contraction import contract
from annotated_region.graphs.cycles import CycleError, find_cycle, indegrees, peeled
from annotated_region.graphs.dag import Dag

__all__ = ["is_acyclic", "program_order"]


def program_order(dag: Dag, groups: Iterable[Sequence[int]] = ()) -> list[tuple[int, ...]]:
    """The blocks of the quotient graph in topological order.

    Among the ready blocks, the one with the smallest vertex comes first, so the order stays as close to the
    program order as the groups allow.

    Parameters
    ----------
    dag
        The graph, numbered in program order.
    groups
        Disjoint sets of vertices; every other vertex forms its own block.

    Returns
    -------
    list
        Each block as the ascending tuple of its vertices.

    Raises
    ------
    CycleError
        The quotient graph has a cycle; ``error.cycle`` lists its blocks.
    ValueError
        The groups overlap or contain an unknown vertex.

    Notes
    -----
    Kahn's algorithm (1962) with a heap: O(n log n + m). networkx calls it
    `lexicographical_topological_sort`.

    Examples
    --------
    >>> program_order(Dag([[2], [3], [3], []]), [(0, 2)])
    [(0, 2), (1,), (3,)]
    """
    quotient, blocks, _ = contract(dag, groups)
    successors = quotient.successors
    waiting = indegrees(successors)
    ready = [block for block, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[tuple[int, ...]] = []
    while ready:
        block = heappop(ready)
        order.append(blocks[block])
        for target in successors[block]:
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, target)
    if len(order) < len(blocks):
        raise CycleError([blocks[block] for block in find_cycle(successors)])
    return order


def is_acyclic(dag: Dag, groups: Iterable[Sequence[int]]) -> bool:
    """Whether the quotient graph has no cycle. O(n log n + m).

    Examples
    --------
    >>> is_acyclic(Dag([[1], [2], []]), [(0, 2)])
    False
    """
    successors = contract(dag, groups).quotient.successors
    return len(peeled(successors, indegrees(successors))) == len(successors)
