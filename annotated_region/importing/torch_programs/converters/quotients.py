"""Floor division and remainders of floats.

PyTorch takes the exact remainder of ``fmod``, and adds the divisor where their signs differ: ``1 // 0.1`` is
9, since the nearest float is a little more than a tenth. TVM rounds the quotient down: it gets 10, and 0 for
the remainder, which is 0.0999. For a divisor that is a power of two both agree.
"""

from __future__ import annotations

import math

from tvm import relax

from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, dtype_of_tensor

__all__ = ["floor_quotient", "is_exact", "remainder"]


def is_exact(node: TorchNode, divisor: object) -> bool:
    """Whether TVM computes what PyTorch does: integers, or floats by a power of two."""
    if "float" not in node.dtype:
        return True
    return isinstance(divisor, int | float) and abs(math.frexp(divisor)[0]) == 0.5


def remainder(node: TorchNode, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """The remainder with the sign of the divisor."""
    rest, corrects = _rest(node, left, right)
    return node.emit(relax.op.where(corrects, node.emit(relax.op.add(rest, right)), rest))


def floor_quotient(node: TorchNode, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """The quotient rounded down; infinite or NaN for a divisor of 0."""
    dtype = dtype_of_tensor(left)
    zero, one = (relax.const(number, dtype) for number in (0, 1))
    rest, corrects = _rest(node, left, right)
    whole = node.emit(relax.op.divide(node.emit(relax.op.subtract(left, rest)), right))
    lower = node.emit(relax.op.where(corrects, node.emit(relax.op.subtract(whole, one)), whole))
    plain = node.emit(relax.op.divide(left, right))
    by_zero = node.emit(relax.op.equal(right, zero))
    return node.emit(relax.op.where(by_zero, plain, node.emit(relax.op.round(lower))))


def _rest(node: TorchNode, left: relax.Expr, right: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """The remainder with the sign of the dividend, and whether it is not 0 and has the other sign."""
    zero = relax.const(0, dtype_of_tensor(left))
    rest = node.emit(relax.op.mod(left, right))
    signs = [node.emit(relax.op.less(each, zero)) for each in (rest, right)]
    differs = node.emit(relax.op.logical_xor(*signs))
    is_some = node.emit(relax.op.not_equal(rest, zero))
    return rest, node.emit(relax.op.logical_and(differs, is_some))
