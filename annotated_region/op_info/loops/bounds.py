"""Rejects code with out-of-bounds reads, which no op performs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from annotated_region.op_info.loops.program import Block, LoopTensor
from annotated_region.op_info.loops.trees import Extent, Tree, linear

__all__ = ["reads_in_bounds"]

Interval = tuple[int, int]


def reads_in_bounds(block: Block, tensors: Mapping[int, LoopTensor]) -> bool:
    """Whether all loads are within bounds, by interval analysis of their indices.

    Guarded loads, and indices that are themselves loaded, are not checked.
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
    """Whether a sum of iteration variables and sizes is in bounds for all sizes; other indices pass."""
    iters = [(atom, factor) for atom, factor in index[2] if atom[0] == "iter"]
    sizes = {atom: factor for atom, factor in index[2] if atom[0] == "size"}
    if len(iters) + len(sizes) < len(index[2]):
        return True
    least = greatest = linear(index[1], sizes)
    for atom, factor in iters:
        last = _plus(extents[atom[1]], -1, 1)
        least, greatest = (
            _plus(end, last, factor) if is_moved else end
            for end, is_moved in ((least, factor < 0), (greatest, factor > 0))
        )
    return _never_negative(least) and _never_negative(_plus(_plus(extent, -1, 1), greatest, -1))


def _never_negative(form: Tree) -> bool:
    """Whether a form of sizes is nonnegative; sizes are at least 1, because empty tensors are never read."""
    factors = [factor for _, factor in form[2]]
    return min(factors, default=0) >= 0 and int(form[1]) + sum(factors) >= 0


def _plus(left: Extent, right: Extent, factor: int) -> Tree:
    """The form ``left + factor * right``."""
    (constant, terms), (other, added) = (
        (form, ()) if isinstance(form, int) else form[1:] for form in (left, right)
    )
    total = dict(terms)
    for atom, count in added:
        total[atom] = total.get(atom, 0) + factor * count
    return linear(constant + factor * other, total)


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
    if atom[0] not in ("div", "mod"):
        return None
    inner = _range(atom[1], extents)
    if atom[0] == "mod":
        return inner if inner and inner[0] >= 0 and inner[1] < atom[2] else (0, atom[2] - 1)
    return inner and (inner[0] // atom[2], inner[1] // atom[2])
