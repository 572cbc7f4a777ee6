"""Finds blocks of nodes that follow each other several times, such as the layers of a transformer.

Nodes are given as tokens: nodes with equal tokens may have the same place in two blocks. A run is a stretch
in which each token equals the one that lies a block before it. It may end with a part of a block::

    a  b c d  b c d  b c  e        a run from the first b on: a block is three tokens, the run eight

The first block may contain nodes that compute something for all blocks: TVM imports a mask that all layers
read where the first layer reads it. `gather` moves such nodes before the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from annotated_region.backends.dnnl.graph import Graph, Node
from annotated_region.backends.dnnl.rewriting.rewriter import PRODUCTS

__all__ = ["BlockRun", "gather", "numbered", "runs"]

LONGEST = 256
"""In nodes: longer blocks are not sought."""

LEAST_SAVED = 4
"""In nodes: repeating fewer is not worth the tables of a repeat."""

MOST_MOVED = 16
"""In nodes, out of one block."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A stretch of `size` tokens from `first` on, in which blocks of `length` tokens are equal."""

    first: int
    length: int
    size: int

    @property
    def times(self) -> int:
        """The number of whole blocks."""
        return self.size // self.length

    @property
    def end(self) -> int:
        """The end of the last whole block."""
        return self.first + self.times * self.length

    @property
    def saved(self) -> int:
        """The number of tokens in all whole blocks but one."""
        return (self.times - 1) * self.length


def numbered(keys: Sequence[object]) -> np.ndarray:
    """A token for each key, equal for equal keys."""
    known: dict[object, int] = {}
    return np.asarray([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def runs(tokens: np.ndarray) -> list[BlockRun]:
    """The runs in a sequence of tokens, in order; their whole blocks are disjoint.

    Notes
    -----
    The run that saves most is taken, then likewise on both sides of it. The time is linear in the number of
    tokens, for each run and each length of a block.
    """
    found: list[BlockRun] = []
    stretches = [(0, len(tokens))]
    while stretches:
        begin, end = stretches.pop()
        best = _best(tokens[begin:end])
        if best.saved >= LEAST_SAVED:
            found.append(replace(best, first=begin + best.first))
            stretches += [(begin, found[-1].first), (found[-1].end, end)]
    return sorted(found, key=lambda run: run.first)


def _best(tokens: np.ndarray) -> BlockRun:
    """The run that saves most, of these the one with the shortest blocks."""
    lengths = range(1, min(LONGEST, len(tokens) // 2) + 1)
    found = (_longest(tokens, length) for length in lengths)
    return max(found, key=lambda run: run.saved, default=BlockRun(0, 1, 1))


def _longest(tokens: np.ndarray, length: int) -> BlockRun:
    """The longest run of blocks of a length; a single block if there is none."""
    equal = tokens[length:] == tokens[:-length]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False]))))
    begins, sizes = edges[::2], edges[1::2] - edges[::2]
    if not begins.size:
        return BlockRun(0, length, length)
    best = int(np.argmax(sizes))
    return BlockRun(int(begins[best]), length, length + int(sizes[best]))


def gather(graph: Graph) -> None:
    """Move nodes that only the first block of a run has before it, if this makes it equal to the others."""
    tokens = numbered([_likeness(graph, node) for node in graph.nodes])
    moves: list[tuple[int, list[int]]] = []
    floor = 0
    for run in runs(tokens):
        begin, strangers = _completed(tokens, run, floor)
        moved = _movable(graph.nodes, tokens, begin, strangers)
        if moved is not None:
            moves.append((begin, moved))
        floor = run.end
    for begin, moved in reversed(moves):
        nodes = [graph.nodes[index] for index in moved]
        for index in reversed(moved):
            del graph.nodes[index]
        graph.nodes[begin:begin] = nodes
    if moves:
        graph.compact()


def _likeness(graph: Graph, node: Node) -> str:
    """A key that is equal for nodes that do the same with operands of the same types and static extents."""
    found = [graph.tensors[tensor] for tensor in (*node.operands, node.output)]
    types = [(tensor.is_constant, tensor.dtype.value, tensor.half) for tensor in found]
    shapes = [[extent if isinstance(extent, int) else None for extent in tensor.shape] for tensor in found]
    posts = [post.algorithm for post in node.post_ops]
    return repr((node.kind.value, node.parameters, posts, types, shapes))


def _completed(tokens: np.ndarray, run: BlockRun, floor: int) -> tuple[int, list[int]]:
    """Where a run with one block more would begin, and the tokens behind that which its blocks do not have.

    There are no such tokens if the run cannot be extended.
    """
    missing = run.length - run.size % run.length
    expected = run.first + run.length - 1
    strangers: list[int] = []
    for index in range(run.first - 1, floor - 1, -1):
        if tokens[index] != tokens[expected]:
            strangers.append(index)
            if len(strangers) > MOST_MOVED:
                break
            continue
        expected, missing = expected - 1, missing - 1
        if not missing:
            return index, strangers[::-1]
    return run.first, []


def _movable(
    nodes: Sequence[Node], tokens: np.ndarray, begin: int, strangers: Sequence[int]
) -> list[int] | None:
    """The nodes to be moved to `begin` instead of strangers; None if there are none, or one cannot be moved.

    A node can be moved if all that it reads is computed before `begin`, or moved with it. This decides which
    of several equal tokens in a row is the stranger. Products stay where they are: they read and write much
    memory, and the next node reads it again while it is in a cache.
    """
    late = {node.output for node in nodes[begin:]}
    moved: list[int] = []
    for stranger in strangers:
        free = (
            index
            for index in _row_of(tokens, stranger)
            if index not in moved and late.isdisjoint(nodes[index].operands)
        )
        index = next(free, None)
        if index is None or nodes[index].kind in PRODUCTS:
            return None
        late.remove(nodes[index].output)
        moved.append(index)
    return sorted(moved) or None


def _row_of(tokens: np.ndarray, index: int) -> Iterator[int]:
    """The equal tokens in a row that begins at `index`."""
    for each in range(index, len(tokens)):
        if tokens[each] != tokens[index]:
            return
        yield each
