"""Elementwise functions of constants.

Operations that IEEE 754 rounds exactly are computed in the dtype of the call, so float16 and bfloat16 round
as at run time. Functions that libraries approximate are computed in double precision and rounded once, which
gives the nearest number except for rare ties; rounding such a result to integers then agrees with accurate
libraries such as ONNX Runtime, independent of the vector code of a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from annotated_region.passes.preparation.constant_call import (
    ConstantCall,
    Evaluator,
    kind_of,
    of_kinds,
    without_nan,
)

__all__ = ["FUNCTIONS"]

_Function = Callable[..., np.ndarray]


def _in_double(function: _Function) -> Evaluator:
    """An evaluator in double precision for a function that libraries approximate; the caller rounds."""

    def evaluate(call: ConstantCall) -> np.ndarray | None:
        if any(kind_of(array) != "f" for array in call.args):
            return None
        return function(*(array.astype(np.float64) for array in call.args))

    return evaluate


def _erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * 0.5 * (1 + _erf(x * math.sqrt(0.5))))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _divide(call: ConstantCall) -> np.ndarray | None:
    """Integer division truncates, as in C."""
    left, right = call.args
    if kind_of(left) == kind_of(right) == "f":
        return np.asarray(np.divide(left, right))
    if not _divides(left, right):
        return None
    quotient = np.floor_divide(left, right)
    is_below = (quotient < 0) & (quotient * right != left)
    return np.asarray(quotient + is_below.astype(quotient.dtype))


def _divides(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether C defines these integer quotients: no division by zero, no overflow."""
    if not all(kind_of(array) in "iu" for array in (left, right)) or not right.all():
        return False
    overflows = (left == np.iinfo(left.dtype).min) & (right == -1) if left.dtype.kind == "i" else np.False_
    return not overflows.any()


def _floor_divide(call: ConstantCall) -> np.ndarray | None:
    """Floats only by powers of two: other quotients round, and then libraries differ by one."""
    left, right = call.args
    if kind_of(left) != "f" or kind_of(right) != "f":
        return _of_integers(np.floor_divide)(call)
    halves, _exponents = np.frexp(right.astype(np.float64))
    return np.floor(left / right) if np.isfinite(left).all() and (abs(halves) == 0.5).all() else None


def _of_integers(function: _Function) -> Evaluator:
    """An integer division; declined where C leaves it undefined."""
    return lambda call: function(*call.args) if _divides(*call.args) else None


def _mod(call: ConstantCall) -> np.ndarray | None:
    left, right = call.args
    return np.asarray(np.fmod(left, right)) if _divides(left, right) else None


def _power(call: ConstantCall) -> np.ndarray | None:
    base, exponent = call.args
    if all(kind_of(array) in "iu" for array in call.args):
        return np.asarray(np.power(base, exponent)) if (exponent >= 0).all() else None
    return _in_double(np.power)(call)


def _shift(function: _Function) -> Evaluator:
    def evaluate(call: ConstantCall) -> np.ndarray | None:
        left, right = call.args
        if not all(kind_of(array) in "iu" for array in call.args):
            return None
        is_defined = (left >= 0).all() and (right >= 0).all() and (right < 8 * left.dtype.itemsize - 1).all()
        return function(left, right) if is_defined else None

    return evaluate


def _of_words(function: Evaluator) -> Evaluator:
    """Bit operations, except on uint8: bytes hold packed weights, which folding would unpack."""
    return lambda call: None if call.dtype == np.uint8 else function(call)


def _clip(call: ConstantCall) -> np.ndarray | None:
    array, *bounds = call.args
    low, high = (np.asarray(bound).astype(array.dtype) for bound in bounds)
    if kind_of(array) not in "iuf":
        return None
    return np.asarray(np.maximum(np.minimum(array, high), low))  # as TVM: of bounds that cross, the lower one


FUNCTIONS: dict[str, Evaluator] = {
    "relax.add": of_kinds("iuf", np.add),
    "relax.subtract": of_kinds("iuf", np.subtract),
    "relax.multiply": of_kinds("iuf", np.multiply),
    "relax.divide": _divide,
    "relax.floor_divide": _floor_divide,
    "relax.floor_mod": _of_integers(np.mod),
    "relax.mod": _mod,
    "relax.power": _power,
    "relax.maximum": without_nan(of_kinds("iuf", np.maximum)),
    "relax.minimum": without_nan(of_kinds("iuf", np.minimum)),
    "relax.clip": without_nan(_clip),
    "relax.nn.relu": without_nan(of_kinds("iuf", lambda x: np.maximum(x, np.zeros_like(x)))),
    "relax.negative": of_kinds("if", np.negative),
    "relax.abs": of_kinds("if", np.abs),
    "relax.sign": without_nan(of_kinds("if", np.sign)),
    "relax.square": of_kinds("iuf", np.square),
    "relax.sqrt": of_kinds("f", np.sqrt),
    "relax.floor": of_kinds("f", np.floor),
    "relax.ceil": of_kinds("f", np.ceil),
    "relax.trunc": of_kinds("f", np.trunc),
    "relax.round": of_kinds("f", np.rint),
    "relax.rsqrt": _in_double(lambda x: 1 / np.sqrt(x)),
    "relax.exp": _in_double(np.exp),
    "relax.log": _in_double(np.log),
    "relax.sin": _in_double(np.sin),
    "relax.cos": _in_double(np.cos),
    "relax.tan": _in_double(np.tan),
    "relax.sinh": _in_double(np.sinh),
    "relax.cosh": _in_double(np.cosh),
    "relax.tanh": _in_double(np.tanh),
    "relax.asin": _in_double(np.arcsin),
    "relax.acos": _in_double(np.arccos),
    "relax.atan": _in_double(np.arctan),
    "relax.asinh": _in_double(np.arcsinh),
    "relax.acosh": _in_double(np.arccosh),
    "relax.atanh": _in_double(np.arctanh),
    "relax.erf": _in_double(_erf),
    "relax.sigmoid": _in_double(_sigmoid),
    "relax.nn.gelu": _in_double(_gelu),
    "relax.nn.gelu_tanh": _in_double(_gelu_tanh),
    "relax.nn.silu": _in_double(lambda x: x * _sigmoid(x)),
    "relax.isnan": of_kinds("f", np.isnan),
    "relax.isinf": of_kinds("f", np.isinf),
    "relax.isfinite": of_kinds("f", np.isfinite),
    "relax.equal": of_kinds("biuf", np.equal),
    "relax.not_equal": of_kinds("biuf", np.not_equal),
    "relax.less": of_kinds("iuf", np.less),
    "relax.less_equal": of_kinds("iuf", np.less_equal),
    "relax.greater": of_kinds("iuf", np.greater),
    "relax.greater_equal": of_kinds("iuf", np.greater_equal),
    "relax.logical_and": of_kinds("b", np.logical_and),
    "relax.logical_or": of_kinds("b", np.logical_or),
    "relax.logical_xor": of_kinds("b", np.logical_xor),
    "relax.logical_not": of_kinds("b", np.logical_not),
    "relax.bitwise_and": _of_words(of_kinds("biu", np.bitwise_and)),
    "relax.bitwise_or": of_kinds("biu", np.bitwise_or),
    "relax.bitwise_xor": of_kinds("biu", np.bitwise_xor),
    "relax.bitwise_not": of_kinds("biu", np.bitwise_not),
    "relax.left_shift": _shift(np.left_shift),
    "relax.right_shift": _of_words(_shift(np.right_shift)),
}
