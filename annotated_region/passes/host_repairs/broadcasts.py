"""Repeats a tensor along an axis of unknown extent that is one element in a run.

::

    lv = broadcast_to(x, (m, 4))       x: (n, 4)
                          =>
    lv_places = floor_mod(arange(m), n)
    lv_repeated = take(x, lv_places, axis=0)
    lv = broadcast_to(lv_repeated, (m, 4))

TVM 0.27.0 broadcasts an axis only where its extent is the number 1. It reads any other axis at the place of
the result, so where a run has ``n = 1`` and ``m = 5`` it reads four rows behind the tensor. Here such an axis
is read at ``i % n``: 0 for one element, ``i`` for all of them.

The repair can go with the first TVM for which ``tests/passes/host_repairs/test_broadcasts.py`` passes without
it.
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
    """The same result of a tensor whose axes have the extents of the result, or the extent 1."""
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
    """Whether a run may have one element in the place of another number of them, and TVM does not know."""
    return not isinstance(given, int) and not provably_equal(given, wanted)


def _repeated(data: relax.Expr, axis: int, wanted: Extent, editor: Editor) -> relax.Expr:
    count = editor.emit(relax.op.shape_to_tensor(relax.ShapeExpr([extents_of(data)[axis]])), "count")
    places = editor.emit(relax.op.arange(0, wanted, 1, "int64"), "numbers")
    return relax.op.take(data, editor.emit(relax.op.floor_mod(places, count), "places"), axis)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.broadcast_to",), broadcast_of_one)]
