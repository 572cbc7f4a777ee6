"""Refuses code that reads outside of its buffers: it computes nothing that an op could be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from annotated_region.op_info.loops.program import Block, Tensor
from annotated_region.op_info.loops.trees import Tree

__all__ = ["reads_in_bounds"]

Interval = tuple[int, int]


def reads_in_bounds(block: Block, tensors: Mapping[int, Tensor]) -> bool:
    """Whether no load leaves its buffer, as far as the ranges of indices show.

    Loads behind a guard are not looked at, nor are indices that are loaded themselves.
    """
    extents = (*block.spatial, *block.reduction)
    return all(
        _inside(index, extent, extents)
        for store in block.stores
        for load in _unguarded(store.value)
        for index, extent in zip(load[2], tensors[load[1]].shape, strict=True)
    )


def _inside(index: Tree, extent: int, extents: tuple[int, ...]) -> bool:
    interval = _range(index, extents)
    return interval is None or (interval[0] >= 0 and interval[1] < extent)


def _unguarded(tree: Tree) -> Iterator[Tree]:
    if tree and tree[0] == "if":
        return
    if tree and tree[0] == "load":
        yield tree
    for part in tree:
        if isinstance(part, tuple):
            yield from _unguarded(part)


def _range(index: Tree, extents: tuple[int, ...]) -> Interval | None:
    """The least and the largest value of a linear form; None if it is not known."""
    low = high = int(index[1])
    for atom, factor in index[2]:
        interval = _range_of_atom(atom, extents)
        if interval is None:
            return None
        ends = sorted(factor * end for end in interval)
        low, high = low + ends[0], high + ends[1]
    return low, high


def _range_of_atom(atom: Tree, extents: tuple[int, ...]) -> Interval | None:
    if atom[0] == "iter":
        return 0, extents[atom[1]] - 1
    if atom[0] not in ("div", "mod"):
        return None
    inner = _range(atom[1], extents)
    if atom[0] == "mod":
        return inner if inner and inner[0] >= 0 and inner[1] < atom[2] else (0, atom[2] - 1)
    return inner and (inner[0] // atom[2], inner[1] // atom[2])
