"""Elementwise ops: functions of one value, arithmetic, comparisons, logic, selection."""

from __future__ import annotations

import math

from annotated_region.backends.onnx_emitter.conversions.integers import floor_quotient
from annotated_region.backends.onnx_emitter.emission import Emission, literal
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.extents import UNKNOWN_EXTENT
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__ = ["BINARY", "COMPARISONS", "LOGIC", "UNARY", "is_float"]

UNARY = {
    "relax.abs": "Abs", "relax.acos": "Acos", "relax.acosh": "Acosh", "relax.asin": "Asin",
    "relax.asinh": "Asinh", "relax.atan": "Atan", "relax.atanh": "Atanh", "relax.ceil": "Ceil",
    "relax.cos": "Cos", "relax.cosh": "Cosh", "relax.erf": "Erf", "relax.exp": "Exp", "relax.floor": "Floor",
    "relax.isnan": "IsNaN", "relax.log": "Log", "relax.negative": "Neg",
    "relax.round": "Round", "relax.sigmoid": "Sigmoid", "relax.sign": "Sign", "relax.sin": "Sin",
    "relax.sinh": "Sinh",
    "relax.sqrt": "Sqrt", "relax.tan": "Tan", "relax.tanh": "Tanh", "relax.nn.relu": "Relu",
}  # fmt: skip
BINARY = {
    "relax.add": "Add", "relax.subtract": "Sub", "relax.multiply": "Mul", "relax.divide": "Div",
    "relax.maximum": "Max", "relax.minimum": "Min", "relax.power": "Pow",
}  # fmt: skip
COMPARISONS = {
    "relax.equal": "Equal", "relax.less": "Less", "relax.less_equal": "LessOrEqual",
    "relax.greater": "Greater", "relax.greater_equal": "GreaterOrEqual",
}  # fmt: skip
LOGIC = {"relax.logical_and": "And", "relax.logical_or": "Or", "relax.logical_xor": "Xor"}
FLOATS = ("float16", "float32", "float64", "bfloat16")


def is_float(dtype: str) -> bool:
    """Whether a data type is a floating-point type."""
    return dtype in FLOATS


@converter(*UNARY)
def _unary(emission: Emission, op: OpView) -> str:
    return emission.node(UNARY[op.name], emission.operand(op.args[0]))


@converter("relax.rsqrt")
def _rsqrt(emission: Emission, op: OpView) -> str:
    return emission.node("Reciprocal", emission.node("Sqrt", emission.operand(op.args[0])))


@converter("relax.square")
def _square(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    return emission.node("Mul", data, data)


@converter("relax.trunc")
def _trunc(emission: Emission, op: OpView) -> str:
    """Towards zero; a zero is the third operand of ``Where``: ONNX Runtime loses the sign of a second one."""
    data = emission.operand(op.args[0])
    is_positive = emission.node("Greater", data, emission.like(0, data))
    return emission.node("Where", is_positive, emission.node("Floor", data), emission.node("Ceil", data))


@converter("relax.isinf")
def _isinf(emission: Emission, op: OpView) -> str:
    return _infinite(emission, emission.operand(op.args[0]))


@converter("relax.isfinite")
def _isfinite(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    return emission.node("Not", emission.node("Or", emission.node("IsNaN", data), _infinite(emission, data)))


def _infinite(emission: Emission, data: str) -> str:
    """Whether elements are infinite; before opset 20, ``IsInf`` does not support half precision."""
    wide = emission.cast(data, "float32") if emission.dtype(data) == "float16" else data
    return emission.node("IsInf", wide)


@converter("relax.clip")
def _clip(emission: Emission, op: OpView) -> str:
    """Of bounds that cross, TVM applies the lower one last, and ONNX the upper one."""
    data = emission.operand(op.args[0])
    dtype = emission.dtype(data)
    bounds = [literal(argument) for argument in op.args[1:]]
    require(is_float(dtype) or all(isinstance(bound, int) for bound in bounds), "a bound is not an integer")
    require(not any(math.isnan(bound) for bound in bounds), "a bound is NaN, which ONNX ignores")
    bounds[1] = max(bounds)
    low, high = (emission.like(float(bound) if is_float(dtype) else bound, data) for bound in bounds)
    return emission.node("Clip", data, low, high)


@converter(*BINARY)
def _binary(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    if op.name == "relax.power":
        require(is_float(emission.dtype(left)), "a power of integers")
    result = emission.node(BINARY[op.name], left, right)
    if _repeats_an_image(op):
        emission.graph.repeated_images.add(result)
    return result


def _repeats_an_image(op: OpView) -> bool:
    """Whether an operand is repeated along the first axis, whose extent is symbolic."""
    left, right = op.tensor_extents
    return len(left) == len(right) and {1, UNKNOWN_EXTENT} == {*left[:1], *right[:1]}


@converter("relax.floor_divide")
def _floor_divide(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    if not is_float(emission.dtype(left)):
        return floor_quotient(emission, left, right)
    return emission.node("Floor", emission.node("Div", left, right))


@converter("relax.floor_mod")
def _floor_mod(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    if not is_float(emission.dtype(left)):
        return emission.node("Mod", left, right)
    whole = emission.node("Floor", emission.node("Div", left, right))
    return emission.node("Sub", left, emission.node("Mul", whole, right))


@converter("relax.mod")
def _mod(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    return emission.node("Mod", left, right, fmod=1)


@converter("relax.log_add_exp")
def _log_of_sum(emission: Emission, op: OpView) -> str:
    """log(exp(a) + exp(b)) as the larger one plus a correction, so that no exponential overflows."""
    left, right = (emission.operand(argument) for argument in op.args)
    distance = emission.node("Abs", emission.node("Sub", left, right))
    part = emission.node("Exp", emission.node("Neg", distance))
    more = emission.node("Log", emission.node("Add", part, emission.like(1.0, part)))
    return emission.node("Add", emission.node("Max", left, right), more)


@converter(*COMPARISONS)
def _comparison(emission: Emission, op: OpView) -> str:
    return emission.node(COMPARISONS[op.name], *_compared(emission, op))


@converter("relax.not_equal")
def _not_equal(emission: Emission, op: OpView) -> str:
    return emission.node("Not", emission.node("Equal", *_compared(emission, op)))


def _compared(emission: Emission, op: OpView) -> tuple[str, str]:
    """The operands of a comparison, which must have one type: Relax itself does not require this."""
    left, right = (emission.operand(argument) for argument in op.args)
    types = emission.dtype(left), emission.dtype(right)
    require(types[0] == types[1], f"{types[0]} compared with {types[1]}")
    return left, right


@converter(*LOGIC, "relax.logical_not")
def _logic(emission: Emission, op: OpView) -> str:
    operands = [emission.operand(argument) for argument in op.args]
    require(all(emission.dtype(name) == "bool" for name in operands), "logic on a type other than bool")
    return emission.node(LOGIC.get(op.name, "Not"), *operands)


@converter("relax.where")
def _where(emission: Emission, op: OpView) -> str:
    choice, left, right = (emission.operand(argument) for argument in op.args)
    choice = emission.cast(choice, "bool")
    if emission.dtype(left) != "bool":
        return emission.node("Where", choice, left, right)
    # Few engines select among booleans; so select among 0 and 1.
    numbers = (emission.cast(value, "int32") for value in (left, right))
    return emission.cast(emission.node("Where", choice, *numbers), "bool")


@converter("relax.astype")
def _astype(emission: Emission, op: OpView) -> str:
    return emission.cast(emission.operand(op.args[0]), str(op.out_tensor.dtype))
