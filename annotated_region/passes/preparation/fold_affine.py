"""Folds chains of arithmetic with constants, into the weight of a preceding linear op if there is one.

1.  After a convolution or a matrix product with a constant weight, any chain::

        lv1 = conv2d(x, w)
        lv2 = multiply(lv1, a)        becomes        lv1 = conv2d(x, w * a)
        lv3 = add(lv2, b)                            lv2 = add(lv1, b)      # b of shape (1, C, 1, 1)

    The bias is always the right operand of an ``add``, of shape (1, C, 1, 1) after a convolution, (N,)
    after a matrix product, even if it was a scalar.
2.  Elsewhere, a chain becomes a ``multiply`` and an ``add`` if that is cheaper. A division is kept unless its
    divisor is a power of two: ``x / c`` is an integer where ``x`` is a multiple of ``c``, but ``x * (1 / c)``
    may not be, which a following ``floor`` would expose.
3.  A scalar that multiplies the input of a linear op (ONNX Gemm's alpha) is folded into the weight too.

Nothing is folded across a value with other readers: the work would be done twice. Scale and shift are
computed in double precision; a chain whose constants overflow in the dtype of the tensors is unchanged.

Case 1 folds a batch norm as Jacob et al. do (2018, "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", section 3.2), and any other affine layer with it.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.affine import ARITHMETIC, ScaleAndShift, chain_of, step_of
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.linear import LINEAR_OPS, Linear, linear_of
from annotated_region.passes.preparation.tensors import constant_of, dtype_of, static_shape
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES", "collapsed"]


def fold_arithmetic(view: OpView, editor: Editor) -> relax.Expr | None:
    """Cases 1 and 2, rooted at the last step of a chain."""
    step = step_of(view, editor)
    if step is None:
        return None
    chain = chain_of(step, editor)
    linear = _linear_source(chain, editor)
    if linear is None or not _is_bias(view, chain, linear):
        return collapsed(step, editor)
    return None


def _is_bias(view: OpView, chain: ScaleAndShift, linear: Linear) -> bool:
    return chain.steps == ("relax.add",) and static_shape(view.arg_types[1]) == linear.bias_shape


def collapsed(step: ScaleAndShift, editor: Editor) -> relax.Expr | None:
    """The cheapest expression for the chain that ends in `step`.

    None if nothing is cheaper than the ops that compute it now.
    """
    chain = chain_of(step, editor)
    linear = _linear_source(chain, editor)
    folded = _into_weight(chain, linear, editor) if linear is not None else None
    if folded is not None:
        return folded
    return None if step.divides else _as_arithmetic(chain_of(step, editor, divisions=False), editor)


def _linear_source(chain: ScaleAndShift, editor: Editor) -> Linear | None:
    view = editor.view_read_once(chain.source)
    return linear_of(view, editor) if view is not None else None


def _into_weight(chain: ScaleAndShift, linear: Linear, editor: Editor) -> relax.Expr | None:
    scale, shift = linear.per_channel(chain.scale), linear.per_channel(chain.shift)
    if scale is None or shift is None:
        return None
    scaled = chain.source if (scale == 1).all() else linear.scaled(scale, editor)
    bias = _rounded(shift, dtype_of(chain.source.ty))
    if scaled is None or bias is None:
        return None
    if not bias.any():
        return scaled
    result = scaled if isinstance(scaled, relax.Var) else editor.emit(scaled, "scaled")
    return relax.op.add(result, constant_of(bias.reshape(linear.bias_shape)))


def _as_arithmetic(chain: ScaleAndShift, editor: Editor) -> relax.Expr | None:
    dtype = dtype_of(chain.source.ty)
    scale, shift = _rounded(chain.scale, dtype), _rounded(chain.shift, dtype)
    if scale is None or shift is None:
        return None
    scales, shifts = bool((scale != 1).any()), bool(shift.any())
    if scales + shifts >= len(chain.steps) and set(chain.steps) <= set(ARITHMETIC):
        return None
    result = chain.source
    if scales:
        result = relax.op.multiply(result, _operand(scale))
    if scales and shifts:
        result = editor.emit(result, "scaled")
    return relax.op.add(result, _operand(shift)) if shifts else result


def _operand(numbers: np.ndarray) -> relax.Expr:
    """A constant operand: a scalar if it has one element, otherwise of full rank."""
    return constant_of(numbers.reshape(()) if numbers.size == 1 else numbers)


def _rounded(numbers: np.ndarray, dtype: str | None) -> np.ndarray | None:
    """`numbers` in the given precision; None if one of them is too large for it."""
    with np.errstate(all="ignore"):
        rounded = numbers.astype(dtype)
    return rounded if np.isfinite(rounded).all() else None


def absorb_input_scale(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 3."""
    linear = linear_of(view, editor)
    inner = editor.view_read_once(view.args[0])
    step = step_of(inner, editor) if inner is not None else None
    if linear is None or step is None or step.scale.size != 1 or step.shift.any():
        return None
    return linear.scaled(step.scale.reshape(-1), editor, of=step.source)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (tuple(ARITHMETIC), fold_arithmetic),
    (LINEAR_OPS, absorb_input_scale),
]
