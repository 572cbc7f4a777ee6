"""Rewrites splits with empty parts, which TVM cannot compile, as slices.

::

    lv = split(x, [0, 2], axis=0)     x: (5, 3)     =>     lv_part  = strided_slice(x, [0], [0], [0])
                                                           lv_part2 = strided_slice(x, [0], [0], [2])
                                                           lv_part3 = strided_slice(x, [0], [2], [5])
                                                           lv       = (lv_part, lv_part2, lv_part3)

TVM 0.27.0: "split_indices must be sorted", by which it means that each is larger than the one before it, and
than 0. The repair can be removed with the first TVM for which
``tests/passes/host_repairs/test_empty_parts.py`` passes without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def as_slices(view: OpView, editor: Editor) -> relax.Expr | None:
    """The parts as slices, if one of them but the last is empty."""
    given = view.attrs["indices_or_sections"]
    if isinstance(given, int) or not isinstance(given, Sequence):
        return None
    data, places = view.args[0], [0, *(int(each) for each in given)]
    if all(begin < end for begin, end in pairwise(places)):
        return None
    extents = extents_of(data)
    axis = int(view.attrs["axis"]) % len(extents)
    parts = [
        relax.op.strided_slice(data, [axis], [begin], [end])
        for begin, end in pairwise([*places, extents[axis]])
    ]
    return relax.Tuple([editor.emit(part, "part") for part in parts])


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.split",), as_slices)]
