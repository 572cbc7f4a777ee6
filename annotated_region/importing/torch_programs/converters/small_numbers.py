"""``log1p`` and ``expm1`` of small numbers, which TVM 0.27's importer rounds to multiples of 2 ** -24.

It adds 1 before the logarithm, and subtracts 1 after the exponential. Here polynomials compute the results of
numbers below 1 / 64; the relative error of either way is below 5e-6 in float32. ``log1p(exp(x))``, a part of
``softplus``, keeps the importer's form, whose absolute error is that of float32 beside 1. Numbers of half
precision are computed in float32: beside 1, bfloat16 loses what is below 1 / 256.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode

_SMALL = 1 / 64
_LOGARITHM = (1.0, -1 / 2, 1 / 3, -1 / 4)
_EXPONENTIAL = (1.0, 1 / 2, 1 / 6, 1 / 24)


@converts("log1p.default")
def logarithm_beside_one(node: TorchNode) -> relax.Expr | None:
    """``log(1 + x)``."""
    data, given = _single(node), node.given(0)
    if data is None or (node.dtype == "float32" and "exp.default" in str(getattr(given, "target", ""))):
        return None
    whole = relax.op.log(node.emit(relax.op.add(data, relax.const(1.0, "float32"))))
    return _exact_where_small(node, data, _LOGARITHM, node.emit(whole))


@converts("expm1.default")
def exponential_beside_one(node: TorchNode) -> relax.Expr | None:
    """``exp(x) - 1``."""
    data = _single(node)
    if data is None:
        return None
    whole = relax.op.subtract(node.emit(relax.op.exp(data)), relax.const(1.0, "float32"))
    return _exact_where_small(node, data, _EXPONENTIAL, node.emit(whole))


def _single(node: TorchNode) -> relax.Expr | None:
    """The operand in float32; None if the result has another type than float32, float16 and bfloat16."""
    if node.dtype not in {"float32", "float16", "bfloat16"}:
        return None
    return node.cast(node.tensor(0), "float32")


def _exact_where_small(
    node: TorchNode, data: relax.Expr, coefficients: Sequence[float], whole: relax.Expr
) -> relax.Expr:
    sum_: relax.Expr = relax.const(coefficients[-1], "float32")
    for each in reversed(coefficients[:-1]):
        product = node.emit(relax.op.multiply(data, sum_))
        sum_ = node.emit(relax.op.add(product, relax.const(each, "float32")))
    polynomial = node.emit(relax.op.multiply(data, sum_))
    size = node.emit(relax.op.abs(data))
    is_small = node.emit(relax.op.less(size, relax.const(_SMALL, "float32")))
    return node.cast(node.emit(relax.op.where(is_small, polynomial, whole)), node.dtype)
