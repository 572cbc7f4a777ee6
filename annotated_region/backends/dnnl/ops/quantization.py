"""Quantize and dequantize, with one scale and zero point or one per channel."""

from __future__ import annotations

import numpy as np

from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.ops.checks import BYTES, FLOAT, Problems, tensor_problem
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import ChannelScales, Scale
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

KINDS = {"relax.quantize": Kind.QUANTIZE, "relax.dequantize": Kind.DEQUANTIZE}


def _problems(op: OpView) -> Problems:
    """Checks of scale and zero point; Relax has already checked their shapes."""
    scale, zero = op.constant(1), op.constant(2)
    dtype = str((op.out_tensor if op.name == "relax.quantize" else op.arg_tensor(0)).dtype)
    yield tensor_problem(op.arg_types[1], "the scale", (FLOAT,))
    if scale is not None and not (np.isfinite(scale).all() and (scale > 0).all()):
        yield "a scale is not a finite positive float32"
    if zero is None:
        yield tensor_problem(op.arg_types[2], "the zero point", (dtype,))
    else:
        yield _zero_problem(zero, dtype)


def _zero_problem(zero: np.ndarray, dtype: str) -> str | None:
    """Why constant zero points are invalid for a quantized dtype, or None."""
    if zero.dtype.kind not in "iu":
        return f"the zero point is of type {zero.dtype}"
    limits = np.iinfo(dtype)
    is_inside = (zero >= limits.min).all() and (zero <= limits.max).all()
    return None if is_inside else f"a zero point is not a value of {dtype}"


@converts("relax.quantize", types=(FLOAT,), result=BYTES, unless=_problems)
@converts("relax.dequantize", types=(*BYTES, "int32"), result=(FLOAT,), unless=_problems)
def _converted(call: OpConversion) -> TensorId:
    data, dtype = call.operand(0), call.importer.dtype(call.op.out_type)
    kind, scale, zero = KINDS[call.op.name], call.op.constant(1), call.op.constant(2)
    if scale is not None and zero is not None and scale.size == zero.size == 1:
        return call.add(kind, [data], Scale(float(scale.flat[0]), int(zero.flat[0])), dtype)
    vectors = [call.operand(index) for index in ((1,) if zero is not None and not zero.any() else (1, 2))]
    is_one = all(call.graph.shape(vector) == (1,) for vector in vectors)
    axis = 0 if is_one else call.attrs["axis"] % len(call.shape)
    return call.add(kind, [data, *vectors], ChannelScales(axis, 0 if is_one else 1), dtype)
