"""Rewrites ops whose data type TVM ignores, as ops in the type of their operand, and a cast.

::

    lv = eye_like(x, 0, dtype="int64")             =>     lv_plain = eye_like(x, 0)
                                                          lv       = astype(lv_plain, "int64")

    lv = resize2d(x, (4, 5), out_dtype="float16")  =>     likewise; also resize3d

    lv = grid_sample(x, grid)                      =>     lv_image = astype(x, "float64")
         x of float32, grid of float64                    lv_plain = grid_sample(lv_image, grid)
                                                          lv       = astype(lv_plain, "float32")

TVM 0.27.0 lowers the first two to functions that write elements of the operand's type, and what reads the
result takes them for elements of the type that was asked for; those of the last one are of the wider type.
The repair can be removed with the first TVM for which ``tests/passes/host_repairs/test_result_types.py``
passes without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.ops import changed_attributes

__all__ = ["REWRITES"]

_FIELDS = {
    "relax.eye_like": "dtype",
    "relax.image.resize2d": "out_dtype",
    "relax.image.resize3d": "out_dtype",
}
"""The attribute that names the type."""


def in_type_of_operand(view: OpView, editor: Editor) -> relax.Expr | None:
    """The op without a type of its own, and a cast."""
    given, wanted = dtype_of(view.arg_types[0]), dtype_of(view.out_type)
    if given is None or wanted is None or given == wanted:
        return None
    assert view.call.attrs is not None
    attributes = changed_attributes(view.call.attrs, **{_FIELDS[view.name]: given})
    plain = editor.emit(relax.Call(view.call.op, view.args, attributes), "plain")
    return relax.op.astype(plain, wanted)


def in_one_type(view: OpView, editor: Editor) -> relax.Expr | None:
    """The samples of an image in double precision, if the grid has it, and a cast."""
    image, grid = (dtype_of(each) for each in view.arg_types[:2])
    if image == grid or grid != "float64":
        return None
    wide = editor.emit(relax.op.astype(view.args[0], grid), "image")
    plain = editor.emit(relax.Call(view.call.op, [wide, *view.args[1:]], view.call.attrs), "plain")
    return relax.op.astype(plain, image)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (tuple(_FIELDS), in_type_of_operand),
    (("relax.image.grid_sample",), in_one_type),
]
