"""Writes norms of float64 out, for which TVM has no kernels.

::

    lv = layer_norm(x, g, b, axes=[-1])    =>    lv_mean   = mean(x, axis=[1], keepdims=True)
                                                 lv_middle = subtract(x, lv_mean)
                                                 ...
                                                 lv        = add(lv_scaled, b)

TVM 0.27.0: "layer_norm: only support float32 and float16 for now"; the same for ``group_norm`` and
``instance_norm``. The repair can be removed with the first TVM for which
``tests/passes/host_repairs/test_double_norms.py`` passes without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of, extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def layer_norm_by_parts(view: OpView, editor: Editor) -> relax.Expr | None:
    """A layer norm of float64 in elementary ops."""
    extents, axes = _extents(view), _axes(view)
    if extents is None:
        return None
    normed = _normed(view, editor, view.args[0], axes)
    shape = [extent if axis in axes else 1 for axis, extent in enumerate(extents)]
    return _shifted(view, editor, normed, shape, [axes.index(axis) for axis in sorted(axes)])


def instance_norm_by_parts(view: OpView, editor: Editor) -> relax.Expr | None:
    """An instance norm of float64 in elementary ops."""
    extents = _extents(view)
    if extents is None:
        return None
    normed = _normed(view, editor, view.args[0], _axes(view))
    return _shifted(view, editor, normed, _along_channels(view, extents))


def group_norm_by_parts(view: OpView, editor: Editor) -> relax.Expr | None:
    """A group norm of float64 in elementary ops: the channels of a group have an axis of their own."""
    extents, groups = _extents(view), int(view.attrs["num_groups"])
    if extents is None:
        return None
    channels = int(view.attrs["channel_axis"]) % len(extents)
    count = extents[channels]
    if not isinstance(count, int):
        return None
    apart = [*extents[:channels], groups, count // groups, *extents[channels + 1 :]]
    split = editor.emit(relax.op.reshape(view.args[0], relax.ShapeExpr(apart)), "groups")
    axes = [channels + 1, *(axis + (axis > channels) for axis in _axes(view))]
    normed = _normed(view, editor, split, axes)
    whole = editor.emit(relax.op.reshape(normed, relax.ShapeExpr(extents)), "whole")
    return _shifted(view, editor, whole, _along_channels(view, extents))


def _extents(view: OpView) -> list[int | relax.Expr] | None:
    """The extents of the data; None if it is not of float64, or they are unknown."""
    extents = extents_of(view.args[0]) if dtype_of(view.out_type) == "float64" else None
    return None if extents is None else list(extents)


def _axes(view: OpView) -> list[int]:
    return [int(axis) % view.out_tensor.ndim for axis in view.attrs["axes"]]


def _along_channels(view: OpView, extents: Sequence[int | relax.Expr]) -> list[int | relax.Expr]:
    channels = int(view.attrs["channel_axis"]) % len(extents)
    return [extent if axis == channels else 1 for axis, extent in enumerate(extents)]


def _normed(view: OpView, editor: Editor, data: relax.Expr, axes: list[int]) -> relax.Expr:
    """The data without its mean, divided by its deviation."""
    mean = editor.emit(relax.op.mean(data, axes, keepdims=True), "mean")
    middle = editor.emit(relax.op.subtract(data, mean), "middle")
    squares = editor.emit(relax.op.multiply(middle, middle), "squares")
    variance = editor.emit(relax.op.mean(squares, axes, keepdims=True), "variance")
    least = relax.const(float(view.attrs["epsilon"]), "float64")
    deviation = editor.emit(relax.op.sqrt(editor.emit(relax.op.add(variance, least), "sum")), "deviation")
    return editor.emit(relax.op.divide(middle, deviation), "normed")


def _shifted(
    view: OpView,
    editor: Editor,
    normed: relax.Expr,
    shape: Sequence[int | relax.Expr],
    order: Sequence[int] = (0,),
) -> relax.Expr:
    """The normed data by the scale, plus the shift; both get the order and the shape of the data's axes."""
    scale, shift = (_placed(editor, each, shape, order) for each in view.args[1:3])
    if view.attrs["scale"]:
        normed = editor.emit(relax.op.multiply(normed, scale), "scaled")
    return relax.op.add(normed, shift) if view.attrs["center"] else normed


def _placed(
    editor: Editor, vector: relax.Expr, shape: Sequence[int | relax.Expr], order: Sequence[int]
) -> relax.Expr:
    if list(order) != sorted(order):
        vector = editor.emit(relax.op.permute_dims(vector, list(order)), "turned")
    return editor.emit(relax.op.reshape(vector, relax.ShapeExpr(list(shape))), "placed")


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.nn.layer_norm",), layer_norm_by_parts),
    (("relax.nn.instance_norm",), instance_norm_by_parts),
    (("relax.nn.group_norm",), group_norm_by_parts),
]
