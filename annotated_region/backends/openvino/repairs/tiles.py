"""Repairs of convolutions in tiles, as OpenVINO 2026.4 computes those of bytes and of bfloat16 with AMX.

With strides between columns the first row only is right, if the result has a single column; so it is for one
channel of float32 on processors with AVX-512. Computed with one column more, which is cut off, it is right:

    y = Conv(x, w)        wrong, if x is (1, 64, 8, 3), w is (32, 64, 1, 3), and the strides are (1, 2)
    y = Slice(Conv(x, w), [0], [-1], [3])        right, padded with a stride more behind the last column

Groups of more than 64 channels of bytes, no multiple of 64, are wrong for kernels of one pixel:

    y = Conv(DequantizeLinear(x), w)        wrong, if x is (1, 160, 4, 4), w is (32, 80, 1, 1), for two groups
    d = DequantizeLinear(x), y = Conv(Max(d, d), w)        right

Groups of fewer than 32 channels of bytes with a zero point are wrong, if they make several blocks of 16, or
with strides, unless each channel is a group:

    y = Conv(DequantizeLinear(x, 0.1, 128), w)        wrong, if w is (96, 16, 1, 5), for two groups
    d = DequantizeLinear(x, 0.1, 128), y = Conv(Max(d, d), w)        right

A transposed convolution of bytes to a single channel is fused wrongly with a number and a function behind it:

    y = Sigmoid(Add(ConvTranspose(DequantizeLinear(x), w), 0.5))        wrong, if w is (2, 1, 3, 3)
    c = ConvTranspose(DequantizeLinear(x), w), y = Sigmoid(Add(Max(c, c), 0.5))        right

All are mended on every processor, as a model may run on another one than it was built on.
"""

from __future__ import annotations

import math

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    Repair,
    ValueSources,
    computed_of,
    has_zero_point,
    kernel_shape,
    read_as_a_copy,
    reading_a_copy,
)
from annotated_region.tvm_adapter.types import expect

__all__ = ["BYTE_TILE_REPAIRS", "ROUNDED_TILE_REPAIRS", "TILE_REPAIRS"]

_CHANNELS = 64
"""Of bytes in a row of a tile."""
_FEW = 32
"""Input channels of a group whose columns share rows of tiles."""


def _with_two_columns(graph: Graph, _sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution to what may be a single column makes another one, which is cut off.

    Behind the last column the padding is as wide as a stride, so that the result has exactly one column more,
    whatever the extents.
    """
    if operator.kind != "Conv" or not graph.single_columns.intersection(operator.outputs):
        return (operator,)
    (result,) = operator.outputs
    strides, pads = (list(expect(list, operator.attrs[name])) for name in ("strides", "pads"))
    pads[-1] += strides[-1]
    wide = graph.declare(graph.fresh("wide"), graph.dtypes[result])
    first, last = (graph.constant(np.array([place])) for place in (0, -1))
    axis = graph.constant(np.array([len(strides) + 1]))
    return (
        Operator("Conv", operator.inputs, (wide,), {**operator.attrs, "pads": pads}),
        Operator("Slice", (wide, first, last, axis), operator.outputs, {}),
    )


def _of_one_channel(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution of one channel has two columns."""
    shape = kernel_shape(graph, sources, operator) if operator.kind == "Conv" else ()
    is_of_one = shape is None or (shape[1:2] == (1,) and operator.attrs.get("group", 1) == 1)
    return _with_two_columns(graph, sources, operator) if is_of_one else (operator,)


def _of_bytes(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution of what was bytes has two columns."""
    is_of_bytes = operator.kind == "Conv" and _was_bytes(sources, operator.inputs[0])
    return _with_two_columns(graph, sources, operator) if is_of_bytes else (operator,)


def _of_groups(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution of groups that is wrong in bytes reads a copy, and is one of floats."""
    groups = expect(int, operator.attrs.get("group", 1)) if operator.kind == "Conv" else 1
    if groups == 1 or not _was_bytes(sources, operator.inputs[0]):
        return (operator,)
    data = operator.inputs[0]
    shape = kernel_shape(graph, sources, operator)
    if shape is not None:
        outputs, inputs, is_pixel = shape[0] // groups, shape[1], math.prod(shape[2:]) == 1
        has_rest = is_pixel and inputs > _CHANNELS and inputs % _CHANNELS != 0
        are_few = not is_pixel and inputs < _FEW and inputs * outputs > 1
        has_zero = any(has_zero_point(graph, each) for each in computed_of(sources, data))
        if not has_rest and not (are_few and has_zero):
            return (operator,)
    return reading_a_copy(graph, operator, data)


def _to_one_channel(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of a transposed convolution of bytes to a single channel read a copy."""
    if operator.kind != "ConvTranspose" or not _was_bytes(sources, operator.inputs[0]):
        return (operator,)
    shape = kernel_shape(graph, sources, operator)
    is_single = shape is None or (shape[1] == 1 and operator.attrs.get("group", 1) == 1)
    return read_as_a_copy(graph, operator) if is_single else (operator,)


def _was_bytes(sources: ValueSources, name: str) -> bool:
    """Whether a value is computed from bytes, in front of which no product and no copy is."""
    return any(each.kind == "DequantizeLinear" for each in computed_of(sources, name))


TILE_REPAIRS: tuple[Repair, ...] = (_of_one_channel,)
"""Those of any model."""

BYTE_TILE_REPAIRS: tuple[Repair, ...] = (_of_bytes, _of_groups, _to_one_channel)
"""Those of quantized models."""

ROUNDED_TILE_REPAIRS: tuple[Repair, ...] = (_with_two_columns,)
"""Those of models whose products are rounded to fewer bits than those of float32."""
