"""Evaluators with numpy that agree with compiled code, one for each Relax op.

Ops that move or select data are here; elementwise functions are in `constant_functions`, reductions in
`constant_reductions`, convolutions in `constant_convolutions`, scattered writes in `constant_updates`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from annotated_region.arrays import NUMPY_DTYPES
from annotated_region.passes.preparation.constant_call import ConstantCall, Evaluator, are_in, kind_of
from annotated_region.passes.preparation.constant_convolutions import CONVOLUTIONS
from annotated_region.passes.preparation.constant_functions import FUNCTIONS
from annotated_region.passes.preparation.constant_reductions import REDUCTIONS
from annotated_region.passes.preparation.constant_updates import UPDATES
from annotated_region.passes.preparation.tensors import FLOATS

__all__ = ["EVALUATORS"]

# Operands for which numpy and C may differ are declined.


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
    """Computed in double precision, with the number of elements that the type states."""
    start, _stop, step = (0, *call.args, 1)[-3:] if len(call.args) == 1 else (*call.args, 1)[:3]
    if not isinstance(start, int | float) or not isinstance(step, int | float):
        return None
    counted: np.ndarray = start + step * np.arange(*call.shape)
    return counted


def _triangle(function: Callable[..., np.ndarray]) -> Evaluator:
    def evaluate(call: ConstantCall) -> np.ndarray | None:
        array, diagonal = call.args
        return function(array, diagonal) if isinstance(diagonal, int) else None

    return evaluate


def _slice(call: ConstantCall) -> np.ndarray:
    """Negative bounds and strides follow Python's rules, in TVM too."""
    array: np.ndarray
    array, axes, begins, ends, *steps = call.args
    strides = steps[0] if steps else (1,) * len(axes)
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
    if not are_in(indices, limit):
        return None
    return np.asarray(np.take(array, indices, axis))


def _index_tensor(call: ConstantCall) -> np.ndarray | None:
    array: np.ndarray
    array, indices = call.args
    if not all(are_in(each, limit) for each, limit in zip(indices, array.shape, strict=False)):
        return None
    return np.asarray(array[tuple(indices)])


def _gather_elements(call: ConstantCall) -> np.ndarray | None:
    """The indices may cover a part of the other axes; NumPy broadcasts those that it covers with one."""
    array: np.ndarray
    indices: np.ndarray
    array, indices = call.args
    axis = call.attrs["axis"] % array.ndim
    covered = [*indices.shape[:axis], array.shape[axis], *indices.shape[axis + 1 :]]
    part = array[tuple(map(slice, covered))]
    if not are_in(indices, array.shape[axis]) or list(part.shape) != covered:
        return None
    return np.asarray(np.take_along_axis(part, indices, axis))


def _gather_nd(call: ConstantCall) -> np.ndarray | None:
    array, indices = call.args
    parts = np.moveaxis(indices, -1, 0)
    if call.attrs["batch_dims"] or not all(map(are_in, parts, array.shape)):
        return None
    return np.asarray(array[tuple(parts)])


def _one_hot(call: ConstantCall) -> np.ndarray | None:
    indices, on, off = call.args
    if call.attrs["axis"] not in (-1, indices.ndim) or not all(
        isinstance(each, int | float) for each in (on, off)
    ):
        return None
    return np.asarray(np.where(indices[..., None] == np.arange(call.attrs["depth"]), on, off))


def _pad(call: ConstantCall) -> np.ndarray | None:
    array, widths = call.args[0], call.attrs["pad_width"]
    if call.attrs["pad_mode"] != "constant" or min(widths, default=0) < 0:
        return None
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    padded = np.full(call.shape, call.attrs["pad_value"], call.dtype)
    inside = tuple(slice(before, before + size) for (before, _), size in zip(pairs, array.shape, strict=True))
    padded[inside] = array
    return padded


def _where(call: ConstantCall) -> np.ndarray:
    return np.asarray(np.where(*call.args))


def _astype(call: ConstantCall) -> np.ndarray | None:
    array: np.ndarray = call.args[0]
    if kind_of(array) == "f" and call.dtype.kind in "iu" and not _fits(array, call.dtype):
        return None
    if not {array.dtype.name, call.dtype.name} <= NUMPY_DTYPES | FLOATS:
        return None
    return array.astype(call.dtype)


def _fits(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether C defines the conversion of these floats to integers."""
    limits = np.iinfo(dtype)
    whole = np.trunc(array.astype(np.float64))
    return bool(np.isfinite(whole).all() and (whole >= limits.min).all() and (whole < limits.max).all())


def _dequantize(call: ConstantCall) -> np.ndarray | None:
    """Of a single number; larger tensors are kept quantized, because targets compute with them in int8."""
    data, scale, zero = call.args
    if any(array.size != 1 for array in call.args) or {scale.dtype.name, call.dtype.name} != {"float32"}:
        return None
    if data.dtype.kind not in "iu" or zero.dtype.kind not in "iu":
        return None
    difference = int(data.item()) - int(zero.item())
    if not -(2**31) <= difference < 2**31:
        return None
    return np.reshape(np.float32(difference) * scale.reshape(()), call.shape)


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
    "relax.eye": lambda call: np.eye(call.shape[0], call.shape[1], call.args[2], dtype=call.dtype),
    "relax.tile": lambda call: np.tile(call.args[0], call.attrs["repeats"]),
    "relax.repeat": lambda call: np.repeat(call.args[0], call.attrs["repeats"], call.attrs["axis"]),
    "relax.flip": lambda call: np.flip(call.args[0], call.attrs["axis"]),
    "relax.index_tensor": _index_tensor,
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
    "relax.one_hot": _one_hot,
    "relax.nn.pad": _pad,
    **FUNCTIONS,
    **REDUCTIONS,
    **CONVOLUTIONS,
    **UPDATES,
}
