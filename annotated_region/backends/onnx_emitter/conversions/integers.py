"""Integer ops: bitwise logic, shifts, and floor division."""

from __future__ import annotations

import numpy as np

from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__ = ["floor_quotient"]

BITWISE = {
    "relax.bitwise_and": ("BitwiseAnd", "And"),
    "relax.bitwise_or": ("BitwiseOr", "Or"),
    "relax.bitwise_xor": ("BitwiseXor", "Xor"),
    "relax.bitwise_not": ("BitwiseNot", "Not"),
}
"""The operator of each op for integers, and for booleans."""

BITWISE_OPSET = 18
_MOST_BITS = 62


@converter(*BITWISE)
def _bitwise(emission: Emission, op: OpView) -> str:
    numbers, truth = BITWISE[op.name]
    operands = [emission.operand(argument) for argument in op.args]
    types = {emission.dtype(name) for name in operands}
    require(len(types) == 1, f"operands of types {' and '.join(sorted(types))}")
    if types == {"bool"}:
        return emission.node(truth, *operands)
    require(emission.opset >= BITWISE_OPSET, f"opset {emission.opset} has no bitwise operators")
    return emission.node(numbers, *operands)


@converter("relax.left_shift")
def _left_shift(emission: Emission, op: OpView) -> str:
    """A product with a power of two, which wraps like a shift."""
    data, power = _shifted(emission, op)
    return emission.cast(emission.node("Mul", data, power), str(op.out_tensor.dtype))


@converter("relax.right_shift")
def _right_shift(emission: Emission, op: OpView) -> str:
    """A quotient by a power of two; the remainder is subtracted first, because ``Div`` truncates."""
    data, power = _shifted(emission, op)
    kept = emission.node("Sub", data, emission.node("Mod", data, power))
    return emission.cast(emission.node("Div", kept, power), str(op.out_tensor.dtype))


def _shifted(emission: Emission, op: OpView) -> tuple[str, str]:
    """The operand, and two to the power of the shift count, both as int64."""
    dtype, bits = str(op.out_tensor.dtype), op.constant(1)
    require("int" in dtype and dtype != "uint64", f"a shift of {dtype}")
    data = emission.cast(emission.operand(op.args[0]), "int64")
    if bits is not None:
        require(
            bool(((bits >= 0) & (bits <= _MOST_BITS)).all()), "a shift by fewer than 0 or more than 62 bits"
        )
        return data, emission.graph.constant(np.left_shift(1, bits.astype("int64")))
    require(
        dtype.startswith("uint"), f"a shift of {dtype} by a computed number of bits, which may be negative"
    )
    count = emission.cast(emission.operand(op.args[1]), "int64")
    return data, emission.node("Pow", emission.number(2, "int64"), count)


def floor_quotient(emission: Emission, left: str, right: str) -> str:
    """The quotient of integers rounded down; that of ONNX is rounded towards zero.

    They differ by one if the remainder is not zero and its sign is not that of the divisor.
    """
    quotient = emission.node("Div", left, right)
    rest = emission.node("Mod", left, right, fmod=1)
    none = emission.like(0, left)
    opposite = emission.node("Xor", emission.node("Less", rest, none), emission.node("Less", right, none))
    uneven = emission.node("Not", emission.node("Equal", rest, none))
    excess = emission.cast(emission.node("And", uneven, opposite), emission.dtype(left))
    return emission.node("Sub", quotient, excess)
