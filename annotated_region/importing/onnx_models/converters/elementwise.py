"""Elementwise ops that TVM's importer converts correctly only in some cases.

TVM 0.27.0 ignores the signs that `IsInf` selects; its floor modulo of floats is NaN if the divisor is
infinite; shifts by too many bits depend on the processor; it supports `Pow` neither for
integers nor for mixed types; and its `ThresholdedRelu` of minus infinity is NaN. It lowers `Clip` to
loops, which no target claims, and lacks `Celu`. It repeats the one slope of a `PRelu` along the last axis,
which no target claims, and which TVM cannot compile if that axis is symbolic.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


@converts("", "IsInf", (1, 1), "detect_negative detect_positive")
def _is_infinite(node: OnnxNode) -> relax.Expr:
    """Detects both infinities, one of them, or none."""
    data = node.tensor(0, (*FLOATS, "bfloat16"))
    negative, positive = (node.integer(f"detect_{sign}", 1, 0, 1) for sign in ("negative", "positive"))
    if negative and positive:
        return node.by_tvm()
    if not negative and not positive:
        return relax.op.full(relax.ShapeExpr(node.shape(data)), relax.const(np.array(False)), "bool")
    return relax.op.equal(data, relax.const(math.inf if positive else -math.inf, dtype_of(data)))


@converts("", "Mod", (2, 2), "fmod")
def _modulo(node: OnnxNode) -> relax.Expr:
    """For floats, derived from the remainder with the dividend's sign, which is correct for
    infinite divisors.
    """
    divisor = node.tensor(1)
    if dtype_of(divisor) not in FLOATS or node.integer("fmod", 0, 0, 1):
        return node.by_tvm()
    zero = relax.const(0.0, dtype_of(divisor))
    rest = node.emit(node.by_tvm(fmod=1))
    differs = relax.op.logical_xor(relax.op.less(rest, zero), relax.op.less(divisor, zero))
    is_behind = relax.op.logical_and(node.emit(differs), node.emit(relax.op.not_equal(rest, zero)))
    return relax.op.where(node.emit(is_behind), node.emit(relax.op.add(rest, divisor)), rest)


@converts("", "Clip", (1, 3))
def _clipped(node: OnnxNode) -> relax.Expr:
    """The lower bound first, so that the upper one wins where they cross; a bound of NaN is none."""
    data = node.tensor(0)
    for place, clip in ((1, relax.op.maximum), (2, relax.op.minimum)):
        bound = node.optional(place, (dtype_of(data),))
        if bound is not None:
            data = node.emit(clip(data, _without_nan(node, bound, math.inf if place == 2 else -math.inf)))
    return data


def _without_nan(node: OnnxNode, bound: relax.Expr, instead: float) -> relax.Expr:
    known, dtype = node.constant(bound), dtype_of(bound)
    if dtype not in FLOATS or (known is not None and not np.isnan(known).any()):
        return bound
    return node.emit(relax.op.where(relax.op.equal(bound, bound), bound, relax.const(instead, dtype)))


@converts("", "ThresholdedRelu", (1, 1), "alpha")
def _above_threshold(node: OnnxNode) -> relax.Expr:
    """The data where it is above the threshold, 0 elsewhere; TVM multiplies by truth values."""
    data = node.tensor(0, FLOATS)
    zero, least = (relax.const(number, dtype_of(data)) for number in (0.0, node.number("alpha", 1.0)))
    return relax.op.where(node.emit(relax.op.greater(data, least)), data, zero)


@converts("", "PRelu", (2, 2))
def _with_slopes(node: OnnxNode) -> relax.Expr:
    """One finite slope for all elements as that of a leaky ReLU; TVM repeats it along the last axis."""
    slope = node.constant(node.tensor(1))
    if (
        slope is None
        or slope.size != 1
        or slope.ndim > rank_of(node.tensor(0))
        or not np.isfinite(slope).all()
    ):
        return node.by_tvm()
    return relax.op.nn.leakyrelu(node.tensor(0, FLOATS), float(slope.item()))


@converts("", "Celu", (1, 1), "alpha")
def _celu(node: OnnxNode) -> relax.Expr:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``; ONNX's function makes a vector of a number."""
    data = node.tensor(0, FLOATS)
    zero, one, alpha = (relax.const(each, dtype_of(data)) for each in (0.0, 1.0, node.number("alpha", 1.0)))
    power = node.emit(relax.op.exp(node.emit(relax.op.divide(data, alpha))))
    below = node.emit(relax.op.multiply(node.emit(relax.op.subtract(power, one)), alpha))
    return relax.op.add(node.emit(relax.op.nn.relu(data)), node.emit(relax.op.minimum(below, zero)))


@converts("", "BitShift", (2, 2), "direction")
def _shift(node: OnnxNode) -> relax.Expr:
    """Shifts by at least the width, or by a negative count, give 0, or -1 for a right shift of
    a negative number.
    """
    data, count = node.tensor(0, INTEGERS), node.tensor(1, INTEGERS)
    dtype = dtype_of(data)
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    zero = relax.const(0, dtype)
    is_outside = node.emit(relax.op.greater_equal(count, relax.const(bits, dtype_of(count))))
    left: relax.Expr = zero
    if not dtype.startswith("u"):
        is_outside = node.emit(relax.op.logical_or(is_outside, node.emit(relax.op.less(count, zero))))
        is_negative = node.emit(relax.op.less(data, zero))
        if node.text("direction", "") == "RIGHT":
            left = node.emit(relax.op.where(is_negative, relax.const(-1, dtype), zero))
    return relax.op.where(is_outside, left, node.emit(node.by_tvm()))


@converts("", "Pow", (2, 2))
def _power(node: OnnxNode) -> relax.Expr:
    """In the type of the base; for integers by repeated squaring, which is exact."""
    base, exponent = node.tensor(0), node.tensor(1)
    of, by = dtype_of(base), dtype_of(exponent)
    if of in INTEGERS and by in INTEGERS:
        return _integer_power(node, base, exponent)
    if of in INTEGERS:
        found = relax.op.power(node.emit(relax.op.astype(base, by)), exponent)
        return relax.op.astype(node.emit(found), of)
    if of == by:
        return node.by_tvm()
    return relax.op.power(base, node.emit(relax.op.astype(exponent, of)))


def _integer_power(node: OnnxNode, base: relax.Expr, exponent: relax.Expr) -> relax.Expr:
    """Exponentiation by squaring, over the bits of the exponent.

    A power of 64 and more is 0, 1 or -1, or overflows; such exponents are replaced by a six-bit exponent of
    the same parity.
    """
    of, by = dtype_of(base), dtype_of(exponent)
    known = node.constant(exponent)
    node.require(known is None or bool((known >= 0).all()), "has a negative integer exponent")
    one, two = (relax.const(number, by) for number in (1, 2))
    odd = node.emit(relax.op.bitwise_and(exponent, one))
    most = node.emit(relax.op.add(relax.const(62, by), odd))
    rest = node.emit(relax.op.minimum(exponent, most))
    bits = 6 if known is None else max(int(min(known.max(initial=0), 63)).bit_length(), 1)
    result: relax.Expr = relax.const(1, of)
    for _ in range(bits):
        has_bit = node.emit(relax.op.equal(relax.op.bitwise_and(rest, one), one))
        result = node.emit(relax.op.multiply(result, relax.op.where(has_bit, base, relax.const(1, of))))
        base = node.emit(relax.op.multiply(base, base))
        rest = node.emit(relax.op.floor_divide(rest, two))
    return result
