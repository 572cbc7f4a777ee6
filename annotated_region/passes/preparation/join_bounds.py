"""Canonicalizes bounds on a tensor to ``relu`` or ``clip``.

The importer lowers ONNX ``Clip`` itself, to a maximum and a minimum with the bounds as tensors:

    lv1 = maximum(x, 0)
    lv2 = minimum(lv1, 6)              becomes     lv2 = clip(x, 0, 6)

1.  A lower bound of 0 without an upper bound becomes ``relu``.
2.  A lower and an upper bound, in either order, become ``clip`` if the lower does not exceed the upper.
3.  An infinite bound is removed.

Results are equal except for NaN: ONNX specifies NaN, TVM returns one of the bounds, and the rewrite may
return the other one.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import FLOATS, dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def drop_infinite(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 3."""
    no_bound = -math.inf if view.name == "relax.maximum" else math.inf
    return view.args[0] if _number(view.args[1], editor) == no_bound else None


def join_bounds(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 2: the operand already has the opposite bound."""
    inner = editor.view_of(view.args[0])
    bound = _number(view.args[1], editor)
    if inner is None or bound is None or not editor.is_read_once(view.args[0]):
        return None
    other = _bound_of(inner, editor, "relax.minimum" if view.name == "relax.maximum" else "relax.maximum")
    if other is None or dtype_of(view.out_type) not in FLOATS:
        return None
    low, high = (bound, other) if view.name == "relax.maximum" else (other, bound)
    return relax.op.clip(inner.args[0], low, high) if low <= high else None


def _bound_of(view: OpView, editor: Editor, name: str) -> float | None:
    """The bound that an op of that name sets; ``relu`` counts as a maximum with 0."""
    if view.name == name:
        return _number(view.args[1], editor)
    return 0.0 if view.name == "relax.nn.relu" and name == "relax.maximum" else None


def bound_by_zero(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 1."""
    is_relu = _number(view.args[1], editor) == 0 and dtype_of(view.out_type) in FLOATS
    return relax.op.nn.relu(view.args[0]) if is_relu else None


def _number(expr: relax.Expr, editor: Editor) -> float | None:
    """The common value of a constant tensor; None if it is not constant or not uniform."""
    array = editor.constant(expr)
    if array is None or not array.size or not bool((array == array.flat[0]).all()):
        return None
    return float(np.float64(array.flat[0]))


_BOUNDS = ("relax.maximum", "relax.minimum")
REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (_BOUNDS, drop_infinite),
    (_BOUNDS, join_bounds),
    (("relax.maximum",), bound_by_zero),
]
