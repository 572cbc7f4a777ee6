"""Rewrites broadcasts along an axis whose symbolic extent may be 1 at run time.

::

    lv = broadcast_to(x, (m, 4))       x: (n, 4)
                          =>
    lv_places = floor_mod(arange(m), n)
    lv_repeated = take(x, lv_places, axis=0)
    lv = broadcast_to(lv_repeated, (m, 4))

TVM 0.27.0 broadcasts an axis only if its extent is the constant 1. It indexes any other axis with the index
of the result, so with ``n = 1`` and ``m = 5`` at run time it reads four rows after the end of the tensor.
After the repair such an axis is indexed with ``i % n``: 0 for one row, ``i`` for all of them.

The repair can be removed with the first TVM for which ``tests/passes/host_repairs/test_broadcasts.py``
passes without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.layouts.layout import Extent
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import extents_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__ = ["REWRITES"]


def broadcast_of_one(view: OpView, editor: Editor) -> relax.Expr | None:
    """The broadcast of a tensor whose axes are repeated to the extents of the result where they may be 1."""
    data, target = view.args
    given, wanted = extents_of(data), extents_of(editor.target)
    behind = len(wanted) - len(given)
    axes = [axis for axis, extent in enumerate(given) if _may_be_one_of_many(extent, wanted[axis + behind])]
    if not axes:
        return None
    for axis in axes:
        data = editor.emit(_repeated(data, axis, wanted[axis + behind], editor), "repeated")
    return relax.op.broadcast_to(data, target)


def _may_be_one_of_many(given: Extent, wanted: Extent) -> bool:
    """Whether an extent may be 1 at run time while the wanted one is not, and TVM does not know it."""
    return not isinstance(given, int) and not provably_equal(given, wanted)


def _repeated(data: relax.Expr, axis: int, wanted: Extent, editor: Editor) -> relax.Expr:
    count = editor.emit(relax.op.shape_to_tensor(relax.ShapeExpr([extents_of(data)[axis]])), "count")
    places = editor.emit(relax.op.arange(0, wanted, 1, "int64"), "numbers")
    return relax.op.take(data, editor.emit(relax.op.floor_mod(places, count), "places"), axis)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.broadcast_to",), broadcast_of_one)]
