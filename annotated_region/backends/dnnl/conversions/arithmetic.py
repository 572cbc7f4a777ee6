"""Element-wise functions, arithmetic of two tensors with broadcast, arithmetic with a constant number."""

from __future__ import annotations

import math
from collections.abc import Mapping

from annotated_region.backends.dnnl.checks import number_of
from annotated_region.backends.dnnl.graph import Dim, Graph, Kind, TensorId, same_shape
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import Arithmetic, Curve
from annotated_region.backends.dnnl.views import align_rank, reshape
from annotated_region.targets.op_view import OpView

__all__ = ["CONVERTERS", "OWN_FUNCTIONS", "SIMPLE_FUNCTIONS", "broadcast_to"]

SIMPLE_FUNCTIONS: Mapping[str, tuple[str, float, float]] = {
    "relax.nn.relu": ("eltwise_relu", 0.0, 0.0),
    "relax.sigmoid": ("eltwise_logistic", 0.0, 0.0),
    "relax.tanh": ("eltwise_tanh", 0.0, 0.0),
    "relax.nn.gelu_tanh": ("eltwise_gelu_tanh", 0.0, 0.0),
    "relax.nn.silu": ("eltwise_swish", 1.0, 0.0),
    "relax.sqrt": ("eltwise_sqrt", 0.0, 0.0),
    "relax.square": ("eltwise_square", 0.0, 0.0),
    "relax.abs": ("eltwise_abs", 0.0, 0.0),
    "relax.negative": ("eltwise_linear", -1.0, 0.0),
}
"""Functions of one tensor without parameters: oneDNN's algorithm with its alpha and beta."""

OWN_FUNCTIONS: Mapping[str, Kind] = {
    "relax.erf": Kind.ERROR_FUNCTION,
    "relax.exp": Kind.EXPONENTIAL,
    "relax.log": Kind.LOGARITHM,
    "relax.sin": Kind.SINE,
    "relax.cos": Kind.COSINE,
    "relax.rsqrt": Kind.RECIPROCAL_ROOT,
    "relax.nn.gelu": Kind.GELU,
}
"""Functions of one tensor that oneDNN has no primitive for, or none that is exact."""

COMMUTATIVE = ("binary_add", "binary_mul")
"""Of two numbers, one of which is none, `binary_max` and `binary_min` give the second, as TVM does."""


def _eltwise(graph: Graph, tensor: TensorId, algorithm: str, alpha: float, beta: float) -> TensorId:
    return graph.add(Kind.ELTWISE, (tensor,), graph.shape(tensor), Curve(algorithm, alpha, beta))


def _simple(importer: Importer, op: OpView) -> TensorId:
    return _eltwise(importer.graph, importer.operand(op.args[0]), *SIMPLE_FUNCTIONS[op.name])


def _leaky_relu(importer: Importer, op: OpView) -> TensorId:
    return _eltwise(importer.graph, importer.operand(op.args[0]), "eltwise_relu", op.attrs["alpha"], 0.0)


def _clip(importer: Importer, op: OpView) -> TensorId:
    low, high = (_number(argument) for argument in op.args[1:])
    return _eltwise(importer.graph, importer.operand(op.args[0]), "eltwise_clip", low, high)


def _own_function(kind: Kind) -> Convert:
    def convert(importer: Importer, op: OpView) -> TensorId:
        if kind is Kind.GELU and importer.graph.finite_math:
            return _eltwise(importer.graph, importer.operand(op.args[0]), "eltwise_gelu_erf", 0.0, 0.0)
        return importer.graph.add(kind, (importer.operand(op.args[0]),), importer.shape(op.call))

    return convert


def _number(argument: object) -> float:
    number = number_of(argument)
    assert number is not None
    return number


def _with_number_right(algorithm: str, number: float) -> tuple[str, float, float] | None:
    """The element-wise form of ``x <algorithm> number``."""
    forms = {
        "binary_add": ("eltwise_linear", 1.0, number),
        "binary_sub": ("eltwise_linear", 1.0, -number),
        "binary_mul": ("eltwise_linear", number, 0.0),
    }
    if algorithm == "binary_div" and _has_exact_reciprocal(number):
        return ("eltwise_linear", 1.0 / number, 0.0)
    if algorithm == "binary_max" and number == 0.0:
        return ("eltwise_relu", 0.0, 0.0)
    return forms.get(algorithm)


def _has_exact_reciprocal(number: float) -> bool:
    """Whether a quotient by the number is the product with its reciprocal: 41 * (1 / 41) is less than one."""
    mantissa, exponent = math.frexp(number)
    return abs(mantissa) == 0.5 and abs(exponent) < 120  # neither is subnormal


def _with_number_left(algorithm: str, number: float) -> tuple[str, float, float] | None:
    """The element-wise form of ``number <algorithm> x``."""
    if algorithm == "binary_sub":
        return ("eltwise_linear", -1.0, number)
    if algorithm == "binary_max":
        return None  # relu makes zero of NaN, the second operand here
    if algorithm == "binary_div":
        return ("eltwise_pow", number, -1.0)
    return _with_number_right(algorithm, number)


def broadcast_to(graph: Graph, tensor: TensorId, shape: tuple[Dim, ...]) -> TensorId:
    """The tensor repeated along the axes where its extent is one."""
    aligned = align_rank(graph, tensor, len(shape))
    if same_shape(graph.shape(aligned), shape):
        return aligned
    return graph.add(Kind.EXPAND, (aligned,), shape)


def _binary(algorithm: str) -> Convert:
    def convert(importer: Importer, op: OpView) -> TensorId:
        graph, shape = importer.graph, importer.shape(op.call)
        left, right = importer.operand(op.args[0]), importer.operand(op.args[1])
        for tensor, other, forms in ((right, left, _with_number_right), (left, right, _with_number_left)):
            number = graph.tensors[tensor].scalar
            form = None if number is None or not math.isfinite(number) else forms(algorithm, number)
            if form is not None and len(graph.shape(other)) == len(shape) and other != tensor:
                return _eltwise(graph, other, *form)
        left, right = align_rank(graph, left, len(shape)), align_rank(graph, right, len(shape))
        return _arithmetic(graph, algorithm, left, right, shape)

    return convert


def _arithmetic(
    graph: Graph, algorithm: str, left: TensorId, right: TensorId, shape: tuple[Dim, ...]
) -> TensorId:
    """A binary node; oneDNN repeats the second operand only, so the first must be as large as the result."""
    if not same_shape(graph.shape(left), shape):
        if algorithm in COMMUTATIVE:
            left, right = right, left
        left = broadcast_to(graph, left, shape)
    return graph.add(Kind.BINARY, (left, right), shape, Arithmetic(algorithm))


def _power(importer: Importer, op: OpView) -> TensorId:
    graph = importer.graph
    exponent = graph.tensors[importer.operand(op.args[1])].scalar
    assert exponent is not None
    base = reshape(graph, importer.operand(op.args[0]), importer.shape(op.call))
    return _eltwise(graph, base, "eltwise_pow", 1.0, exponent)


CONVERTERS: dict[str, Convert] = {
    **dict.fromkeys(SIMPLE_FUNCTIONS, _simple),
    "relax.nn.leakyrelu": _leaky_relu,
    "relax.clip": _clip,
    **{name: _own_function(kind) for name, kind in OWN_FUNCTIONS.items()},
    "relax.add": _binary("binary_add"),
    "relax.subtract": _binary("binary_sub"),
    "relax.multiply": _binary("binary_mul"),
    "relax.divide": _binary("binary_div"),
    "relax.maximum": _binary("binary_max"),
    "relax.minimum": _binary("binary_min"),
    "relax.power": _power,
}
