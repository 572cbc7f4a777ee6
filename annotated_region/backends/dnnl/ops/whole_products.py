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


LIMITS = np.iinfo("int8")
WIDEST = 255
"""The largest difference of two bytes."""


def _zero(op: OpView) -> int | None:
    """What is added to the elements of a constant right operand to fit them into int8; None if nothing does.

    Weights of uint8 whose zero point is not 128 need it.
    """
    right = op.constant(1)
    if right is None:
        return None
    least, largest = int(right.min()), int(right.max())
    zero = 0 if least >= LIMITS.min and largest <= LIMITS.max else LIMITS.min - least
    return zero if largest + zero <= LIMITS.max else None


def _is_small(op: OpView) -> bool:
    """Whether the right operand is constant, and its elements are such as differences of bytes."""
    right = op.constant(1)
    return right is not None and bool((np.abs(right.astype("int64")) <= WIDEST).all())


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
    zero = _zero(call.op)
    given = WholeProduct(zero is not None, zero or 0, _is_small(call.op))
    return matrix_product(call, Kind.WHOLE_MATMUL, left, right, given)


@converts(
    *CONVOLUTIONS,
    operands=DATA_AND_KERNEL,
    types=(SUMS,),
    result=(SUMS,),
    unless=convolution_problems,
    suits=lambda op: str(getattr(op.arg_types[0], "dtype", None)) == SUMS,
)
def _convolution(call: OpConversion) -> TensorId:
    window = partial(WholeConvolution, narrow=_zero(call.op) == 0, small=_is_small(call.op))
    return convolution(call, Kind.WHOLE_CONVOLUTION, window)
