"""Scatters to the first elements of axes, which TVM confuses with others.

::

    lv = scatter_elements(x, i, u, axis=2)    x: (4, 3, 5), i: (2, 2, 3)
                          =>
    lv_first = strided_slice(x, axes=[0], begin=[0], end=[2])             (2, 3, 5)
    lv_first1 = strided_slice(lv_first, axes=[1], begin=[0], end=[2])     (2, 2, 5)
    lv_scattered = scatter_elements(lv_first1, i, u, axis=2)
    lv_joined = concat((lv_scattered, strided_slice(lv_first, axes=[1], begin=[2], end=[3])), axis=1)
    lv = concat((lv_joined, strided_slice(x, axes=[0], begin=[2], end=[4])), axis=0)

PyTorch and ONNX allow fewer indices than elements along any axis. TVM 0.27.0 flattens the axes in front of
the scattered one, and those behind it, of the indices and of the data alike: here it writes to row 2 of the
first matrix what is meant for row 0 of the second one.

The repair can go with the first TVM for which ``tests/passes/host_repairs/test_partial_scatters.py`` passes
without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.layouts.layout import Extent
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import extents_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__ = ["REWRITES"]


def scatter_to_a_part(view: OpView, editor: Editor) -> relax.Expr | None:
    """The scatter to the part of the data that has the extents of the indices, and the rest beside it."""
    data, indices, updates = view.args
    extents, known = extents_of(data), extents_of(indices)
    if not extents:
        return None  # a scalar has no axis
    along = view.attrs["axis"] % len(extents)
    axes = [axis for axis in range(len(extents)) if axis != along and _differ(extents[axis], known[axis])]
    if not axes:
        return None
    parts = [data]
    for axis in axes:
        parts.append(editor.emit(_rows(parts[-1], axis, 0, known[axis]), "first"))
    result = relax.op.scatter_elements(parts[-1], indices, updates, along, view.attrs["reduction"])
    for axis, whole in zip(reversed(axes), reversed(parts[:-1]), strict=True):
        rest = editor.emit(_rows(whole, axis, known[axis], extents[axis]), "rest")
        joined = editor.emit(relax.op.concat([editor.emit(result, "scattered"), rest], axis), "joined")
        # TVM does not prove that m + (n - m) is n.
        result = relax.op.reshape(joined, relax.ShapeExpr(extents_of(whole)))
    return result


def _rows(data: relax.Expr, axis: int, begin: Extent, end: Extent) -> relax.Expr:
    return relax.op.strided_slice(data, [axis], [begin], [end], assume_inbound=True)


def _differ(extent: Extent, other: Extent) -> bool:
    if isinstance(extent, int) and isinstance(other, int):
        return extent != other
    return not provably_equal(extent, other)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.scatter_elements",), scatter_to_a_part)]
