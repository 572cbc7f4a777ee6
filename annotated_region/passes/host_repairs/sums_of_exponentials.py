"""Computes logarithms of sums of exponentials without overflow.

::

    lv = log_add_exp(a, b)    =>    lv = where(equal(a, b), m + log(2), m + log(1 + exp(-abs(a - b))))

with ``m = maximum(a, b)``. TVM 0.27.0 computes ``log(exp(a) + exp(b))``: infinity from 89 on in float32, and
minus infinity below -104. Equal operands are apart for the sake of infinite ones, whose difference is NaN.
The repair can be removed with the first TVM for which
``tests/passes/host_repairs/test_sums_of_exponentials.py`` passes without it.
"""

from __future__ import annotations

import math

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def sum_beside_the_largest(view: OpView, editor: Editor) -> relax.Expr:
    """The same logarithm as the larger operand, and what the other one adds."""
    left, right = view.args
    dtype = str(dtype_of(view.out_type))
    largest = editor.emit(relax.op.maximum(left, right), "largest")
    apart = editor.emit(relax.op.abs(editor.emit(relax.op.subtract(left, right), "apart")), "apart")
    part = editor.emit(relax.op.exp(editor.emit(relax.op.negative(apart), "below")), "part")
    both = editor.emit(relax.op.add(part, relax.const(1.0, dtype)), "both")
    more = editor.emit(relax.op.add(largest, editor.emit(relax.op.log(both), "more")), "more")
    twice = editor.emit(relax.op.add(largest, relax.const(math.log(2.0), dtype)), "twice")
    return relax.op.where(editor.emit(relax.op.equal(left, right), "equal"), twice, more)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.log_add_exp",), sum_beside_the_largest)]
