"""``erfc`` and ``erfcx``, which TVM 0.27's importer and Relax lack; 1 - ``erf`` loses all digits for large x.

With ``t = 2 / (2 + x)``, the logarithm of ``erfcx(x) / t`` is smooth for all ``x >= 0``. The polynomial was
fitted for this file; its largest error is 1e-8, so that the rounding to float32 decides. Numbers below 0 are
reflected.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode

_MIDDLE = 0.5
_COEFFICIENTS = (
    *(-6.717940917e-01, 1.345286310e00, 1.893755505e-01, -3.751491245e-01),
    *(-1.580803092e-01, 2.818824118e-01, 1.148202400e-01, -2.929619506e-01),
    *(-5.834520728e-02, 2.937683826e-01, 8.192755850e-03, -1.787572435e-01),
)
"""Of the powers of ``t - 0.5``."""


@converts("erfc.default", "special_erfcx.default")
def complementary_error(node: TorchNode) -> relax.Expr | None:
    """``1 - erf(x)``, or that times ``exp(x * x)``."""
    if node.dtype == "float64":
        return None
    data = node.cast(node.tensor(0), "float32")
    size = node.emit(relax.op.abs(data))
    square = node.emit(relax.op.multiply(data, data))
    scaled = _scaled(node, size)
    is_below = node.emit(relax.op.less(data, _number(0.0)))
    if node.name.startswith("special"):
        growth = node.emit(relax.op.multiply(_number(2.0), node.emit(relax.op.exp(square))))
        reflected = node.emit(relax.op.subtract(growth, scaled))
        return node.cast(node.emit(relax.op.where(is_below, reflected, scaled)), node.dtype)
    decay = node.emit(relax.op.exp(node.emit(relax.op.negative(square))))
    found = node.emit(relax.op.multiply(decay, scaled))
    reflected = node.emit(relax.op.subtract(_number(2.0), found))
    return node.cast(node.emit(relax.op.where(is_below, reflected, found)), node.dtype)


def _scaled(node: TorchNode, size: relax.Expr) -> relax.Expr:
    """``erfcx`` of numbers that are not negative."""
    t = node.emit(relax.op.divide(_number(2.0), node.emit(relax.op.add(size, _number(2.0)))))
    distance = node.emit(relax.op.subtract(t, _number(_MIDDLE)))
    *others, last = _COEFFICIENTS
    sum_: relax.Expr = _number(last)
    for each in reversed(others):
        sum_ = node.emit(relax.op.add(node.emit(relax.op.multiply(distance, sum_)), _number(each)))
    return node.emit(relax.op.multiply(t, node.emit(relax.op.exp(sum_))))


def _number(value: float) -> relax.Expr:
    return relax.const(value, "float32")
