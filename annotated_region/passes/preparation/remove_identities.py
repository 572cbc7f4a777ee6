"""Removes operations that change nothing, and writes what remains in one way.

1.  ``reshape``, ``broadcast_to``, ``astype``, ... to the shape and dtype that the argument has.
2.  ``multiply`` by 1, ``divide`` by 1, ``add`` of 0, ``subtract`` of 0 (ONNX Gemm's alpha and beta).
3.  ``permute_dims`` that keeps the order; two in a row become one, as do two ``reshape``.
4.  ``concat`` of a single tensor; ``pad`` by nothing.
5.  ``dropout``, which at inference hands its input on, with a mask of ones.
6.  ``add(x, broadcast_to(y))`` becomes ``add(x, y)`` wherever the operator broadcasts by itself.
7.  ``add(constant, x)`` and ``multiply(constant, x)`` get the constant on the right.
"""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

RESHAPES = ("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze")
BROADCASTING = tuple(
    f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum")
)


def keep_shape(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 1, for what moves no element: an equal shape makes it an identity."""
    return view.args[0] if _same_type(view.args[0], view) else None


def restore_shape(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 1, for what only reshapes: whatever stands between, the shape is back to what it was."""
    source: relax.Expr = view.args[0]
    while not _same_type(source, view):
        inner = editor.view_of(source)
        if inner is None or inner.name not in RESHAPES:
            return None
        source = inner.args[0]
    return source


def _same_type(source: relax.Expr, view: OpView) -> bool:
    known = isinstance(source.ty, relax.TensorType) and isinstance(source.ty.shape, relax.ShapeExpr)
    return known and tvm_ffi.structural_equal(source.ty, view.out_type)


def keep_dtype(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 1, for a cast: the shape stays anyway, so it need not be known."""
    same = tvm_ffi.structural_equal(view.arg_types[0], view.out_type)
    return view.args[0] if same and dtype_of(view.out_type) is not None else None


def apply_neutral(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 2: the operand on the right is the neutral element, and does not broadcast the left one."""
    neutral = 1 if view.name in ("relax.multiply", "relax.divide") else 0
    operand = editor.constant(view.args[1])
    if operand is None or not _is_all(operand, neutral):
        return None
    return keep_shape(view, editor)


def _is_all(array: np.ndarray, number: int) -> bool:
    return array.size > 0 and array.flat[0] == number and bool((array == number).all())


def permute_once(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 3: ``permute_dims`` of a ``permute_dims``, or one that keeps the order."""
    axes = _axes(view)
    if axes == tuple(range(len(axes))):
        return view.args[0]
    inner = editor.view_of(view.args[0])
    if inner is None or inner.name != "relax.permute_dims":
        return None
    order = _axes(inner)
    return relax.op.permute_dims(inner.args[0], [order[axis] for axis in axes])


def _axes(view: OpView) -> tuple[int, ...]:
    rank = view.out_type.ndim
    axes = view.attrs["axes"]
    if axes is None:
        return tuple(reversed(range(rank)))
    return tuple(axis % rank for axis in axes)


def reshape_once(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 3: a ``reshape`` of anything that only reshapes."""
    inner = editor.view_of(view.args[0])
    target = view.out_type.shape
    if inner is None or inner.name not in RESHAPES or not isinstance(target, relax.ShapeExpr):
        return None
    if any(isinstance(extent, tvm.tirx.IntImm) and extent.value == 0 for extent in target.values):
        return None  # reshape reads a literal 0 as "keep this extent of the input"
    return relax.op.reshape(inner.args[0], target)


def join_one(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 4: ``concat`` of one tensor."""
    joined = editor.value_of(view.args[0])
    return joined.fields[0] if isinstance(joined, relax.Tuple) and len(joined.fields) == 1 else None


def pad_by_nothing(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 4: ``pad`` with widths of zero."""
    return None if any(view.attrs["pad_width"]) else view.args[0]


def drop_nothing(view: OpView, editor: Editor) -> relax.Expr:
    """Case 5: TVM's own lowering of dropout, in the graph; the mask goes when nobody reads it."""
    return relax.Tuple([view.args[0], editor.emit(relax.op.ones_like(view.args[0]), "mask")])


def broadcast_by_operator(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 6.

    If all operands were broadcast, or the extents are symbols that may differ, the type without the
    broadcasts is another one, and `Editor.attempt` refuses it.
    """
    operands = [_before_broadcast(arg, editor) for arg in view.args]
    if all(new.same_as(old) for new, old in zip(operands, view.args, strict=True)):
        return None
    return relax.Call(view.call.op, operands, view.call.attrs)


def _before_broadcast(expr: relax.Expr, editor: Editor) -> relax.Expr:
    inner = editor.view_of(expr)
    if inner is None or inner.name != "relax.broadcast_to":
        return expr
    return inner.args[0]


def constant_on_the_right(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 7, so that backends and later rewrites look in one place."""
    left, right = view.args
    if not editor.is_constant(left) or editor.is_constant(right):
        return None
    return relax.Call(view.call.op, [right, left], view.call.attrs)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.broadcast_to",), keep_shape),
    (RESHAPES, restore_shape),
    (("relax.astype",), keep_dtype),
    (("relax.add", "relax.multiply"), constant_on_the_right),
    (("relax.add", "relax.subtract", "relax.multiply", "relax.divide"), apply_neutral),
    (("relax.permute_dims",), permute_once),
    (("relax.reshape",), reshape_once),
    (("relax.concat",), join_one),
    (("relax.nn.pad",), pad_by_nothing),
    (("relax.nn.dropout",), drop_nothing),
    (BROADCASTING, broadcast_by_operator),
]
