"""The reference's elementwise ops: functions, arithmetic, choices, decisions, quantization."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kits.dense_graphs.values import (
    UNIT,
    Noise,
    UnfitValuesError,
    Value,
    decided,
    disturbed,
    moved,
    planes_of,
    require_apart,
    require_numbers,
    source,
)

__all__ = ["ELEMENTWISE", "error_function", "moved_whole"]

Array = np.ndarray
Compute = Callable[[Noise, Mapping[str, Any], Sequence[Any]], Value]
APPROXIMATE = 2e-6
"""What an approximation of a function may be wrong by, as a part of its value or of 1."""

ROUNDED = 2 * UNIT
"""What arithmetic in another order may be wrong by."""

error_function = np.vectorize(math.erf, otypes=["float64"])


def sigmoid(x: Array) -> Array:
    """Of any number, without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1 + small))


def gelu(x: Array) -> Array:
    """With the error function."""
    return np.asarray(0.5 * x * (1 + error_function(x / math.sqrt(2))))


def gelu_tanh(x: Array) -> Array:
    """With the hyperbolic tangent."""
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _all_exact(values: Sequence[Value], shape: tuple[int, ...]) -> Array:
    exact = np.ones(shape, bool)
    for value in values:
        exact = exact & value.exact
    return exact


def _function(
    function: Callable[[Array], Array], exact_at: float | None = None, least: float = 1e-3
) -> Compute:
    """A function that engines approximate.

    Nobody may be wrong at `exact_at`; values below `least` may be wrong by as much as that one.
    """

    def compute(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        planes = planes_of(function, args)
        at = np.zeros(planes[0].shape, bool) if exact_at is None else args[0].clean == exact_at
        scale = np.maximum(np.abs(planes[0]), least)
        value = disturbed(noise, planes, scale, args[0].exact & at, APPROXIMATE, UNIT)
        return value if exact_at is None else _exact_where(args[0].sharp == exact_at, value, planes[2])

    return compute


def _bounded(function: Callable[[Array], Array]) -> Compute:
    """A function whose approximation may be wrong by a part of 1."""

    def compute(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        planes = planes_of(function, args)
        scale = np.maximum(np.abs(planes[0]), 1.0)
        value = disturbed(noise, planes, scale, args[0].exact & (args[0].clean == 0), APPROXIMATE, UNIT)
        return _exact_where(args[0].sharp == 0, value, planes[2])

    return compute


def _exact_where(edge: Array, value: Value, sharp: Array) -> Value:
    """What rounding brought to the number at which a function is exact gives what it is there."""
    edge = edge & (sharp == sharp.astype("float32"))
    return replace(value, sharp=np.where(edge, sharp, value.sharp))


def _sine(function: Callable[[Array], Array]) -> Compute:
    def compute(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        planes = planes_of(function, args)
        scale = np.maximum(np.abs(args[0].clean), 1.0)
        value = disturbed(noise, planes, scale, args[0].exact & (args[0].clean == 0), APPROXIMATE, UNIT)
        return _exact_where(args[0].sharp == 0, value, planes[2])

    return compute


def _arithmetic(function: Callable[..., Array], scale: Callable[..., Array] | None = None) -> Compute:
    """An op that is exact wherever its result is a float32; `scale` says what its error is a part of."""

    def compute(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        if not args[0].is_float:
            return moved_whole(function, args)
        planes = planes_of(function, args)
        size = planes[0] if scale is None else scale(*(np.abs(v.clean) for v in args))
        return disturbed(noise, planes, size, _all_exact(args, planes[0].shape), ROUNDED)

    return compute


def moved_whole(function: Callable[..., Array], args: Sequence[Value]) -> Value:
    """An op on whole numbers."""
    clean = np.asarray(function(*(v.clean for v in args))).astype(args[0].clean.dtype)
    return Value(clean, clean, clean, np.ones(clean.shape, bool))


def _chosen(function: Callable[..., Array]) -> Compute:
    """An op that rounds nothing: its result is one of its operands, or such a one with another sign."""

    def compute(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
        clean, wide, sharp = planes_of(function, args)
        require_numbers(clean)
        return Value(clean, wide, sharp, _all_exact(args, clean.shape))

    return compute


def _leaky(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    slope = float(np.float32(attrs["alpha"]))
    return _arithmetic(lambda x: np.where(x > 0, x, slope * x))(noise, attrs, args)


def _prelu(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, slope = args
    extents = [1] * data.clean.ndim
    extents[attrs["axis"]] = -1
    slope = moved(lambda plane: plane.reshape(extents), [slope])
    return _arithmetic(lambda x, s: np.where(x > 0, x, s * x))(noise, attrs, [data, slope])


def _clip(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, low, high = args
    return _chosen(lambda x: np.asarray(np.maximum(np.minimum(x, high), low)))(noise, attrs, [data])


def _power(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data, exponent = args  # an exponent with an error is undefined for what is below zero
    planes = data.planes(lambda plane: np.asarray(np.power(plane, exponent.clean)))
    is_whole = np.all(np.isin(exponent.clean, (1.0, 2.0, 3.0)))
    exact = _all_exact(args, planes[0].shape) & is_whole
    return disturbed(noise, planes, planes[0], exact, APPROXIMATE, 4 * UNIT)


def _root(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    planes = planes_of(np.sqrt, args)
    exact = args[0].exact & (planes[0] ** 2 == args[0].clean)
    return disturbed(noise, planes, planes[0], exact, ROUNDED)


def _inverse_root(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    planes = planes_of(lambda x: 1 / np.sqrt(x), args)
    return disturbed(noise, planes, planes[0], np.zeros(planes[0].shape, bool), APPROXIMATE, 2 * UNIT)


def _decision(function: Callable[..., Array]) -> Compute:
    return lambda _noise, _attrs, args: decided(function, args)


def _equal(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    require_apart(*args)
    return decided(np.equal, args)


def _unequal(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    require_numbers(*(value.clean for value in args))
    require_apart(*args)
    return decided(np.not_equal, args)


def _where(_noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    condition = args[0].clean
    clean, wide, sharp = planes_of(lambda a, b: np.asarray(np.where(condition, a, b)), args[1:])
    exact = np.where(condition, args[1].exact, args[2].exact)
    return Value(clean, wide, sharp, np.broadcast_to(exact, clean.shape))


def _astype(_noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    (data,) = args
    dtype = str(attrs["dtype"])
    if "float" in dtype:
        return moved(lambda plane: plane, [data]) if data.is_float else _numbers(data)
    if dtype == "bool":
        require_apart(data, source(np.zeros_like(data.clean)))
        return decided(lambda x: np.asarray(x != 0), [data])
    if data.is_float:
        _require_range(data.clean, dtype)
        return decided(lambda x: np.trunc(x).astype(dtype), [data])
    clean, wide, sharp = data.planes(lambda plane: plane.astype(dtype))
    return Value(clean, wide, sharp, data.exact)


def _require_range(numbers: Array, dtype: str) -> None:
    """What a type of whole numbers does not hold becomes anything in it."""
    limits, whole = np.iinfo(dtype), np.trunc(numbers)
    if not np.all((whole >= float(limits.min)) & (whole < float(limits.max) + 1)):
        raise UnfitValuesError(f"a number is out of the range of {dtype}")


def _numbers(data: Value) -> Value:
    """Whole numbers as float32 holds them."""
    plane = data.clean.astype("float32").astype("float64")
    return Value(plane, plane, plane, np.ones(plane.shape, bool))


def _along(parameter: Value, rank: int, axis: int) -> Value:
    """A scale or a zero point, beside the elements that it is for."""
    extents = [1] * rank
    if rank:
        extents[axis] = -1
    is_one = parameter.clean.size == 1
    numbers = parameter if parameter.is_float else _numbers(parameter)
    return moved(lambda plane: plane.reshape(() if is_one else extents), [numbers])


def _quantize(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data = args[0]
    dtype = attrs["result_dtype"]
    scale, zero = (_along(each, data.clean.ndim, attrs["axis"]) for each in args[1:])
    limits = np.iinfo(dtype)

    def rounded(x: Array) -> Array:
        return np.asarray(np.clip(np.rint(x) + zero.clean, limits.min, limits.max).astype(dtype))

    quotient = _quotient(noise, data, scale)
    _require_no_rounded_tie(quotient)
    return decided(rounded, [quotient])


def _require_no_rounded_tie(value: Value) -> None:
    """What rounding makes a tie goes either way: oneDNN adds the zero point before it rounds."""
    is_tie = np.abs(value.sharp - np.floor(value.sharp)) == 0.5
    if np.any(is_tie & ~value.exact):
        raise UnfitValuesError("a rounded number is a tie")


def _floor_divide(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    if not args[0].is_float:
        return moved_whole(np.floor_divide, args)
    return decided(np.floor, [_quotient(noise, *args)])


def _floor_mod(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """What is left of a number without as many divisors as the rounded quotient says, as TVM defines it."""
    if not args[0].is_float:
        return moved_whole(np.mod, args)
    data, divisor = args
    count = decided(np.floor, [_quotient(noise, *args)]).clean
    planes = planes_of(lambda a, b: np.asarray(a - count * b), args)
    scale = np.abs(data.clean) + np.abs(count * divisor.clean)
    return disturbed(noise, planes, scale, np.zeros(scale.shape, bool), ROUNDED)


def _mod(noise: Noise, _attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    """What is left of a number without as many divisors as fit, towards zero; no engine rounds it."""
    if not args[0].is_float:
        return moved_whole(np.fmod, args)
    count = decided(_count, args).clean
    planes = planes_of(lambda a, b: np.asarray(a - count * b), args)
    exact = _all_exact(args, planes[0].shape)
    remainder = np.where(exact, np.fmod(*(each.clean for each in args)), planes[0])
    scale = np.abs(args[0].clean) + np.abs(count * args[1].clean)
    return disturbed(noise, (remainder, *planes[1:]), scale, exact, ROUNDED)


def _count(data: Array, divisor: Array) -> Array:
    """How many divisors fit, which a rounded quotient may miss by one."""
    return np.asarray(np.rint((data - np.fmod(data, divisor)) / divisor))


def _quotient(noise: Noise, data: Value, scale: Value) -> Value:
    """What TVM and ONNX quantize: a quotient in float32, which may be a tie where the true one is none.

    Of exact data and an exact scale there is one such quotient, which decides as it is.
    """
    value = _arithmetic(np.divide)(noise, {}, [data, scale])
    stored = value.clean.astype("float32").astype("float64")
    exact = data.exact & scale.exact
    return Value(np.where(exact, stored, value.clean), value.wide, value.sharp, exact)


def _dequantize(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    data = args[0]
    scale, zero = (_along(each, data.clean.ndim, attrs["axis"]) for each in args[1:])
    whole = data.clean.astype("float64") - zero.clean
    planes = scale.planes(lambda plane: np.asarray(whole * plane))
    levels = noise.roundings.levels
    exact = np.broadcast_to(scale.exact, planes[0].shape) & (levels == 0.0)
    size = np.abs(planes[0]) + levels / UNIT * 256 * np.abs(scale.clean)
    return disturbed(noise, planes, size, exact, ROUNDED)


FUNCTIONS = {
    "exp": _function(np.exp, 0.0),
    "log": _function(np.log, 1.0),
    "sigmoid": _function(sigmoid, 0.0, least=0.1),  # approximations are good to a part of 1
    "tanh": _bounded(np.tanh),
    "erf": _bounded(error_function),
    "nn.gelu": _bounded(gelu),
    "nn.gelu_tanh": _bounded(gelu_tanh),
    "nn.silu": _bounded(lambda x: x * sigmoid(x)),
    "sin": _sine(np.sin),
    "cos": _sine(np.cos),
    "sqrt": _root,
    "rsqrt": _inverse_root,
    "square": _arithmetic(np.square),
    "abs": _chosen(np.abs),
    "negative": _chosen(np.negative),
    "nn.relu": _chosen(lambda x: np.maximum(x, 0)),
    "nn.relu6": _chosen(lambda x: np.clip(x, 0, 6)),
    "nn.leakyrelu": _leaky,
    "nn.prelu": _prelu,
    "clip": _clip,
}


def _softplus(noise: Noise, attrs: Mapping[str, Any], args: Sequence[Any]) -> Value:
    beta = float(attrs["beta"])
    return _bounded(lambda x: np.asarray(np.logaddexp(0, beta * x) / beta))(noise, attrs, args)


def _selu(x: Array) -> Array:
    """With the constants of Klambauer and others, 2017."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return np.asarray(scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))


OTHER_FUNCTIONS = {
    "nn.softplus": _softplus,
    "nn.selu": _bounded(_selu),
    "atan": _bounded(np.arctan),
    "asinh": _bounded(np.arcsinh),
    "sinh": _bounded(np.sinh),
    "cosh": _bounded(np.cosh),
}

PAIRS = {
    "add": _arithmetic(np.add, np.add),
    "subtract": _arithmetic(np.subtract, np.add),
    "multiply": _arithmetic(np.multiply),
    "divide": _arithmetic(np.divide),
    "maximum": _chosen(np.maximum),
    "minimum": _chosen(np.minimum),
    "power": _power,
    "where": _where,
}

DECISIONS = {
    "sign": _decision(np.sign),
    "isnan": _decision(np.isnan),
    "isinf": _decision(np.isinf),
    "isfinite": _decision(np.isfinite),
    "equal": _equal,
    "not_equal": _unequal,
    "greater": _decision(np.greater),
    "greater_equal": _decision(np.greater_equal),
    "less": _decision(np.less),
    "less_equal": _decision(np.less_equal),
    "bitwise_and": _decision(np.bitwise_and),
    "bitwise_or": _decision(np.bitwise_or),
    "bitwise_xor": _decision(np.bitwise_xor),
    "bitwise_not": _decision(np.bitwise_not),
    "logical_and": _decision(np.logical_and),
    "logical_or": _decision(np.logical_or),
    "logical_xor": _decision(np.logical_xor),
    "logical_not": _decision(np.logical_not),
}


def _whole(function: Callable[[Array], Array]) -> Compute:
    """A rounding to whole numbers, which stay floats."""
    return lambda _noise, _attrs, args: decided(function, args)


ELEMENTWISE: Mapping[str, Compute] = {
    **FUNCTIONS,
    **OTHER_FUNCTIONS,
    **PAIRS,
    **DECISIONS,
    "floor": _whole(np.floor),
    "ceil": _whole(np.ceil),
    "round": _whole(np.rint),
    "trunc": _whole(np.trunc),
    "floor_divide": _floor_divide,
    "floor_mod": _floor_mod,
    "mod": _mod,
    "astype": _astype,
    "quantize": _quantize,
    "dequantize": _dequantize,
}
