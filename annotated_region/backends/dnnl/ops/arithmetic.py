"""Element-wise functions, binary arithmetic with broadcasting, arithmetic with a constant scalar."""

from __future__ import annotations

import math
from collections.abc import Mapping

from annotated_region.backends.dnnl.graph import Dim, Graph, Kind, TensorId, same_shape
from annotated_region.backends.dnnl.ops.checks import (
    OPERANDS,
    Problems,
    number_of,
    number_problem,
    operand_problem,
)
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import (
    COMMUTATIVE,
    Arithmetic,
    Curve,
    Elementary,
    FloatPair,
    PairFunction,
    ScalarFunction,
    linear,
)
from annotated_region.backends.dnnl.views import align_rank, broadcast_to, reshape
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

CUBE = 3.0
"""The exponent of a power that is two products."""

CURVES: Mapping[str, Curve] = {
    "relax.nn.relu": Curve("eltwise_relu"),
    "relax.sigmoid": Curve("eltwise_logistic"),
    "relax.tanh": Curve("eltwise_tanh"),
    "relax.nn.gelu_tanh": Curve("eltwise_gelu_tanh"),
    "relax.nn.silu": Curve("eltwise_swish", 1.0),
    "relax.sqrt": Curve("eltwise_sqrt"),
    "relax.square": Curve("eltwise_square"),
    "relax.abs": Curve("eltwise_abs"),
    "relax.negative": linear(-1.0),
    "relax.round": Curve("eltwise_round"),
}

OWN_FUNCTIONS: Mapping[str, Kind] = {
    "relax.erf": Kind.ERROR_FUNCTION,
    "relax.exp": Kind.EXPONENTIAL,
    "relax.log": Kind.LOGARITHM,
    "relax.sin": Kind.SINE,
    "relax.cos": Kind.COSINE,
    "relax.rsqrt": Kind.RECIPROCAL_ROOT,
    "relax.nn.gelu": Kind.GELU,
    "relax.floor": Kind.FLOOR,
    "relax.ceil": Kind.CEILING,
    "relax.trunc": Kind.TRUNCATION,
}
"""Unary functions for which oneDNN has no primitive, or no exact one."""

FUNCTIONS: Mapping[str, ScalarFunction] = {
    "relax.acos": ScalarFunction.ARC_COSINE,
    "relax.acosh": ScalarFunction.ARC_HYPERBOLIC_COSINE,
    "relax.asin": ScalarFunction.ARC_SINE,
    "relax.asinh": ScalarFunction.ARC_HYPERBOLIC_SINE,
    "relax.atan": ScalarFunction.ARC_TANGENT,
    "relax.atanh": ScalarFunction.ARC_HYPERBOLIC_TANGENT,
    "relax.cosh": ScalarFunction.HYPERBOLIC_COSINE,
    "relax.sinh": ScalarFunction.HYPERBOLIC_SINE,
    "relax.tan": ScalarFunction.TANGENT,
    "relax.sign": ScalarFunction.SIGN,
}
"""Unary functions of the C++ library, which are rare: they are not vectorized."""

ALGORITHMS: Mapping[str, str] = {
    "relax.add": "binary_add",
    "relax.subtract": "binary_sub",
    "relax.multiply": "binary_mul",
    "relax.divide": "binary_div",
    "relax.maximum": "binary_max",
    "relax.minimum": "binary_min",
}

PAIR_FUNCTIONS: Mapping[str, PairFunction] = {
    "relax.floor_divide": PairFunction.FLOORED_QUOTIENT,
    "relax.floor_mod": PairFunction.FLOORED_REMAINDER,
    "relax.mod": PairFunction.TRUNCATED_REMAINDER,
    "relax.power": PairFunction.POWER,
}


@converts(*CURVES)
def _curve(call: OpConversion) -> TensorId:
    return call.add(Kind.ELTWISE, [call.operand(0)], CURVES[call.op.name])


@converts(*OWN_FUNCTIONS)
def _own_function(call: OpConversion) -> TensorId:
    kind = OWN_FUNCTIONS[call.op.name]
    if kind is Kind.GELU and call.graph.finite_math:
        return call.add(Kind.ELTWISE, [call.operand(0)], Curve("eltwise_gelu_erf"))
    return call.add(kind, [call.operand(0)])


@converts(*FUNCTIONS)
def _elementary(call: OpConversion) -> TensorId:
    return call.add(Kind.ELEMENTARY, [call.operand(0)], Elementary(FUNCTIONS[call.op.name]))


def _slope_problem(op: OpView) -> Problems:
    if not math.isfinite(op.attrs["alpha"]):
        yield "the slope is not finite"


@converts("relax.nn.leakyrelu", unless=_slope_problem)
def _leaky_relu(call: OpConversion) -> TensorId:
    return call.add(Kind.ELTWISE, [call.operand(0)], Curve("eltwise_relu", call.attrs["alpha"]))


def _bounds_problem(op: OpView) -> Problems:
    low, high = map(number_of, op.args[1:])
    if low is None or high is None or not low <= high:
        yield "the bounds are not two constants with low <= high"


@converts("relax.clip", unless=_bounds_problem)
def _clip(call: OpConversion) -> TensorId:
    low, high = map(number_of, call.op.args[1:])
    assert low is not None
    assert high is not None
    return call.add(Kind.ELTWISE, [call.operand(0)], Curve("eltwise_clip", low, high))


def _operand_problems(op: OpView) -> Problems:
    for index, what in enumerate(OPERANDS):
        yield operand_problem(op, index, what)


@converts(*ALGORITHMS, operands=(), unless=_operand_problems)
def _arithmetic(call: OpConversion) -> TensorId:
    graph, shape, algorithm = call.graph, call.shape, ALGORITHMS[call.op.name]
    left, right = call.operands()
    for tensor, other, form in ((right, left, _with_number_right), (left, right, _with_number_left)):
        number = graph.tensors[tensor].scalar
        curve = None if number is None or not math.isfinite(number) else form(algorithm, number)
        if curve is not None and len(graph.shape(other)) == len(shape) and other != tensor:
            return graph.add(Kind.ELTWISE, (other,), graph.shape(other), curve)
    left, right = align_rank(graph, left, len(shape)), align_rank(graph, right, len(shape))
    return _binary(graph, algorithm, left, right, shape)


@converts(*PAIR_FUNCTIONS, operands=OPERANDS)
def _float_pair(call: OpConversion) -> TensorId:
    graph, rank = call.graph, len(call.shape)
    operands = [align_rank(graph, each, rank) for each in call.operands()]
    return call.add(Kind.FLOAT_PAIR, operands, FloatPair(PAIR_FUNCTIONS[call.op.name]))


def _with_number_right(algorithm: str, number: float) -> Curve | None:
    """The element-wise form of ``x <algorithm> number``."""
    forms = {
        "binary_add": linear(1.0, number),
        "binary_sub": linear(1.0, -number),
        "binary_mul": linear(number),
    }
    if algorithm == "binary_div" and _has_exact_reciprocal(number):
        return linear(1.0 / number)
    if algorithm == "binary_max" and number == 0.0:
        return Curve("eltwise_relu")
    return forms.get(algorithm)


def _has_exact_reciprocal(number: float) -> bool:
    """Whether dividing by the number equals multiplying by its reciprocal; 41 * (1 / 41) is less than one."""
    mantissa, exponent = math.frexp(number)
    return abs(mantissa) == 0.5 and abs(exponent) < 120  # neither is subnormal


def _with_number_left(algorithm: str, number: float) -> Curve | None:
    """The element-wise form of ``number <algorithm> x``."""
    if algorithm == "binary_sub":
        return linear(-1.0, number)
    if algorithm == "binary_max":
        return None  # relu maps NaN to zero, but TVM returns the second operand, which is NaN here
    if algorithm == "binary_div":
        return Curve("eltwise_pow", number, -1.0)
    return _with_number_right(algorithm, number)


def _binary(
    graph: Graph, algorithm: str, left: TensorId, right: TensorId, shape: tuple[Dim, ...]
) -> TensorId:
    """A binary node; oneDNN broadcasts only the second operand, so the first must have the result's shape."""
    if not same_shape(graph.shape(left), shape):
        if algorithm in COMMUTATIVE:
            left, right = right, left
        left = broadcast_to(graph, left, shape)
    return graph.add(Kind.BINARY, (left, right), shape, Arithmetic(algorithm))


def _has_number_as_exponent(op: OpView) -> bool:
    return number_problem(op, 1, "the exponent") is None


@converts("relax.power", operands=OPERANDS, suits=_has_number_as_exponent)
def _power(call: OpConversion) -> TensorId:
    exponent = call.graph.tensors[call.operand(1)].scalar
    assert exponent is not None
    base = reshape(call.graph, call.operand(0), call.shape)
    if exponent == CUBE:
        # oneDNN calls the C library's function for each element: 26 times ONNX Runtime's time.
        square = call.add(Kind.ELTWISE, [base], Curve("eltwise_square"))
        return call.add(Kind.BINARY, [square, base], Arithmetic("binary_mul"))
    return call.add(Kind.ELTWISE, [base], Curve("eltwise_pow", 1.0, exponent))
