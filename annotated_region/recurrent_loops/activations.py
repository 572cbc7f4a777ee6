"""The activation functions of loops, as expressions of a scalar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tvm import tirx

from annotated_region.recurrent_loops.loop import LoopFunction
from annotated_region.recurrent_loops.statements import dtype_of_scalar
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["ScalarActivation", "scalar_function"]

ScalarActivation: TypeAlias = Callable[[PrimExpr], PrimExpr]
_LoopFormula: TypeAlias = Callable[[PrimExpr, float, float], PrimExpr]
"""A function of a number, alpha and beta."""


def scalar_function(function: LoopFunction, clip: float | None) -> ScalarActivation:
    """A function of a scalar; of one clipped to what is given."""

    def applied(value: PrimExpr) -> PrimExpr:
        given = value if clip is None else _clipped(value, -clip, clip)
        return _FORMULAS[function.name](given, function.alpha, function.beta)

    return applied


def _like(value: PrimExpr, number: float) -> PrimExpr:
    """A number of the data type of a value."""
    return tirx.FloatImm(dtype_of_scalar(value), number)


def _clipped(value: PrimExpr, least: float, most: float) -> PrimExpr:
    return tirx.Max(tirx.Min(value, _like(value, most)), _like(value, least))


def _elu(x: PrimExpr, alpha: float, _beta: float) -> PrimExpr:
    zero = _like(x, 0.0)
    return tirx.Max(x, zero) + _like(x, alpha) * (tirx.exp(tirx.Min(x, zero)) - _like(x, 1.0))


def _leaky_relu(x: PrimExpr, alpha: float, _beta: float) -> PrimExpr:
    return tirx.Select(x > _like(x, 0.0), x, x * _like(x, alpha))


def _softplus(x: PrimExpr, _alpha: float, _beta: float) -> PrimExpr:
    """``max(x, 0) + log(1 + exp(-|x|))``."""
    zero, one = _like(x, 0.0), _like(x, 1.0)
    size = tirx.Max(x, zero - x)
    return tirx.Max(x, zero) + tirx.log(one + tirx.exp(zero - size))


def _softsign(x: PrimExpr, _alpha: float, _beta: float) -> PrimExpr:
    return x / (_like(x, 1.0) + tirx.Max(x, _like(x, 0.0) - x))


def _affine(x: PrimExpr, alpha: float, beta: float) -> PrimExpr:
    return x * _like(x, alpha) + _like(x, beta)


_FORMULAS: Mapping[str, _LoopFormula] = {
    "affine": _affine,
    "elu": _elu,
    "hardsigmoid": lambda x, alpha, beta: _clipped(_affine(x, alpha, beta), 0.0, 1.0),
    "leakyrelu": _leaky_relu,
    "relu": lambda x, _alpha, _beta: tirx.Max(x, _like(x, 0.0)),
    "scaledtanh": lambda x, alpha, beta: _like(x, alpha) * tirx.tanh(x * _like(x, beta)),
    "sigmoid": lambda x, _alpha, _beta: tirx.sigmoid(x),
    "softplus": _softplus,
    "softsign": _softsign,
    "tanh": lambda x, _alpha, _beta: tirx.tanh(x),
    "thresholdedrelu": lambda x, alpha, _beta: tirx.Select(x > _like(x, alpha), x, _like(x, 0.0)),
}
"""By the names of ONNX in small letters."""
