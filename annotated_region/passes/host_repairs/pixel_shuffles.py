"""Rewrites pixel shuffles, for which TVM has no kernel, as reshapes around a permutation.

::

    lv = pixel_shuffle(x, 2)      =>     lv_apart = reshape(x, (1, 3, 2, 2, 4, 5))      x: (1, 12, 4, 5)
                                         lv_moved = permute_dims(lv_apart, [0, 1, 4, 2, 5, 3])
                                         lv       = reshape(lv_moved, (1, 3, 8, 10))

TVM 0.27.0 lowers the op by ``topi.nn.pixel_shuffle``, which does not exist. The repair can be removed with
the first TVM for which ``tests/passes/host_repairs/test_pixel_shuffles.py`` passes without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

_SQUARES = (0, 3, 1, 4, 2)
"""Where the channels, both factors, the height and the width go: each factor behind its axis."""


def in_parts(view: OpView, editor: Editor) -> relax.Expr:
    """The channels split into channels and squares of pixels, whose axes move behind height and width."""
    (data,), factor = view.args, int(view.attrs["upscale_factor"])
    *outer, channels, height, width = extents_of(data)
    rank = len(outer)
    shape = [*outer, channels // factor**2, factor, factor, height, width]
    apart = editor.emit(relax.op.reshape(data, shape), "apart")
    order = [*range(rank), *(rank + place for place in _SQUARES)]
    moved = editor.emit(relax.op.permute_dims(apart, order), "moved")
    return relax.op.reshape(moved, view.out_tensor.shape)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.nn.pixel_shuffle",), in_parts)]
