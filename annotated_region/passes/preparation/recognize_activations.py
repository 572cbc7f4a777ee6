"""Recognizes GELU and SiLU that an exporter decomposed, and replaces their parts by the op.

::

    x * (1 + erf(x / sqrt(2))) / 2                          =>   gelu(x)
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + c * x ^ 3)))      =>   gelu_tanh(x)          c = 0.044715
    x * sigmoid(x)                                          =>   silu(x)

1.  Scalar factors may precede or follow: with ``f`` one of the three functions, ``p`` its argument,

        (a * x) * (s + s * f(p))   =   2 * s * a * gelu(x)        for erf and tanh
        (a * x) * (s * f(p))       =       s * a * silu(x)        for sigmoid

    for all numbers ``a`` and ``s``. The factor is emitted after the op, where ``fold_affine`` combines it
    with adjacent constants; with a following ``/ 2`` it becomes 1 and disappears.
2.  ``p`` is matched as a polynomial in ``x``, independent of its form: ``x * x * x``, ``power(x, 3)``,
    ``x * (1 + c * x * x)``. It must be the polynomial of the definition, with coefficients within a relative
    tolerance of 1e-4, because some exporters write few digits.
3.  Every value between ``x`` and the product is read only on the way to the product, and has the type of
    ``x``, so nothing is computed twice and nothing is broadcast.

Supports float32 and float16; TVM computes ``erf`` of float16 in single precision in either form.

Quantized parts are not matched: with ``quantize`` and ``dequantize`` between them, the parts are not
directly connected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.compositions import Parts, dtype_among, is_close
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.rewrites import either_way
from annotated_region.passes.preparation.tensors import constant_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

ROOT = math.sqrt(2 / math.pi)


@dataclass(frozen=True, slots=True)
class _Gate:
    """The factor that is multiplied with ``x``: ``s * f(argument) + t``.

    Attributes
    ----------
    op
        The activation as a Relax op.
    argument
        The coefficients of the polynomial that the argument must be.
    has_shift
        Whether ``t`` equals ``s``; otherwise ``t`` is zero.
    """

    op: Callable[[relax.Expr], relax.Call]
    argument: tuple[float, ...]
    has_shift: bool


GATES = {
    "relax.erf": _Gate(relax.op.nn.gelu, (0.0, math.sqrt(0.5)), has_shift=True),
    "relax.tanh": _Gate(relax.op.nn.gelu_tanh, (0.0, ROOT, 0.0, ROOT * 0.044715), has_shift=True),
    "relax.sigmoid": _Gate(relax.op.nn.silu, (0.0, 1.0), has_shift=False),
}


@either_way
def recognize_activation(
    view: OpView, plain: relax.Expr, gated: relax.Expr, editor: Editor
) -> relax.Expr | None:
    """The activation, times a scalar, that a product computes."""
    parts = Parts(view, editor)
    curve, scale, shift = parts.scaled(gated)
    function = parts.own(curve, *GATES)
    gate = GATES[function.name] if function is not None else None
    if function is None or gate is None or shift != (scale if gate.has_shift else 0.0):
        return None
    data, factor, offset = parts.scaled(plain)
    dtype = dtype_among(data, ("float32", "float16"))
    if offset or dtype is None or not _is_argument(function.args[0], data, gate, parts, dtype):
        return None
    factor *= scale * 2.0 if gate.has_shift else scale
    number = np.asarray(factor, dtype)
    whole = parts.raised(gate.op(data)) if np.isfinite(number) else None
    if whole is None or factor == 1.0:
        return whole
    return relax.op.multiply(editor.emit(whole, "activation"), constant_of(number))


def _is_argument(expr: relax.Expr, data: relax.Expr, gate: _Gate, parts: Parts, dtype: str) -> bool:
    """Case 2."""
    polynomial = parts.polynomial(expr, data)
    if polynomial is None or len(polynomial) != len(gate.argument):
        return False
    return all(is_close(one, other, dtype) for one, other in zip(polynomial, gate.argument, strict=True))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.multiply",), recognize_activation)]
