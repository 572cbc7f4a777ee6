"""The inverse of the error function, which TVM 0.27's importer and Relax lack.

The quotient ``erfinv(x) / x`` is smooth in ``w = -log(1 - x * x)`` where x is small, and in the root of w
towards 1: M. Giles, "Approximating the erfinv function", 2010. The two polynomials were fitted for this file;
their largest relative errors are 6e-9 and 1e-8, so that the rounding to float32 decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode

_BORDER = 5.0  # of w
_MIDDLES = (2.5, 3.0)  # near which the polynomials are taken, of w and of its root
_CENTRAL = (
    *(1.501409359, 2.466402862e-01, -4.177386780e-03, -1.252741883e-03, 2.183444384e-04),
    *(-4.963345294e-06, -3.462704500e-06, 4.661701042e-07, 2.323262314e-08, -8.791015944e-09),
)
_TOWARDS_ONE = (
    *(2.832976803, 1.001674947, 9.445192277e-03, -7.636955429e-03, 5.687809163e-03),
    *(-3.598987590e-03, 1.482853089e-03, -5.376312331e-05, -3.077464861e-04, 1.136394351e-04),
)


@converts("erfinv.default")
def inverse_error(node: TorchNode) -> relax.Expr | None:
    """The number whose error function is x: infinite for 1 and -1, NaN beyond."""
    if node.dtype == "float64":
        return None
    data = node.cast(node.tensor(0), "float32")
    one = _number(1.0)
    below, above = node.emit(relax.op.subtract(one, data)), node.emit(relax.op.add(one, data))
    logarithm = node.emit(relax.op.log(node.emit(relax.op.multiply(below, above))))
    w = node.emit(relax.op.negative(logarithm))
    root = node.emit(relax.op.sqrt(w))
    central = _polynomial(node, w, _MIDDLES[0], _CENTRAL)
    outer = _polynomial(node, root, _MIDDLES[1], _TOWARDS_ONE)
    is_central = node.emit(relax.op.less(w, _number(_BORDER)))
    quotient = node.emit(relax.op.where(is_central, central, outer))
    is_end = node.emit(relax.op.equal(node.emit(relax.op.abs(data)), one))
    quotient = node.emit(relax.op.where(is_end, _number(math.inf), quotient))
    return node.cast(node.emit(relax.op.multiply(data, quotient)), node.dtype)


def _polynomial(node: TorchNode, data: relax.Expr, middle: float, coefficients: Sequence[float]) -> relax.Var:
    """The polynomial in ``data - middle``, by Horner's rule."""
    distance = node.emit(relax.op.subtract(data, _number(middle)))
    *others, last = coefficients
    sum_: relax.Expr = _number(last)
    for each in reversed(others):
        product = node.emit(relax.op.multiply(distance, sum_))
        sum_ = node.emit(relax.op.add(product, _number(each)))
    assert isinstance(sum_, relax.Var)
    return sum_


def _number(value: float) -> relax.Expr:
    return relax.const(value, "float32")
