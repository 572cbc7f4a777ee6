"""Rewrites ``not_equal`` of floats, which TVM computes as false where an operand is NaN.

::

    lv = not_equal(x, y)        =>      lv_equal = equal(x, y)
                                        lv       = logical_not(lv_equal)

NaN differs from every number, and from itself: programs ask so for it (``x != x``). TVM 0.27.0 emits LLVM's
ordered comparison, which is false for NaN, as that of ``equal`` must be. The repair can be removed with the
first TVM for which ``tests/passes/host_repairs/test_unequal_nan.py`` passes without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import FLOATS, dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def negated_equality(view: OpView, editor: Editor) -> relax.Expr | None:
    """The negation of the equality of floats; None for other types."""
    if str(dtype_of(view.arg_types[0])) not in FLOATS:
        return None
    return relax.op.logical_not(editor.emit(relax.op.equal(*view.args), "equal"))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.not_equal",), negated_equality)]
