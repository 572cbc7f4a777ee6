"""Gives sums, means, products and matrix products over no numbers the result that they have.

::

    lv = sum(x, axis=[0])       x: (n, 4)
                    =>
    lv_count = shape_to_tensor((n,))
    lv_some  = greater(squeeze(lv_count), 0)
    lv_sum   = sum(x, axis=[0])
    lv       = where(lv_some, lv_sum, 0)

TVM 0.27.0 writes the initial value of a reduction in the first step of its loop, so where a run has ``n = 0``
the result is whatever its memory holds. Where the extents are numbers, TVM's answer is right.

The repair can go with the first TVM for which ``tests/passes/host_repairs/test_empty_sums.py`` passes without
it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax, tirx

from annotated_region.layouts.layout import Extent
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import FLOATS, dtype_of, extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

_NEUTRAL = {"relax.sum": 0.0, "relax.mean": math.nan, "relax.prod": 1.0}


def reduction_of_nothing(view: OpView, editor: Editor) -> relax.Expr | None:
    """The reduction, or its neutral element where there is nothing to reduce; the mean is then NaN."""
    extents, axes = extents_of(view.args[0]), view.attrs["axis"]
    reduced = extents if axes is None else [extents[int(axis)] for axis in axes]
    return _with_nothing(reduced, _NEUTRAL[view.name], view, editor)


def product_of_nothing(view: OpView, editor: Editor) -> relax.Expr | None:
    """The matrix product, or 0 where its factors have no columns and rows."""
    return _with_nothing(extents_of(view.args[0])[-1:], 0.0, view, editor)


def _with_nothing(reduced: Sequence[Extent], value: float, view: OpView, editor: Editor) -> relax.Expr | None:
    dtype = dtype_of(view.out_type)
    unknown = [extent for extent in reduced if not isinstance(extent, int)]
    if not unknown or dtype is None or (math.isnan(value) and dtype not in FLOATS):
        return None
    total = unknown[0]
    for extent in unknown[1:]:
        total = tirx.Mul(total, extent)
    count = editor.emit(relax.op.shape_to_tensor(relax.ShapeExpr([total])), "count")
    is_some = relax.op.greater(editor.emit(relax.op.squeeze(count, [0]), "number"), relax.const(0, "int64"))
    return relax.op.where(
        editor.emit(is_some, "some"), editor.emit(view.call, "reduced"), relax.const(value, dtype)
    )


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (tuple(_NEUTRAL), reduction_of_nothing),
    (("relax.matmul",), product_of_nothing),
]
