"""Quantization to 8 bits and back, with one scale and zero point, or one for each channel.

Relax and ONNX agree: ``quantize`` is ``clip(round(x / scale) + zero_point)`` with ties to even, and
``dequantize`` is ``(x - zero_point) * scale``, computed in float32. They differ by one where TVM rounds a
quotient of float16 to that type before it rounds it to an integer, and in the result of NaN, which no
integer represents.
"""

from __future__ import annotations

import numpy as np

from annotated_region.backends.onnx_emitter.emission import Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []

_BYTES = ("int8", "uint8")
_LARGEST_HALF = 65504.0


@converter("relax.quantize")
def _quantize(emission: Emission, op: OpView) -> str:
    dtype = str(op.out_tensor.dtype)
    require(dtype in _BYTES, f"the result has type {dtype}, not int8 or uint8")
    data, axis = emission.operand(op.args[0]), _axis(op)
    scale, zero = _parameters(emission, op, dtype)
    types = {emission.dtype(data), emission.dtype(scale)}
    require(types <= {"float16", "bfloat16", "float32"}, f"numbers of type {emission.dtype(data)}")
    wide = [emission.cast(value, "float32") for value in (data, scale)]
    if _is_by_channel(op) or _is_negative(op):
        return _quantized_in_parts(emission, op, wide[0], (wide[1], zero))
    return emission.node("QuantizeLinear", *wide, zero, axis=axis)


def _quantized_in_parts(emission: Emission, op: OpView, data: str, parameters: tuple[str, str]) -> str:
    """By channel, as several operators: ONNX Runtime's fused convolution rejects several zero points.

    Negative scales, too: ONNX Runtime drops a ReLU before a quantization whose least number stands for zero,
    and OpenVINO takes the range for empty.
    """
    dtype = str(op.out_tensor.dtype)
    scale, zero = (_along_axis(emission, op, value) for value in parameters)
    whole = emission.node("Round", emission.node("Div", data, scale))
    moved = emission.node("Add", whole, emission.cast(zero, "float32"))
    bounds = [emission.number(bound, "float32") for bound in (np.iinfo(dtype).min, np.iinfo(dtype).max)]
    return emission.cast(emission.node("Clip", moved, *bounds), dtype)


@converter("relax.dequantize")
def _dequantize(emission: Emission, op: OpView) -> str:
    data, out = emission.operand(op.args[0]), str(op.out_tensor.dtype)
    dtype = emission.dtype(data)
    require(dtype in (*_BYTES, "int32"), f"quantized numbers of type {dtype}")
    require(out in ("float32", "float16"), f"the result has type {out}")
    scale, zero = _parameters(emission, op, dtype)
    wide = emission.cast(scale, "float32")
    if dtype == "int32" or (_is_by_channel(op) and op.constant(0) is None):
        result = _in_parts(emission, op, data, (wide, zero))
    else:
        result = emission.node("DequantizeLinear", data, wide, zero, axis=_axis(op))
    if out == "float32":
        return result
    bounds = [emission.number(bound, "float32") for bound in (-_LARGEST_HALF, _LARGEST_HALF)]
    return emission.cast(emission.node("Clip", result, *bounds), out)


def _in_parts(emission: Emission, op: OpView, data: str, parameters: tuple[str, str]) -> str:
    """As several operators, if ONNX has no such zero point, or if ONNX Runtime's fused operators reject it.

    ONNX Runtime fuses a product of quantized operands into an integer product, whatever their scales, and
    fails at run time if the left operand, or an image, has one scale for each channel.
    """
    scale, zero = (_along_axis(emission, op, value) for value in parameters)
    moved = emission.node("Sub", emission.cast(data, "int32"), emission.cast(zero, "int32"))
    return emission.node("Mul", emission.cast(moved, "float32"), scale)


def _is_by_channel(op: OpView) -> bool:
    return any(_size(op, position) != 1 for position in (1, 2))


def _is_negative(op: OpView) -> bool:
    scale = op.constant(1)
    return scale is not None and bool((scale < 0).any())


def _axis(op: OpView) -> int:
    rank = len(extents_of(op.arg_types[0]))
    return int(op.attrs["axis"]) % rank if rank else 0


def _parameters(emission: Emission, op: OpView, dtype: str) -> tuple[str, str]:
    """Scale and zero point, both scalar or both with one number per channel."""
    scale, zero = emission.operand(op.args[1]), _zero(emission, op, dtype)
    sizes = [_size(op, position) for position in (1, 2)]
    if all(size == 1 for size in sizes):
        return _scalar(emission, op, 1, scale), _scalar(emission, op, 2, zero)
    channels = extents_of(op.arg_types[0])[_axis(op)]
    require(all(size in (1, channels) for size in sizes), f"{max(sizes)} scales for {channels} channels")
    shape = emission.ints([max(sizes)])
    whole = [
        value if size != 1 else emission.node("Expand", value, shape)
        for value, size in zip((scale, zero), sizes, strict=True)
    ]
    return whole[0], whole[1]


def _zero(emission: Emission, op: OpView, dtype: str) -> str:
    """The zero point in the type of the quantized numbers, as ONNX requires."""
    value = op.constant(2)
    if value is None:
        zero = emission.operand(op.args[2])
        require(emission.dtype(zero) == dtype, f"a computed zero point of type {emission.dtype(zero)}")
        return zero
    limits = np.iinfo(dtype)
    fits = value.dtype.kind in "iu" and bool(((value >= limits.min) & (value <= limits.max)).all())
    require(fits, f"a zero point is not a value of {dtype}")
    return emission.graph.constant(value.astype(dtype))


def _size(op: OpView, position: int) -> int:
    extents = extents_of(op.arg_types[position])
    require(all(isinstance(extent, int) for extent in extents), "the number of scales is symbolic")
    size = int(np.prod([extent for extent in extents if isinstance(extent, int)]))
    require(size == 1 or len(extents) == 1, f"scales in {len(extents)} axes")
    return size


def _scalar(emission: Emission, op: OpView, position: int, value: str) -> str:
    known = emission.graph.constants.get(value)
    if known is not None:
        return emission.graph.constant(known.reshape(()))
    return emission.node("Reshape", value, emission.ints([])) if extents_of(op.arg_types[position]) else value


def _along_axis(emission: Emission, op: OpView, value: str) -> str:
    """A vector of one number per channel, reshaped so that it broadcasts along the other axes."""
    if not _is_by_channel(op):
        return value
    behind = len(extents_of(op.arg_types[0])) - 1 - _axis(op)
    return emission.node("Reshape", value, emission.ints([-1, *[1] * behind]))
