"""Corrects the maximum of rows and windows that contain only minus infinity.

::

    lv = max(x, axis=[-1])    =>    lv_extreme = max(x, axis=[-1])
                                    lv_least = negative(astype(equal(x, -inf), "int8"))
                                    lv = where(less(max(lv_least, axis=[-1]), 0), -inf, lv_extreme)

TVM 0.27.0 initializes a maximum of floats with the lowest finite number, -3.4e38 in float32, and a minimum
with the highest. So a row that is minus infinity everywhere, or empty, has a finite maximum, and the guards
of attention (``max(mask) == -inf``: this query sees no key) never hold. ``argmax`` and ``argmin`` of such a
row return -1, where numpy and ONNX return 0, and so they do for integers that all are the last one of their
type: ``argmax`` of zeros of uint8. Windows of ``max_pool`` are initialized in the same way, and
padding is the lowest finite number, too.

1.  For a maximum or minimum, numbers that are this infinity count as -1, all others, NaN included, as 0;
    the maximum count of a row is negative if and only if all its numbers are that infinity. The test is
    equality, because in TVM NaN is not unequal to anything. TVM leaves the maximum of an empty row unwritten.
2.  The index of an extreme is at least 0.
3.  Windows are counted likewise; padding counts as -128, the lowest number of 8 bits.
4.  TVM has no extremes of booleans. They are those of the same numbers in 8 bits.

The repair can be removed with the first TVM for which
``tests/passes/host_repairs/test_infinite_extremes.py`` passes without it.
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
    """The maximum or minimum; infinite if all numbers of the row are that infinity."""
    operand, dtype = view.args[0], dtype_of(view.arg_types[0])
    if dtype == "bool":
        call = relax.Call(view.call.op, [_number(operand, editor)], view.call.attrs)
        return relax.op.astype(editor.emit(call, "most"), "bool")  # case 4
    if dtype not in _FLOATS:
        return None
    infinity = relax.const(_INFINITY[view.name], dtype)
    if 0 in extents_of(operand):
        return relax.op.broadcast_to(infinity, relax.ShapeExpr(extents_of(editor.target)))
    axis, keeps = view.attrs["axis"], bool(view.attrs["keepdims"])
    most = relax.op.max(_counted(operand, infinity, editor), axis=axis, keepdims=keeps)
    return _chosen(most, infinity, view, editor)  # case 1


def place_with_infinities(view: OpView, editor: Editor) -> relax.Expr:
    """The index of the maximum or minimum; the first one for a row without finite numbers."""
    call = view.call
    if dtype_of(view.arg_types[0]) == "bool":
        call = relax.Call(call.op, [_number(view.args[0], editor)], call.attrs)  # case 4
    return relax.op.maximum(editor.emit(call, "place"), relax.const(0, "int64"))  # case 2


def window_with_infinities(view: OpView, editor: Editor) -> relax.Expr | None:
    """The maximum of each window; minus infinity if there is no other number."""
    operand, dtype = view.args[0], dtype_of(view.arg_types[0])
    if dtype not in _FLOATS:
        return None
    infinity = relax.const(-np.inf, dtype)
    most = relax.Call(view.call.op, [_counted(operand, infinity, editor)], view.call.attrs)
    return _chosen(most, infinity, view, editor)  # case 3


def _number(operand: relax.Expr, editor: Editor) -> relax.Var:
    """The boolean as 0 or 1."""
    return editor.emit(relax.op.astype(operand, "int8"), "number")


def _counted(operand: relax.Expr, infinity: relax.Expr, editor: Editor) -> relax.Expr:
    """-1 for each number that is this infinity, 0 for all others."""
    same = editor.emit(relax.op.equal(operand, infinity), "infinite")
    return editor.emit(relax.op.negative(editor.emit(relax.op.astype(same, "int8"), "counted")), "least")


def _chosen(most: relax.Expr, infinity: relax.Expr, view: OpView, editor: Editor) -> relax.Expr:
    """The result of TVM's op, and the infinity where the maximum count is negative."""
    is_infinite = editor.emit(relax.op.less(editor.emit(most, "most"), relax.const(0, "int8")), "all")
    return relax.op.where(is_infinite, infinity, editor.emit(view.call, "extreme"))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.max", "relax.min"), extreme_with_infinities),
    (("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d"), window_with_infinities),
    (("relax.argmax", "relax.argmin"), place_with_infinities),
]
