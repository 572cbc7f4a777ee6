"""Gives rows of nothing but minus infinity the maximum that they have.

::

    lv = max(x, axis=[-1])    =>    lv_largest = max(x, axis=[-1])
                                    lv_above   = astype(not_equal(x, -inf), "int8")
                                    lv         = where(greater(max(lv_above, axis=[-1]), 0), lv_largest, -inf)

TVM 0.27.0 begins a maximum of floats with the least finite number, -3.4e38 in float32, and a minimum with the
largest. So a row that is minus infinity everywhere, or empty, has a finite maximum, and the guards of
attention (``max(mask) == -inf``: this query sees no key) never hold. ``argmax`` and ``argmin`` of such a row
are -1, where numpy and ONNX say 0.

The repair can go with the first TVM for which ``tests/passes/host_repairs/test_infinite_extremes.py`` passes
without it.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
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
    found = editor.emit(view.call, "extreme")
    within = editor.emit(relax.op.not_equal(operand, infinity), "within")
    counted = editor.emit(relax.op.astype(within, "int8"), "counted")
    axis, keeps = view.attrs["axis"], bool(view.attrs["keepdims"])
    most = editor.emit(relax.op.max(counted, axis=axis, keepdims=keeps), "any")
    has_any = editor.emit(relax.op.greater(most, relax.const(0, "int8")), "finite")
    return relax.op.where(has_any, found, infinity)


def place_with_infinities(view: OpView, editor: Editor) -> relax.Expr | None:
    """The place of the maximum or minimum; the first one of a row without a finite number."""
    if dtype_of(view.arg_types[0]) not in _FLOATS:
        return None
    return relax.op.maximum(editor.emit(view.call, "place"), relax.const(0, "int64"))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.max", "relax.min"), extreme_with_infinities),
    (("relax.argmax", "relax.argmin"), place_with_infinities),
]
