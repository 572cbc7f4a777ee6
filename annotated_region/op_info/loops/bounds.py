"""Rejects code with out-of-bounds reads, which no op performs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from annotated_region.op_info.loops.extent_signs import never_negative, plus
from annotated_region.op_info.loops.program import Block, LoopTensor
from annotated_region.op_info.loops.trees import Extent, Tree, is_size, linear

__all__ = ["reads_in_bounds"]

Interval = tuple[int, int]


def reads_in_bounds(block: Block, tensors: Mapping[int, LoopTensor]) -> bool:
    """Whether all loads are within bounds, by interval analysis of their indices.

    Guarded loads, and indices that are themselves loaded, are not checked.
    """
    extents = (*block.spatial, *block.reduction)
    return all(
        _inside(index, extent, extents, _positive((*extents, *tensors[load[1]].shape)))
        for store in block.stores
        for load in _unguarded(store.value)
        for index, extent in zip(load[2], tensors[load[1]].shape, strict=True)
    )


def _positive(extents: tuple[Extent, ...]) -> set[Tree]:
    """The sizes that are at least 1: those of the loops and of the tensor, because nothing empty is read."""
    forms = [extent for extent in extents if not isinstance(extent, int)]
    return {form[2][0][0] for form in forms if form[1] == 0 and len(form[2]) == 1}


def _inside(index: Tree, extent: Extent, extents: tuple[Extent, ...], positive: Collection[Tree]) -> bool:
    known = [each for each in extents if isinstance(each, int)]
    if not isinstance(extent, int) or len(known) < len(extents):
        return _inside_unknown(index, extent, extents, positive)
    interval = _range(index, tuple(known))
    return interval is None or (interval[0] >= 0 and interval[1] < extent)


def _inside_unknown(
    index: Tree, extent: Extent, extents: tuple[Extent, ...], positive: Collection[Tree]
) -> bool:
    """Whether a sum of iteration variables and extents is in bounds for all sizes; other indices pass."""
    iters = [(atom, factor) for atom, factor in index[2] if atom[0] == "iter"]
    sizes = {atom: factor for atom, factor in index[2] if is_size(atom)}
    if len(iters) + len(sizes) < len(index[2]):
        return True
    least = greatest = linear(index[1], sizes)
    for atom, factor in iters:
        last = plus(extents[atom[1]], -1, 1)
        least, greatest = (
            plus(end, last, factor) if is_moved else end
            for end, is_moved in ((least, factor < 0), (greatest, factor > 0))
        )
    margins = (least, plus(plus(extent, -1, 1), greatest, -1))
    return all(never_negative(margin, positive) for margin in margins)


def _unguarded(tree: Tree) -> Iterator[Tree]:
    if tree and tree[0] == "if":
        return
    if tree and tree[0] == "load":
        yield tree
    for part in tree:
        if isinstance(part, tuple):
            yield from _unguarded(part)


def _range(index: Tree, extents: tuple[int, ...]) -> Interval | None:
    """The minimum and maximum of a linear form; None if unknown."""
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
    if atom[0] not in ("div", "mod") or not isinstance(atom[2], int):
        return None
    inner = _range(atom[1], extents)
    if atom[0] == "mod":
        return inner if inner and inner[0] >= 0 and inner[1] < atom[2] else (0, atom[2] - 1)
    return inner and (inner[0] // atom[2], inner[1] // atom[2])
