"""Refuses code that reads outside of its buffers: it computes nothing that an op could be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from annotated_region.op_info.loops.program import Block, Tensor
from annotated_region.op_info.loops.trees import Extent, Tree, linear

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


def _inside(index: Tree, extent: Extent, extents: tuple[Extent, ...]) -> bool:
    known = [each for each in extents if isinstance(each, int)]
    if not isinstance(extent, int) or len(known) < len(extents):
        return _inside_unknown(index, extent, extents)
    interval = _range(index, tuple(known))
    return interval is None or (interval[0] >= 0 and interval[1] < extent)


def _inside_unknown(index: Tree, extent: Extent, extents: tuple[Extent, ...]) -> bool:
    """Whether a sum of iteration variables stays inside, whatever the sizes are; other indices pass."""
    _, offset, terms = index
    if any(atom[0] != "iter" for atom, _ in terms):
        return True
    room = _plus(("linear", -1 - offset, ()), extent, 1)  # what is left behind the largest index
    for atom, factor in terms:
        room = _plus(("linear", room[1] + factor, room[2]), extents[atom[1]], -factor)
    never_negative = room[1] >= 0 and all(factor > 0 for _, factor in room[2])
    return never_negative and offset >= 0 and all(factor > 0 for _, factor in terms)


def _plus(form: Tree, extent: Extent, factor: int) -> Tree:
    constant, terms = (extent, ()) if isinstance(extent, int) else extent[1:]
    total = dict(form[2])
    for atom, count in terms:
        total[atom] = total.get(atom, 0) + factor * count
    return linear(form[1] + factor * constant, total)


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
