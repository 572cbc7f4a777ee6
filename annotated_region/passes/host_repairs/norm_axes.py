"""Moves the axes of norms to the end, where TVM cannot compile them elsewhere, or computes them wrongly.

::

    lv = rms_norm(x, w, axes=[0])       =>    lv_turned = permute_dims(x, axes=[1, 0])           x: (3, 4)
                                              lv_normed = rms_norm(lv_turned, w, axes=[1])
                                              lv        = permute_dims(lv_normed, axes=[1, 0])
    lv = rms_norm(x, w, axes=[0, 1])    =>    lv_given  = expand_dims(x, axis=[0])
                                              lv_normed = rms_norm(lv_given, w, axes=[1, 2])
                                              lv        = squeeze(lv_normed, axis=[0])

1.  ``rms_norm`` over other axes than the last ones, or over all: TVM 0.27.0's kernel reads the mean with too
    few indices ("Tensor dimension mismatch in read").
2.  ``layer_norm`` and ``rms_norm`` over axes that do not ascend, ``axes=[1, 0]``: the extents of the
    parameters follow the axes, but the kernel reads them as if the axes ascended, beyond their memory.

The repair can be removed with the first TVM for which ``tests/passes/host_repairs/test_norm_axes.py`` passes
without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def norm_of_the_last_axes(view: OpView, editor: Editor) -> relax.Expr | None:
    """The same norm over the last axes, of which the data has others as well; None if TVM computes it."""
    rank = view.out_tensor.ndim
    axes = [int(axis) % rank for axis in view.attrs["axes"]]
    order = [*(axis for axis in range(rank) if axis not in axes), *axes]
    is_root_mean_square = view.name == "relax.nn.rms_norm"
    if axes == sorted(axes) and not (is_root_mean_square and (order != sorted(order) or len(axes) == rank)):
        return None
    data = view.args[0]
    if order != sorted(order):
        data = editor.emit(relax.op.permute_dims(data, order), "turned")
    is_whole = len(axes) == rank
    if is_whole:
        data = editor.emit(relax.op.expand_dims(data, [0]), "given")
    make = relax.op.nn.rms_norm if is_root_mean_square else relax.op.nn.layer_norm
    result = make(data, *view.args[1:], list(range(-len(axes), 0)), float(view.attrs["epsilon"]))
    if is_whole:
        result = relax.op.squeeze(editor.emit(result, "normed"), [0])
    if order == sorted(order):
        return result
    back = [order.index(axis) for axis in range(rank)]
    return relax.op.permute_dims(editor.emit(result, "normed"), back)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.nn.rms_norm", "relax.nn.layer_norm"), norm_of_the_last_axes)
]
