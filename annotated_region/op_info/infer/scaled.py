"""Proposes ops that scale elements by one number, or by one number for each place of an axis."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from tvm import relax

from annotated_region.op_info.infer.segment import Segment
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["read_prelu", "read_quantization"]

_WHOLE = ("int8", "uint8", "int16", "uint16", "int32")
NEAR = 1 << 16
"""The zero points of these types are less."""


def read_prelu(segment: Segment) -> Iterator[relax.Call]:
    """A choice between an element and its product with a slope of an axis."""
    if not _is_elementwise(segment) or segment.blocks[0].stores[0].value[0] != "if":
        return
    if len(segment.variables) == 2:
        for data, slopes in permutations(segment.variables):
            for axis in _axes(segment, data, slopes):
                yield relax.op.nn.prelu(data, slopes, axis)


def read_quantization(segment: Segment) -> Iterator[relax.Call]:
    """``quantize`` and ``dequantize``, with scale and zero point as tensors, or as numbers in the code."""
    if not _is_elementwise(segment) or len(segment.variables) not in (1, 3):
        return
    dtype = segment.outputs[0].dtype
    for data, scale, zero in _operands(segment):
        axes = _axes(segment, data, scale) if tensor_type(scale).ndim else [-1]
        for axis in axes:
            if "float" in _dtype(data) and "int" in dtype:
                yield relax.op.quantize(data, scale, zero, axis, dtype)
            elif "int" in _dtype(data) and "float" in dtype:
                yield relax.op.dequantize(data, scale, zero, axis, dtype)


def _operands(segment: Segment) -> Iterator[tuple[relax.Var, relax.Expr, relax.Expr]]:
    if len(segment.variables) == 3:
        for data, scale, zero in permutations(segment.variables):
            if "float" in _dtype(scale) and "int" in _dtype(zero):
                yield data, scale, zero
        return
    (data,) = segment.variables
    whole, real = sorted((_dtype(data), segment.outputs[0].dtype), key=lambda dtype: "float" in dtype)
    if whole in _WHOLE and "float" in real:
        for number in segment.constants:
            for point in _zero_points(segment, whole):
                yield data, relax.const(float(number), real), relax.const(point, whole)


def _zero_points(segment: Segment, dtype: str) -> list[int]:
    # One of 0 is not in the code, and the difference to a negative one is a sum.
    found = [int(number) for number in segment.constants if abs(number) < NEAR]
    limits = np.iinfo(dtype)
    both = dict.fromkeys([0, *found, *(-number for number in found)])
    return [number for number in both if limits.min <= number <= limits.max]


def _axes(segment: Segment, data: relax.Var, numbers: relax.Expr) -> list[int]:
    """The axes with as many places as there are numbers."""
    if not isinstance(numbers, relax.Var) or tensor_type(numbers).ndim != 1:
        return []
    (count,) = segment.tensor(numbers).shape
    return [axis for axis, extent in enumerate(segment.tensor(data).shape) if extent == count]


def _dtype(expr: relax.Expr) -> str:
    return str(tensor_type(expr).dtype)


def _is_elementwise(segment: Segment) -> bool:
    if len(segment.blocks) != 1 or len(segment.outputs) != 1:
        return False
    block = segment.blocks[0]
    return len(block.stores) == 1 and not block.reduction
