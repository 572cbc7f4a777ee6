"""What oneDNN claims of quantization: constant scales and zero points, numbers to int8 and back."""

from __future__ import annotations

import numpy as np

from annotated_region.backends.dnnl.checks import FLOAT, tensor_problem
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.registration import Problems, claims
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

BYTES = ("int8", "uint8")


@claims("relax.quantize")
def _quantize(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the data")
    yield tensor_problem(op.out_type, "the result", BYTES)
    yield from _parameters(op, str(op.out_type.dtype))


@claims("relax.dequantize")
def _dequantize(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the data", (*BYTES, "int32"))
    yield tensor_problem(op.out_type, "the result", (FLOAT,))
    yield from _parameters(op, str(op.arg_types[0].dtype))


def _parameters(op: OpView, dtype: str) -> Problems:
    """What may be wrong with scale and zero point, for elements of type `dtype`."""
    scale, zero = op.constant(1), op.constant(2)
    if scale is None or zero is None:
        yield "scale and zero point are not constant"
        return
    if str(scale.dtype) != FLOAT or not np.isfinite(scale).all() or not (scale > 0).all():
        yield "a scale is no finite float32 above zero"
    if zero.dtype.kind not in "iu":
        yield f"the zero point is of type {zero.dtype}"
        return
    limits = np.iinfo(dtype)
    if (zero < limits.min).any() or (zero > limits.max).any():
        yield f"a zero point is no value of {dtype}"
    extents = extents_of(op.arg_types[0]) or ()
    channels = extents[op.attrs["axis"] % len(extents)]
    for what, given in (("scales", scale), ("zero points", zero)):
        if given.size != 1 and (given.ndim != 1 or given.size != channels):
            yield f"{given.size} {what} for {channels} channels"
