"""Takes elements that are counted from the end, before whose first TVM would read.

::

    lv = take(x, -1, axis=1, mode="fast")     =>     lv = take(x, 4, axis=1, mode="fast")      x: (2, 5, 4)
    lv = take(x, -1, axis=1, mode="fast")     =>     lv = take(x, -1, axis=1, mode="wrap")     x: (2, n, 4)

TVM 0.27.0's importer of PyTorch makes ``take(x, -1)`` of ``x[:, -1]``, ``x.select(1, -1)`` and
``x[:, [-1, 0]]``, in the mode ``"fast"``, which reads memory in front of the tensor then: ``logits[:, -1]``
of a language model was 1.9e31.

1.  Where the extent is known, the indices become those from the front.
2.  Where it is symbolic, the mode becomes ``"wrap"``, by which -1 is the last.

Only constant indices are looked at, and none that lie outside of a known extent. The repair can go when the
importer counts from the front.
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
    """The same `take` with indices that TVM reads as PyTorch does; None if there are no negative ones."""
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
    """The function with cases 1 and 2 rewritten; itself if it has none."""
    return sweep(function, _TABLE, lowers_weight=False)
