"""Rewrites negative indices of ``take``, with which TVM would read before the tensor.

::

    lv = take(x, -1, axis=1, mode="fast")     =>     lv = take(x, 4, axis=1, mode="fast")      x: (2, 5, 4)
    lv = take(x, -1, axis=1, mode="fast")     =>     lv = take(x, -1, axis=1, mode="wrap")     x: (2, n, 4)

TVM 0.27.0's PyTorch importer converts ``x[:, -1]``, ``x.select(1, -1)`` and ``x[:, [-1, 0]]`` to a ``take``
of -1 in the mode ``"fast"``, which then reads memory before the tensor: ``logits[:, -1]`` of a language model
was 1.9e31.

1.  If the extent is static, the indices become nonnegative.
2.  If it is symbolic, the mode becomes ``"wrap"``, in which -1 is the last element.

Only constant indices are rewritten, and only those that are in range of a static extent. The repair can be
removed when the importer emits nonnegative indices.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.rewrites import table_of
from annotated_region.passes.preparation.sweep import sweep
from annotated_region.passes.preparation.tensors import constant_of, extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES", "take_from_the_front"]


def from_the_front(view: OpView, editor: Editor) -> relax.Expr | None:
    """The same `take` with indices that TVM reads as PyTorch does; None without negative indices."""
    places, extents = editor.constant(view.args[1]), extents_of(view.args[0])
    axis = view.attrs["axis"]
    if places is None or view.attrs["mode"] != "fast" or not extents or (axis is None and len(extents) != 1):
        return None
    extent = extents[axis or 0]
    if not (places < 0).any():
        return None
    if not isinstance(extent, int):
        return relax.op.take(view.args[0], view.args[1], axis, "wrap")  # case 2
    if (places < -extent).any():
        return None
    counted = np.where(places < 0, places + extent, places).astype(places.dtype)
    return relax.op.take(view.args[0], constant_of(counted), axis)  # case 1


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.take",), from_the_front)]

_TABLE = table_of(REWRITES)


def take_from_the_front(function: relax.Function) -> relax.Function:
    """The function with cases 1 and 2 rewritten; the function itself if there are none."""
    return sweep(function, _TABLE, lowers_weight=False)
