"""What numpy computes exactly as compiled code does: one evaluator for each Relax op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from annotated_region.passes.preparation.tensors import FLOATS, NUMPY_DTYPES

__all__ = ["EVALUATORS", "ConstantCall"]


@dataclass(frozen=True, slots=True)
class ConstantCall:
    """A call whose arguments are known.

    Attributes
    ----------
    args
        Arrays, tuples of arrays, shapes as tuples of int, numbers.
    attrs
        The attributes of the call.
    shape, dtype
        What the result has to be.
    """

    args: tuple[Any, ...]
    attrs: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Evaluator = Callable[[ConstantCall], np.ndarray | None]


# Where numpy and C may differ for some operands, those are declined.


def _reshape(call: ConstantCall) -> np.ndarray:
    return np.reshape(call.args[0], call.shape)


def _broadcast(call: ConstantCall) -> np.ndarray:
    return np.broadcast_to(call.args[0], call.shape)


def _transpose(call: ConstantCall) -> np.ndarray:
    return np.transpose(call.args[0], call.attrs["axes"])


def _concat(call: ConstantCall) -> np.ndarray:
    return np.concatenate(call.args[0], call.attrs["axis"] or 0)


def _stack(call: ConstantCall) -> np.ndarray:
    return np.stack(call.args[0], call.attrs["axis"] or 0)


def _fill(number: int) -> Evaluator:
    return lambda call: np.full(call.shape, number, call.dtype)


def _full(call: ConstantCall) -> np.ndarray:
    value: np.ndarray = call.args[1]
    return np.broadcast_to(value.astype(call.dtype), call.shape)


def _arange(call: ConstantCall) -> np.ndarray | None:
    if call.dtype.kind not in "iu" or not all(isinstance(arg, int) for arg in call.args):
        return None  # how floats are counted is the compiler's choice
    return np.arange(*call.args).astype(call.dtype)


def _triangle(function: Callable[..., np.ndarray]) -> Evaluator:
    def evaluate(call: ConstantCall) -> np.ndarray | None:
        array, diagonal = call.args
        return function(array, diagonal) if isinstance(diagonal, int) else None

    return evaluate


def _slice(call: ConstantCall) -> np.ndarray | None:
    array: np.ndarray
    array, axes, begins, ends, *steps = call.args
    strides = steps[0] if steps else (1,) * len(axes)
    if min((*begins, *ends), default=0) < 0 or min(strides, default=1) < 1:
        return None  # counting from the end has rules of its own
    selection = [slice(None)] * array.ndim
    for axis, begin, end, stride in zip(axes, begins, ends, strides, strict=True):
        selection[axis] = slice(begin, end, stride)
    sliced: np.ndarray = array[tuple(selection)]
    return sliced


def _take(call: ConstantCall) -> np.ndarray | None:
    array: np.ndarray
    indices: np.ndarray
    array, indices = call.args
    axis = call.attrs["axis"]
    limit = array.size if axis is None else array.shape[axis]
    if indices.dtype.kind not in "iu" or indices.size == 0 or not 0 <= indices.min() <= indices.max() < limit:
        return None
    return np.asarray(np.take(array, indices, axis))


def _where(call: ConstantCall) -> np.ndarray:
    return np.asarray(np.where(*call.args))


def _astype(call: ConstantCall) -> np.ndarray | None:
    array: np.ndarray = call.args[0]
    if _kind(array) == "f" and call.dtype.kind in "iu" and not _fits(array, call.dtype):
        return None
    if not {array.dtype.name, call.dtype.name} <= NUMPY_DTYPES | FLOATS:
        return None
    return array.astype(call.dtype)


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether C defines the conversion of these floats to integers."""
    limits = np.iinfo(dtype)
    whole = np.trunc(array.astype(np.float64))
    return bool(np.isfinite(whole).all() and (whole >= limits.min).all() and (whole < limits.max).all())


def _dequantize(call: ConstantCall) -> np.ndarray | None:
    """One number; a dequantized tensor of more is what targets compute with int8 for."""
    data, scale, zero = call.args
    if any(array.size != 1 for array in call.args) or {scale.dtype.name, call.dtype.name} != {"float32"}:
        return None
    if data.dtype.kind not in "iu" or zero.dtype.kind not in "iu":
        return None
    difference = int(data.item()) - int(zero.item())
    if not -(2**31) <= difference < 2**31:
        return None
    return np.reshape(np.float32(difference) * scale.reshape(()), call.shape)


def _ordered(function: Callable[..., np.ndarray]) -> Evaluator:
    """For maximum and minimum: what they make of NaN differs between numpy and compiled code."""

    def evaluate(call: ConstantCall) -> np.ndarray | None:
        has_nan = any((array != array).any() for array in call.args)  # noqa: PLR0124
        return None if has_nan else function(*call.args)

    return evaluate


def _of_kinds(kinds: str, function: Callable[..., np.ndarray]) -> Evaluator:
    """An elementwise function for dtypes of these kinds: b(ool), i(nteger), u(nsigned), f(loat)."""

    def evaluate(call: ConstantCall) -> np.ndarray | None:
        return function(*call.args) if all(_kind(array) in kinds for array in call.args) else None

    return evaluate


def _kind(array: np.ndarray) -> str:
    """The letter of numpy; bfloat16, which is foreign to it, is a float as well, other foreigners are not."""
    if array.dtype.name in FLOATS:
        return "f"
    return array.dtype.kind if array.dtype.name in NUMPY_DTYPES else "?"


def _floor_division(function: Callable[..., np.ndarray]) -> Evaluator:
    def evaluate(call: ConstantCall) -> np.ndarray | None:
        defined = call.args[1].all() and all(_kind(array) in "iu" for array in call.args)
        return function(*call.args) if defined else None

    return evaluate


EVALUATORS: dict[str, Evaluator] = {
    "relax.reshape": _reshape,
    "relax.flatten": _reshape,
    "relax.expand_dims": _reshape,
    "relax.squeeze": _reshape,
    "relax.broadcast_to": _broadcast,
    "relax.permute_dims": _transpose,
    "relax.concat": _concat,
    "relax.stack": _stack,
    "relax.strided_slice": _slice,
    "relax.take": _take,
    "relax.where": _where,
    "relax.astype": _astype,
    "relax.dequantize": _dequantize,
    "relax.zeros": _fill(0),
    "relax.ones": _fill(1),
    "relax.zeros_like": _fill(0),
    "relax.ones_like": _fill(1),
    "relax.full": _full,
    "relax.full_like": _full,
    "relax.arange": _arange,
    "relax.tril": _triangle(np.tril),
    "relax.triu": _triangle(np.triu),
    "relax.add": _of_kinds("iuf", np.add),
    "relax.subtract": _of_kinds("iuf", np.subtract),
    "relax.multiply": _of_kinds("iuf", np.multiply),
    "relax.divide": _of_kinds("f", np.divide),
    "relax.floor_divide": _floor_division(np.floor_divide),
    "relax.floor_mod": _floor_division(np.mod),
    "relax.maximum": _ordered(np.maximum),
    "relax.minimum": _ordered(np.minimum),
    "relax.negative": _of_kinds("if", np.negative),
    "relax.abs": _of_kinds("if", np.abs),
    "relax.square": _of_kinds("iuf", np.square),
    "relax.sqrt": _of_kinds("f", np.sqrt),
    "relax.floor": _of_kinds("f", np.floor),
    "relax.ceil": _of_kinds("f", np.ceil),
    "relax.trunc": _of_kinds("f", np.trunc),
    "relax.isnan": _of_kinds("f", np.isnan),
    "relax.isinf": _of_kinds("f", np.isinf),
    "relax.isfinite": _of_kinds("f", np.isfinite),
    "relax.equal": _of_kinds("biuf", np.equal),
    "relax.not_equal": _of_kinds("biuf", np.not_equal),
    "relax.less": _of_kinds("iuf", np.less),
    "relax.less_equal": _of_kinds("iuf", np.less_equal),
    "relax.greater": _of_kinds("iuf", np.greater),
    "relax.greater_equal": _of_kinds("iuf", np.greater_equal),
    "relax.logical_and": _of_kinds("b", np.logical_and),
    "relax.logical_or": _of_kinds("b", np.logical_or),
    "relax.logical_xor": _of_kinds("b", np.logical_xor),
    "relax.logical_not": _of_kinds("b", np.logical_not),
}
