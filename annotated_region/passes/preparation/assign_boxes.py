"""Replaces a scatter to a box of constant indices by concatenations.

PyTorch's ONNX exporter writes an assignment to a slice, such as ``scores[:, :, 1:, 1:] += positions``, as a
scatter with the indices of each element::

    lv1 = scatter_nd(x, [[0], [1]], u)         becomes     lv0 = strided_slice(x, axes=[0], 2 to 5)
                                                           lv1 = concat((u, lv0), axis=0)

which takes many times as long as a copy, and whose indices, four int64 for each element of scores, take up to
32 times the memory of the tensor.
"""

from __future__ import annotations

from math import prod

import numpy as np
from tvm import relax

from annotated_region.layouts.layout import Extent
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.fold_constants import value_of_constants
from annotated_region.passes.preparation.tensors import extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

MOST_AXES = 2
"""Of axes that the box covers in part; each takes a concatenation and up to two slices."""

Box = list[tuple[int, int]]
"""Along each indexed axis, the first index and the one behind the last."""


def assign_box(view: OpView, editor: Editor) -> relax.Expr | None:
    """The concatenations for a scatter to a box that covers all but a few axes as a whole."""
    data, indices, updates = view.args
    if view.attrs["reduction"] != "update":
        return None
    places = value_of_constants(indices, editor)
    if places is None or 0 in places.shape:
        return None
    extents = extents_of(data)
    box = _box_of(places.reshape(-1, places.shape[-1]))
    if box is None or not all(map(_is_inside, box, extents)):
        return None
    partial = [axis for axis, bounds in enumerate(box) if bounds != (0, extents[axis])]
    if len(partial) > MOST_AXES:
        return None
    kept = extents_of(updates)[places.ndim - 1 :]
    lengths: list[Extent] = [end - begin for begin, end in box]
    assigned: relax.Expr = relax.op.reshape(updates, [*lengths, *kept])
    for number in reversed(range(len(partial))):
        assigned = _embedded(data, editor.emit(assigned, "assigned"), box, partial[: number + 1], editor)
    return assigned


def _box_of(places: np.ndarray) -> Box | None:
    """The box whose elements these places, one in each row, enumerate in row-major order; None of others."""
    first, last = places.min(axis=0), places.max(axis=0)
    lengths = tuple(int(length) for length in last - first + 1)
    if prod(lengths) != len(places) or not _is_row_major(places - first, lengths):
        return None
    return [(int(begin), int(end) + 1) for begin, end in zip(first, last, strict=True)]


def _is_row_major(places: np.ndarray, lengths: tuple[int, ...]) -> bool:
    numbers = np.ravel_multi_index(tuple(places.T), lengths)
    return bool((numbers == np.arange(len(places))).all())


def _is_inside(bounds: tuple[int, int], extent: Extent) -> bool:
    return isinstance(extent, int) and bounds[0] >= 0 and bounds[1] <= extent


def _embedded(
    data: relax.Expr, assigned: relax.Var, box: Box, partial: list[int], editor: Editor
) -> relax.Expr:
    """`assigned` between what is in front of it and behind it along the last of the axes `partial`.

    Along the other ones, the data is restricted to the box.
    """
    *others, axis = partial
    begin, end = box[axis]
    extent = extents_of(data)[axis]

    def rest(first: int, behind: Extent, role: str) -> relax.Var:
        bounds = [*(box[other] for other in others), (first, behind)]
        begins, ends = ([each[side] for each in bounds] for side in (0, 1))
        return editor.emit(relax.op.strided_slice(data, partial, begins, ends), role)

    parts = [assigned]
    if begin != 0:
        parts.insert(0, rest(0, begin, "before"))
    if end != extent:
        parts.append(rest(end, extent, "behind"))
    return relax.op.concat(parts, axis)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.scatter_nd",), assign_box)]
