"""Removes identity operations and canonicalizes related ones.

1.  ``reshape``, ``broadcast_to``, ``astype``, ... to the shape and dtype of the argument; ``split`` into one
    part, whose result is a tensor.
2.  ``multiply`` by 1, ``divide`` by 1, ``add`` of 0, ``subtract`` of 0 (ONNX Gemm's alpha and beta);
    ``logical_and`` with true, ``logical_or`` and ``logical_xor`` with false.
3.  ``permute_dims`` by the identity; two consecutive ``permute_dims`` or ``reshape`` become one.
4.  ``concat`` of a single tensor, or with empty ones (rotary heads); ``pad`` by zero widths.
5.  ``dropout``, which at inference returns its input and a mask of ones.
6.  ``add(x, broadcast_to(y))`` becomes ``add(x, y)``, likewise for other ops that broadcast implicitly,
    including ``where``; a uniform tensor (``full_like``, ``zeros``, ...) counts as a broadcast scalar.
7.  ``add(constant, x)``, ``multiply(constant, x)``, ... get the constant on the right.
8.  ``bitwise_and`` of booleans becomes ``logical_and``, likewise for the other bitwise ops.
9.  ``slice_scatter`` over a whole axis becomes its updates: the data is overwritten.
10. ``scatter_nd`` and ``scatter_elements`` without updates become the data; TVM 0.27 divides by their number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from annotated_region.arrays import NUMPY_DTYPES
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import constant_of, dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES", "before_broadcast", "without_broadcast"]

RESHAPES = ("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze")
COMMUTATIVE = ("relax.add", "relax.multiply", "relax.logical_and", "relax.logical_or")
NEUTRAL = {
    "relax.add": 0,
    "relax.subtract": 0,
    "relax.multiply": 1,
    "relax.divide": 1,
    "relax.logical_and": True,
    "relax.logical_or": False,
    "relax.logical_xor": False,
}
BROADCASTING = (*NEUTRAL, "relax.power", "relax.maximum", "relax.minimum", "relax.where")
NUMBERS = {"relax.zeros": 0, "relax.zeros_like": 0, "relax.ones": 1, "relax.ones_like": 1}
CONNECTIVES: dict[str, Callable[..., relax.Expr]] = {
    "relax.bitwise_and": relax.op.logical_and,
    "relax.bitwise_or": relax.op.logical_or,
    "relax.bitwise_xor": relax.op.logical_xor,
    "relax.bitwise_not": relax.op.logical_not,
}
FULL = ("relax.full", "relax.full_like")


def keep_shape(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 1, for ops that do not reorder elements: an identity if the shapes are equal."""
    return view.args[0] if _same_type(view.args[0], view) else None


def restore_shape(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 1, for chains of reshaping ops: removed if the last one restores the original shape."""
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
    """Case 1, for a cast: it preserves the shape, so the shape need not be known."""
    same = tvm_ffi.structural_equal(view.arg_types[0], view.out_type)
    return view.args[0] if same and dtype_of(view.out_type) is not None else None


def apply_neutral(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 2: the right operand is the neutral element and does not broadcast the left one."""
    operand = editor.constant(view.args[1])
    if operand is None or not _is_all(operand, NEUTRAL[view.name]):
        return None
    return keep_shape(view, editor)


def _is_all(array: np.ndarray, number: int) -> bool:
    return array.size > 0 and array.flat[0] == number and bool((array == number).all())


def permute_once(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 3: ``permute_dims`` of a ``permute_dims``, or by the identity."""
    axes = _axes(view)
    if axes == tuple(range(len(axes))):
        return view.args[0]
    inner = editor.view_of(view.args[0])
    if inner is None or inner.name != "relax.permute_dims":
        return None
    order = _axes(inner)
    return relax.op.permute_dims(inner.args[0], [order[axis] for axis in axes])


def _axes(view: OpView) -> tuple[int, ...]:
    rank = view.out_tensor.ndim
    axes = view.attrs["axes"]
    if axes is None:
        return tuple(reversed(range(rank)))
    return tuple(axis % rank for axis in axes)


def reshape_once(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 3: a ``reshape`` of a reshaping op."""
    inner = editor.view_of(view.args[0])
    target = view.out_tensor.shape
    if inner is None or inner.name not in RESHAPES or not isinstance(target, relax.ShapeExpr):
        return None
    if any(isinstance(extent, tvm.tirx.IntImm) and extent.value == 0 for extent in target.values):
        return None  # reshape interprets a literal 0 as "keep this extent of the input"
    return relax.op.reshape(inner.args[0], target)


def join_one(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 4: ``concat`` of one tensor, or with empty ones."""
    joined, axis = editor.value_of(view.args[0]), view.attrs["axis"]
    if not isinstance(joined, relax.Tuple):
        return None
    if len(joined.fields) == 1:
        return joined.fields[0]
    fields = [field for field in joined.fields if not _is_empty(field)]
    if axis is None or len(fields) in (0, len(joined.fields)):
        return None
    return fields[0] if len(fields) == 1 else relax.op.concat(fields, axis)


def _is_empty(tensor: relax.Expr) -> bool:
    shape = tensor.ty.shape if isinstance(tensor.ty, relax.TensorType) else None
    extents = shape.values if isinstance(shape, relax.ShapeExpr) else ()
    return any(isinstance(extent, tvm.tirx.IntImm) and extent.value == 0 for extent in extents)


def pad_by_nothing(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 4: ``pad`` with widths of zero."""
    return None if any(view.attrs["pad_width"]) else view.args[0]


def drop_nothing(view: OpView, editor: Editor) -> relax.Expr:
    """Case 5: TVM's own lowering of dropout, at graph level; an unread mask becomes dead."""
    return relax.Tuple([view.args[0], editor.emit(relax.op.ones_like(view.args[0]), "mask")])


def broadcast_by_operator(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 6, for the first operand whose broadcast can be removed without changing the result type.

    The type would change if all operands are broadcast, or if symbolic extents may differ.
    """
    calls = (without_broadcast(view, position, editor) for position in range(len(view.args)))
    return next((call for call in calls if call is not None), None)


def without_broadcast(view: OpView, position: int, editor: Editor) -> relax.Call | None:
    """The call with what an operand broadcasts; None if it broadcasts nothing or the type would change."""
    operand = before_broadcast(view.args[position], editor)
    if operand is None:
        return None
    operands = [*view.args[:position], operand, *view.args[position + 1 :]]
    call = relax.Call(view.call.op, operands, view.call.attrs)
    return call if tvm_ffi.structural_equal(editor.normalize(call).ty, view.out_type) else None


def before_broadcast(expr: relax.Expr, editor: Editor) -> relax.Expr | None:
    """The tensor or scalar that `expr` broadcasts, or None."""
    inner = editor.view_of(expr)
    if inner is None:
        return None
    if inner.name == "relax.broadcast_to":
        return inner.args[0]
    dtype = dtype_of(inner.out_type)
    if inner.name in NUMBERS and dtype in NUMPY_DTYPES:
        return constant_of(np.asarray(NUMBERS[inner.name], dtype))
    same = inner.name in FULL and dtype_of(inner.arg_types[1]) == dtype
    return inner.args[1] if same else None


def constant_on_the_right(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 7, so that backends and later rewrites need to check only one operand."""
    left, right = view.args
    if not editor.is_constant(left) or editor.is_constant(right):
        return None
    return relax.Call(view.call.op, [right, left], view.call.attrs)


def connect_booleans(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 8: for booleans, bitwise and logical ops are equal."""
    if {dtype_of(each) for each in view.arg_types} != {"bool"}:
        return None
    return CONNECTIVES[view.name](*view.args)


def overwrite_all(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 9: the slice is the whole axis, from 0 to its extent in steps of 1."""
    updates, begin, end, step = view.args[1:5]
    shape = view.out_tensor.shape
    if not isinstance(shape, relax.ShapeExpr) or not _same_type(updates, view):
        return None
    extent = shape.values[view.attrs["axis"]]
    is_whole = _is_number(begin, 0) and _is_number(step, 1) and tvm_ffi.structural_equal(end, extent)
    return updates if is_whole else None


def scatter_nothing(view: OpView, _editor: Editor) -> relax.Expr | None:
    """Case 10."""
    data, indices, _updates = view.args
    return data if _is_empty(indices) else None


def _is_number(expr: relax.Expr, number: int) -> bool:
    return isinstance(expr, tvm.tirx.IntImm) and expr.value == number


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.broadcast_to", "relax.split"), keep_shape),
    (RESHAPES, restore_shape),
    (("relax.astype",), keep_dtype),
    (tuple(CONNECTIVES), connect_booleans),
    (COMMUTATIVE, constant_on_the_right),
    (tuple(NEUTRAL), apply_neutral),
    (("relax.permute_dims",), permute_once),
    (("relax.reshape",), reshape_once),
    (("relax.concat",), join_one),
    (("relax.nn.pad",), pad_by_nothing),
    (("relax.nn.dropout",), drop_nothing),
    (BROADCASTING, broadcast_by_operator),
    (("relax.slice_scatter",), overwrite_all),
    (("relax.scatter_nd", "relax.scatter_elements"), scatter_nothing),
]
