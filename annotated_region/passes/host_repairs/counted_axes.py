"""Counts the axes of some ops from the front, because TVM cannot compile them with negative axes.

::

    lv = strided_slice(x, axes=[-1], begin=[n], ...)    =>    lv = strided_slice(x, axes=[1], begin=[n], ...)
    lv = instance_norm(x, g, b, channel_axis=-2, ...)   =>    lv = instance_norm(x, g, b, channel_axis=1, ...)
    lv = one_hot(x, ..., axis=-2)                       =>    lv = one_hot(x, ..., axis=1)          x: (2, 3)

TVM 0.27.0 looks a negative axis up as it is: "Check failed: axis < src_tensor_dim" for slices with symbolic
bounds, "Index -2 out of bounds 3" for the others. ``one_hot`` takes -1, which stands for a new last axis. The
repair can be removed with the first TVM for which ``tests/passes/host_repairs/test_counted_axes.py`` passes
without it.
"""

from __future__ import annotations

import tvm_ffi
from tvm import relax, tirx

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__ = ["REWRITES"]


def slice_from_the_front(view: OpView, editor: Editor) -> relax.Expr | None:
    """The same slice with nonnegative axes; None if it has them.

    Where bounds may be outside, TVM infers other formulas for the extents then, of the same numbers.
    """
    data, axes, *bounds = view.args
    rank = view.out_tensor.ndim
    numbers = [expect(tirx.IntImm, axis).value for axis in expect(relax.Tuple, axes).fields]
    if min(numbers, default=0) >= 0:
        return None
    counted = relax.Tuple([tirx.IntImm("int64", number % rank) for number in numbers])
    slice_ = editor.normalize(relax.Call(view.call.op, [data, counted, *bounds], view.call.attrs))
    shape = view.out_tensor.shape
    if shape is None or tvm_ffi.structural_equal(slice_.ty, view.out_tensor):
        return slice_
    return relax.op.reshape(editor.emit(slice_, "counted"), shape)


def norm_from_the_front(view: OpView, _editor: Editor) -> relax.Expr | None:
    """The same norm with nonnegative axes; None if it has them."""
    rank = view.out_tensor.ndim
    channels, axes = int(view.attrs["channel_axis"]), [int(axis) for axis in view.attrs["axes"]]
    if channels >= 0:
        return None
    counted = [axis % rank for axis in axes]
    return relax.op.nn.instance_norm(*view.args, channels % rank, counted, float(view.attrs["epsilon"]))


def one_hot_from_the_front(view: OpView, _editor: Editor) -> relax.Expr | None:
    """The same one-hot tensor with a nonnegative axis; None if it has one, or -1."""
    axis = int(view.attrs["axis"])
    if axis >= -1:
        return None
    return relax.op.one_hot(*view.args, int(view.attrs["depth"]), axis % view.out_tensor.ndim)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.strided_slice",), slice_from_the_front),
    (("relax.nn.instance_norm",), norm_from_the_front),
    (("relax.one_hot",), one_hot_from_the_front),
]
