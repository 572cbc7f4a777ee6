"""Integer products and convolutions, as dynamic quantization emits them between 8-bit data and floats."""

from __future__ import annotations

from functools import partial

import numpy as np

from annotated_region.backends.dnnl.graph import DataType, Kind, TensorId
from annotated_region.backends.dnnl.ops.checks import BYTES, OPERANDS, WHOLE, Problems
from annotated_region.backends.dnnl.ops.convolution import (
    CONVOLUTIONS,
    DATA_AND_KERNEL,
    convolution,
    convolution_problems,
    matrix_product,
)
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import WholeConvolution, WholeProduct
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

FACTORS = (*WHOLE, *BYTES)
SUMS = "int32"


def _is_of_whole_numbers(op: OpView) -> bool:
    return str(getattr(op.arg_types[0], "dtype", None)) in FACTORS


def _is_narrow(op: OpView) -> bool:
    """Whether the right operand is constant, and all its elements fit into int8."""
    right, limits = op.constant(1), np.iinfo("int8")
    return right is not None and bool(((right >= limits.min) & (right <= limits.max)).all())


def _problems(op: OpView) -> Problems:
    left, right = (str(op.arg_tensor(index).dtype) for index in (0, 1))
    wide = str(op.out_tensor.dtype)
    if any(each not in (wide, *BYTES) for each in (left, right)):
        yield f"{left} times {right} has the result type {wide}"


@converts(
    "relax.matmul",
    operands=OPERANDS,
    types=FACTORS,
    result=WHOLE,
    unless=_problems,
    suits=_is_of_whole_numbers,
)
def _matmul(call: OpConversion) -> TensorId:
    """Converts 8-bit operands to the type of the result."""
    wide = DataType(str(call.op.out_tensor.dtype))
    left, right = (call.graph.cast(each, wide) for each in call.operands())
    return matrix_product(call, Kind.WHOLE_MATMUL, left, right, WholeProduct(_is_narrow(call.op)))


@converts(
    *CONVOLUTIONS,
    operands=DATA_AND_KERNEL,
    types=(SUMS,),
    result=(SUMS,),
    unless=convolution_problems,
    suits=lambda op: str(getattr(op.arg_types[0], "dtype", None)) == SUMS,
)
def _convolution(call: OpConversion) -> TensorId:
    window = partial(WholeConvolution, narrow=_is_narrow(call.op))
    return convolution(call, Kind.WHOLE_CONVOLUTION, window)
