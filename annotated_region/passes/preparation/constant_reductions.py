"""Reductions, cumulative sums and products of constants.

Integer sums wrap around as in compiled code. Float sums are computed in double precision and rounded once:
compiled code has no specified order of summation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from annotated_region.passes.preparation.constant_call import (
    ConstantCall,
    Evaluator,
    kind_of,
    without_nan,
)

__all__ = ["REDUCTIONS"]

LARGEST_PRODUCT = 1 << 26  # multiply-adds of a constant matmul; takes about 0.1 s


def _reduction(function: Callable[..., np.ndarray], kinds: str) -> Evaluator:
    def evaluate(call: ConstantCall) -> np.ndarray | None:
        array, axes = call.args[0], call.attrs["axis"]
        if kind_of(array) not in kinds or not array.size:
            return None
        wide = array.astype(np.float64) if kind_of(array) == "f" else array
        return np.asarray(function(wide, axis=axes, keepdims=call.attrs["keepdims"]))

    return evaluate


def _whole(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A sum or product in the dtype of its operand, which numpy would widen."""
    return lambda array, **options: function(array, dtype=array.dtype, **options)


def _running(function: Callable[..., np.ndarray], start: int) -> Evaluator:
    def evaluate(call: ConstantCall) -> np.ndarray | None:
        array: np.ndarray = call.args[0]
        axis = call.attrs["axis"]
        if kind_of(array) not in "biuf" or call.dtype.kind == "b":
            return None  # TVM cannot compute cumulative sums of dtype bool
        if axis is None:
            array, axis = array.reshape(-1), 0
        is_float = kind_of(np.empty(0, call.dtype)) == "f"
        result = function(array.astype(np.float64 if is_float else call.dtype), axis=axis)
        if not call.attrs["exclusive"]:
            return result
        shifted = np.roll(result, 1, axis)
        shifted[(slice(None),) * (axis % array.ndim) + (slice(0, 1),)] = start
        return shifted

    return evaluate


def _running_in(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda array, axis: function(array, axis=axis, dtype=array.dtype)


def _softmax(call: ConstantCall) -> np.ndarray | None:
    array = call.args[0]
    if kind_of(array) != "f":
        return None
    wide = array.astype(np.float64)
    powers = np.exp(wide - wide.max(call.attrs["axis"], keepdims=True))
    return np.asarray(powers / powers.sum(call.attrs["axis"], keepdims=True))


def _matmul(call: ConstantCall) -> np.ndarray | None:
    left, right = call.args
    if {kind_of(left), kind_of(right)} != {"f"} or call.shape == () or 0 in call.shape:
        return None
    if np.prod(call.shape) * left.shape[-1] > LARGEST_PRODUCT:
        return None
    return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64)))


REDUCTIONS: dict[str, Evaluator] = {
    "relax.sum": _reduction(_whole(np.sum), "iuf"),
    "relax.prod": _reduction(_whole(np.prod), "iuf"),
    "relax.mean": _reduction(np.mean, "f"),
    "relax.variance": _reduction(np.var, "f"),
    "relax.std": _reduction(np.std, "f"),
    "relax.max": without_nan(_reduction(np.max, "iuf")),
    "relax.min": without_nan(_reduction(np.min, "iuf")),
    "relax.argmax": without_nan(_reduction(np.argmax, "iuf")),
    "relax.argmin": without_nan(_reduction(np.argmin, "iuf")),
    "relax.cumsum": _running(_running_in(np.cumsum), 0),
    "relax.cumprod": _running(_running_in(np.cumprod), 1),
    "relax.nn.softmax": _softmax,
    "relax.matmul": _matmul,
}
