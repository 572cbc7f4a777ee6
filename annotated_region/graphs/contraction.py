"""The contraction of groups of vertices: the quotient graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from annotated_region.graphs.dag import Dag

__all__ = ["Contraction", "contract"]


class Contraction(NamedTuple):
    """A quotient graph, and its mapping to the contracted graph.

    Attributes
    ----------
    quotient
        The graph of the blocks, without self-loops; it may be cyclic.
    blocks
        The vertices that each quotient vertex stands for, ascending. Blocks are numbered by their smallest
        vertex.
    block_of
        The block number of each vertex.
    """

    quotient: Dag
    blocks: list[tuple[int, ...]]
    block_of: list[int]


def contract(dag: Dag, groups: Iterable[Sequence[int]]) -> Contraction:
    """The quotient graph in which each group is one vertex.

    Parameters
    ----------
    dag
        The graph.
    groups
        Disjoint sets of vertices; every other vertex forms its own block.

    Raises
    ------
    ValueError
        The groups overlap or contain an unknown vertex.

    Notes
    -----
    O(n log n + m). Whether the quotient is acyclic is not checked.

    Examples
    --------
    >>> quotient, blocks, block_of = contract(Dag([[1, 2], [3], [3], []]), [(3, 1)])
    >>> quotient, blocks, block_of
    (Dag(successors=[[1, 2], [], [1]]), [(0,), (1, 3), (2,)], [0, 1, 2, 1])
    """
    blocks = _blocks(len(dag), groups)
    block_of = [0] * len(dag)
    for index, block in enumerate(blocks):
        for vertex in block:
            block_of[vertex] = index
    successors = dag.successors
    targets: list[list[int]] = []
    for index, block in enumerate(blocks):
        found = dict.fromkeys([block_of[target] for vertex in block for target in successors[vertex]])
        found.pop(index, None)
        targets.append(list(found))
    return Contraction(Dag.trusted(targets), blocks, block_of)


def _blocks(size: int, groups: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """The groups and the remaining single vertices, by smallest vertex."""
    blocks = [tuple(sorted(group)) for group in groups if len(group)]
    inside = [vertex for block in blocks for vertex in block]
    covered = set(inside)
    if len(covered) < len(inside):
        raise ValueError("a vertex lies in two groups, or twice in one")
    if covered and not 0 <= min(covered) <= max(covered) < size:
        raise ValueError(f"a group names a vertex outside 0..{size - 1}")
    blocks.extend((vertex,) for vertex in range(size) if vertex not in covered)
    return sorted(blocks)
