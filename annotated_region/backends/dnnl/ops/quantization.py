"""Quantization: numbers to int8 and back, with one scale and zero point, or one for each channel."""

from __future__ import annotations

import numpy as np

from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.ops.checks import FLOAT, Problems
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import ChannelScales, Scale
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

BYTES = ("int8", "uint8")
KINDS = {"relax.quantize": Kind.QUANTIZE, "relax.dequantize": Kind.DEQUANTIZE}


def _problems(op: OpView) -> Problems:
    """What may be wrong with scale and zero point."""
    scale, zero = op.constant(1), op.constant(2)
    if scale is None or zero is None:
        yield "scale and zero point are not constant"
        return
    if str(scale.dtype) != FLOAT or not np.isfinite(scale).all() or not (scale > 0).all():
        yield "a scale is no finite float32 above zero"
    if zero.dtype.kind not in "iu":
        yield f"the zero point is of type {zero.dtype}"
        return
    dtype = str((op.out_tensor if op.name == "relax.quantize" else op.arg_tensor(0)).dtype)
    limits = np.iinfo(dtype)
    if (zero < limits.min).any() or (zero > limits.max).any():
        yield f"a zero point is no value of {dtype}"
    extents = extents_of(op.arg_types[0]) or ()
    channels = extents[op.attrs["axis"] % len(extents)]
    for what, given in (("scales", scale), ("zero points", zero)):
        if given.size != 1 and (given.ndim != 1 or given.size != channels):
            yield f"{given.size} {what} for {channels} channels"


@converts("relax.quantize", types=(FLOAT,), result=BYTES, unless=_problems)
@converts("relax.dequantize", types=(*BYTES, "int32"), result=(FLOAT,), unless=_problems)
def _converted(call: OpConversion) -> TensorId:
    data, dtype = call.operand(0), call.importer.dtype(call.op.out_type)
    kind, scale, zero = KINDS[call.op.name], call.op.constant(1), call.op.constant(2)
    assert scale is not None
    assert zero is not None
    if scale.size == 1 and zero.size == 1:
        return call.add(kind, [data], Scale(float(scale.flat[0]), int(zero.flat[0])), dtype)
    vectors = [call.operand(index) for index in ((1, 2) if zero.any() else (1,))]
    axis = call.attrs["axis"] % len(call.shape)
    return call.add(kind, [data, *vectors], ChannelScales(axis, 1), dtype)
