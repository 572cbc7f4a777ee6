"""Fills tensors with infinity and NaN.

::

    lv = full((n, 4), -inf)    =>    lv = broadcast_to(-inf, (n, 4))

TVM 0.27.0 asks whether the data type of such a tensor is one of floats as if it were a text, and fails. The
masks of attention for any length are such tensors, and what a dilation of images puts around them.

The repair can go with the first TVM for which ``tests/passes/host_repairs/test_infinite_fills.py`` passes
without it.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import FLOATS, dtype_of, extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def fill_without_check(view: OpView, editor: Editor) -> relax.Expr | None:
    """The number in all places; None if it is finite."""
    number, dtype = view.constant(1), dtype_of(view.out_type)
    if number is None or dtype not in FLOATS or np.isfinite(float(number)):
        return None
    return relax.op.broadcast_to(
        relax.const(float(number), dtype), relax.ShapeExpr(extents_of(editor.target))
    )


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.full", "relax.full_like"), fill_without_check),
]
