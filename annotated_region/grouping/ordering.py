"""A topological order of groups and host vertices: the certificate that a grouping is valid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from annotated_region.grouping.dag import CycleError, Dag, contract, find_cycle

__all__ = ["order"]


def order(dag: Dag, groups: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """The blocks of the quotient graph, every block after those that it needs.

    Among the blocks that could come next, the one with the smallest vertex comes first, so the order
    stays as close to the program's own as the groups allow.

    Parameters
    ----------
    dag
        The graph; its numbering is the program's.
    groups
        Disjoint sets of vertices, as in ``Grouping.groups``; all other vertices are blocks of their own.

    Returns
    -------
    list
        Each block as the ascending tuple of its vertices.

    Raises
    ------
    CycleError
        If the quotient graph has a cycle; ``error.cycle`` lists its blocks.
    ValueError
        If the groups overlap or name an unknown vertex.

    Notes
    -----
    Kahn's algorithm (1962) with a heap: O(n log n + m).

    Examples
    --------
    >>> order(Dag([[2], [3], [3], []]), [(0, 2)])
    [(0, 2), (1,), (3,)]
    """
    quotient, blocks, _ = contract(dag, groups)
    missing = [len(sources) for sources in quotient.predecessors]
    ready = [block for block, count in enumerate(missing) if not count]
    heapify(ready)
    done: list[tuple[int, ...]] = []
    while ready:
        block = heappop(ready)
        done.append(blocks[block])
        for target in quotient.successors[block]:
            missing[target] -= 1
            if not missing[target]:
                heappush(ready, target)
    if len(done) < len(blocks):
        raise CycleError([blocks[block] for block in find_cycle(quotient, missing)])
    return done
