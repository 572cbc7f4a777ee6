"""An elementwise function of a constant that is repeated along symbolic axes is computed once.

    lv = broadcast_to(0.0, (n, 8, 8))                       lv1 = broadcast_to(false, (n, 8, 8))
    lv1 = astype(lv, "bool")                 becomes

So models make a mask for their batch. `fold_constants` folds static shapes only, and targets decline a cast
to truth values whose operand they do not know.
"""

from __future__ import annotations

import tvm_ffi
from tvm import relax

from annotated_region.passes.preparation.constant_functions import FUNCTIONS
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.fold_constants import fold_constants
from annotated_region.passes.preparation.remove_identities import before_broadcast
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def compute_before_spreading(view: OpView, editor: Editor) -> relax.Expr | None:
    """The spread result of the function; None if its operand is no spread constant, or it does not fold."""
    shape = view.out_tensor.shape
    operand = before_broadcast(view.args[0], editor) if len(view.args) == 1 else None
    if operand is None or not editor.is_constant(operand) or not _is_same_shape(view):
        return None
    function = OpView.of(editor.normalize(relax.Call(view.call.op, [operand], view.call.attrs)))
    number = None if function is None else fold_constants(function, editor)
    return None if number is None else relax.op.broadcast_to(number, shape)


def _is_same_shape(view: OpView) -> bool:
    shape = view.arg_tensor(0).shape
    return isinstance(shape, relax.ShapeExpr) and tvm_ffi.structural_equal(shape, view.out_tensor.shape)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.astype", *FUNCTIONS), compute_before_spreading),
]
