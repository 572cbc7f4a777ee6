"""Functions of pairs of numbers that TVM 0.27's importer lacks, or that TVM cannot compile."""

from __future__ import annotations

from math import copysign, pi

from tvm import relax

from annotated_region.importing.torch_programs.converters.functions import is_negative
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, is_tensor

__all__ = ["angle_of"]


@converts("fmax.default", "fmin.default")
def extreme_of_numbers(node: TorchNode) -> relax.Expr:
    """The larger or smaller one of two numbers; the other one beside NaN."""
    # TVM has no extremes of booleans.
    dtype = "int8" if node.dtype == "bool" else node.dtype
    one, other = (node.cast(node.tensor(place), dtype) for place in (0, 1))
    operation = relax.op.maximum if node.name == "fmax.default" else relax.op.minimum
    found: relax.Expr = node.emit(operation(one, other))
    if "float" in dtype:
        found = node.emit(relax.op.where(node.emit(relax.op.isnan(other)), one, found))
        found = node.emit(relax.op.where(node.emit(relax.op.isnan(one)), other, found))
    return node.cast(found, node.dtype)


@converts("copysign.Tensor", "copysign.Scalar")
def with_sign(node: TorchNode) -> relax.Expr | None:
    """The size of one number with the sign of another, which may be -0.0."""
    sign = node.argument(1)
    size = node.emit(relax.op.abs(node.cast(node.tensor(0), node.dtype)))
    below = node.emit(relax.op.negative(size))
    if isinstance(sign, int | float):
        return below if copysign(1, sign) < 0 else size
    if not isinstance(sign, relax.Expr) or not is_tensor(sign):
        return None
    return node.emit(relax.op.where(is_negative(node, sign), below, size))


@converts("ldexp.Tensor")
def scaled_by_power(node: TorchNode) -> relax.Expr:
    """``x * 2 ** exponent``."""
    data, exponent = (node.cast(node.tensor(place), node.dtype) for place in (0, 1))
    factor = node.emit(relax.op.power(relax.const(2.0, node.dtype), exponent))
    return node.emit(relax.op.multiply(data, factor))


@converts("atan2.default")
def angle(node: TorchNode) -> relax.Expr:
    """The angle of a point from the axis of x, between -pi and pi; TVM cannot compile its own op on the host.

    It is the arc tangent of the smaller coordinate by the larger one, mirrored for the other octants.
    """
    return angle_of(node, *(node.cast(node.tensor(place), node.dtype) for place in (0, 1)))


def angle_of(node: TorchNode, high: relax.Expr, wide: relax.Expr) -> relax.Expr:
    """The angle of a point of two coordinates."""
    dtype = node.dtype
    sizes = [node.emit(relax.op.abs(each)) for each in (high, wide)]
    least, most = node.emit(relax.op.minimum(*sizes)), node.emit(relax.op.maximum(*sizes))
    # The quotients of two infinities and of two zeros are not numbers.
    ratio = node.emit(relax.op.divide(least, most))
    is_diagonal = node.emit(relax.op.equal(*sizes))
    ratio = node.emit(relax.op.where(is_diagonal, relax.const(1, dtype), ratio))
    is_origin = node.emit(relax.op.equal(most, relax.const(0, dtype)))
    ratio = node.emit(relax.op.where(is_origin, relax.const(0, dtype), ratio))
    found: relax.Expr = node.emit(relax.op.atan(ratio))
    for condition, whole in ((node.emit(relax.op.greater(*sizes)), pi / 2), (is_negative(node, wide), pi)):
        mirrored = node.emit(relax.op.subtract(relax.const(whole, dtype), found))
        found = node.emit(relax.op.where(condition, mirrored, found))
    below = node.emit(relax.op.negative(found))
    return node.emit(relax.op.where(is_negative(node, high), below, found))


@converts("hypot.default")
def hypotenuse(node: TorchNode) -> relax.Expr:
    """``sqrt(x * x + y * y)``, of quotients by the larger number, whose squares do not overflow."""
    sides = [node.emit(relax.op.abs(node.cast(node.tensor(place), node.dtype))) for place in (0, 1)]
    larger = node.emit(relax.op.maximum(*sides))
    inverse = node.emit(relax.op.divide(relax.const(1, node.dtype), larger))
    are_finite = [node.emit(relax.op.isfinite(each)) for each in (larger, inverse)]
    is_divisor = node.emit(relax.op.logical_and(*are_finite))
    divisor = node.emit(relax.op.where(is_divisor, larger, relax.const(1, node.dtype)))
    quotients = [node.emit(relax.op.divide(each, divisor)) for each in sides]
    sum_ = node.emit(relax.op.add(*(node.emit(relax.op.multiply(each, each)) for each in quotients)))
    return node.emit(relax.op.multiply(divisor, node.emit(relax.op.sqrt(sum_))))
