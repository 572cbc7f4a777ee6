"""Slices that are put into an axis of symbolic extent, or between symbolic bounds, as concatenations.

::

    lv = slice_scatter(x, u, m, n, 1, axis=0)      x: (n, 4)      u: (n - m, 4)
                          =>
    lv_first = strided_slice(x, axes=[0], begin=[0], end=[m])
    lv_rest = strided_slice(x, axes=[0], begin=[n], end=[n])
    lv_joined = concat((lv_first, u, lv_rest), axis=0)
    lv = reshape(lv_joined, (n, 4))

TVM 0.27.0 asks for numbers: "Expect value to be constant int". Numbers count from the end if they are below
0, and lie within the axis. The repair can go with the first TVM for which
``tests/passes/host_repairs/test_unknown_slices.py`` passes without it.
"""

from __future__ import annotations

from tvm import relax, tirx

from annotated_region.layouts.layout import Extent
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def as_concatenation(view: OpView, editor: Editor) -> relax.Expr | None:
    """What is before the slice, the updates, and what is behind it; of steps of 1."""
    data, updates, begin, end, step = view.args
    extents = extents_of(data)
    if not extents or not isinstance(step, tirx.IntImm) or int(step) != 1:
        return None
    axis = int(view.attrs["axis"]) % len(extents)
    if all(isinstance(each, int | tirx.IntImm) for each in (extents[axis], begin, end)):
        return None
    start, stop = (_within(each, extents[axis]) for each in (begin, end))
    first = editor.emit(_part(data, axis, 0, start), "first")
    rest = editor.emit(_part(data, axis, stop, extents[axis]), "rest")
    joined = relax.op.concat([first, updates, rest], axis)
    # TVM does not prove that m + (n - m) is n.
    return relax.op.reshape(editor.emit(joined, "joined"), relax.ShapeExpr(extents))


def _within(bound: relax.Expr, extent: Extent) -> relax.Expr:
    """A place of the axis, or its end."""
    whole = tirx.IntImm("int64", extent) if isinstance(extent, int) else extent
    if not isinstance(bound, tirx.IntImm):
        return bound
    if int(bound) < 0:
        return tirx.Max(whole + int(bound), tirx.IntImm("int64", 0))
    return tirx.Min(tirx.IntImm("int64", int(bound)), whole) if int(bound) else bound


def _part(data: relax.Expr, axis: int, begin: Extent, end: Extent) -> relax.Expr:
    return relax.op.strided_slice(data, [axis], [begin], [end], assume_inbound=True)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.slice_scatter",), as_concatenation)]
