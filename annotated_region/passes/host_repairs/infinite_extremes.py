"""Gives rows and windows of nothing but minus infinity the maximum that they have.

::

    lv = max(x, axis=[-1])    =>    lv_extreme = max(x, axis=[-1])
                                    lv_least = negative(astype(equal(x, -inf), "int8"))
                                    lv = where(less(max(lv_least, axis=[-1]), 0), -inf, lv_extreme)

TVM 0.27.0 begins a maximum of floats with the least finite number, -3.4e38 in float32, and a minimum with the
largest. So a row that is minus infinity everywhere, or empty, has a finite maximum, and the guards of
attention (``max(mask) == -inf``: this query sees no key) never hold. ``argmax`` and ``argmin`` of such a row
are -1, where numpy and ONNX say 0. Windows of ``max_pool`` are maxima that begin alike, and padding is
the least finite number, too.

1.  Of a maximum or minimum it is counted whether all numbers are that infinity: -1 each, 0 for any other
    number, NaN included, so that the largest count is below 0 only then. Equality is asked for because TVM
    holds NaN to be unequal to nothing. TVM leaves the maximum of a row of no numbers unwritten.
2.  The place of an extreme is at least 0.
3.  A window counts likewise; padding counts as -128, the least number of 8 bits.

The repair can go with the first TVM for which ``tests/passes/host_repairs/test_infinite_extremes.py`` passes
without it.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of, extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INFINITY = {"relax.max": -np.inf, "relax.min": np.inf}


def extreme_with_infinities(view: OpView, editor: Editor) -> relax.Expr | None:
    """The maximum or minimum, infinite where nothing of the row lies above, or below, that infinity."""
    operand, dtype = view.args[0], dtype_of(view.arg_types[0])
    if dtype not in _FLOATS:
        return None
    infinity = relax.const(_INFINITY[view.name], dtype)
    if 0 in extents_of(operand):
        return relax.op.broadcast_to(infinity, relax.ShapeExpr(extents_of(editor.target)))
    axis, keeps = view.attrs["axis"], bool(view.attrs["keepdims"])
    most = relax.op.max(_counted(operand, infinity, editor), axis=axis, keepdims=keeps)
    return _chosen(most, infinity, view, editor)  # case 1


def place_with_infinities(view: OpView, editor: Editor) -> relax.Expr | None:
    """The place of the maximum or minimum; the first one of a row without a finite number."""
    if dtype_of(view.arg_types[0]) not in _FLOATS:
        return None
    return relax.op.maximum(editor.emit(view.call, "place"), relax.const(0, "int64"))  # case 2


def window_with_infinities(view: OpView, editor: Editor) -> relax.Expr | None:
    """The largest number of each window, minus infinity where there is no other."""
    operand, dtype = view.args[0], dtype_of(view.arg_types[0])
    if dtype not in _FLOATS:
        return None
    infinity = relax.const(-np.inf, dtype)
    most = relax.Call(view.call.op, [_counted(operand, infinity, editor)], view.call.attrs)
    return _chosen(most, infinity, view, editor)  # case 3


def _counted(operand: relax.Expr, infinity: relax.Expr, editor: Editor) -> relax.Expr:
    """-1 for each number that is that infinity, 0 for each other."""
    same = editor.emit(relax.op.equal(operand, infinity), "infinite")
    return editor.emit(relax.op.negative(editor.emit(relax.op.astype(same, "int8"), "counted")), "least")


def _chosen(most: relax.Expr, infinity: relax.Expr, view: OpView, editor: Editor) -> relax.Expr:
    """What TVM computes, and the infinity where the largest count is below 0."""
    is_infinite = editor.emit(relax.op.less(editor.emit(most, "most"), relax.const(0, "int8")), "all")
    return relax.op.where(is_infinite, infinity, editor.emit(view.call, "extreme"))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.max", "relax.min"), extreme_with_infinities),
    (("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d"), window_with_infinities),
    (("relax.argmax", "relax.argmin"), place_with_infinities),
]
