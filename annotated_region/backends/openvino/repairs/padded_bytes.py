"""Padding of bytes with a zero point, which OpenVINO 2026.4 has wrong inside of a convolution.

What the zero point adds where taps stand in the padding is taken from other memory, or written to it, with
some numbers of channels and extents, also behind a pool, a factor or what moves bytes:

    y = Conv(DequantizeLinear(x, 0.1, 128), w)        wrong, if x is (1, 4, 33, 96), w is (48, 4, 3, 1),
                                                      pads are (2, 0, 2, 0), and strides are (2, 2)
    y = Conv(DequantizeLinear(Pad(x, value = 128), 0.1, 128), w)        right

The bytes are padded by an operator of their own, which takes 0.7 to 1.1 of the time. Where something is
between, the convolution reads a copy, and is one of floats.
"""

from __future__ import annotations

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    Repair,
    ValueSources,
    computed_of,
    has_zero_point,
    reading_a_copy,
    shape_of,
)
from annotated_region.tvm_adapter.types import expect

__all__ = ["PADDING_REPAIRS"]


def _padded_in_front(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution of bytes that may have a zero point finds their padding in its operand."""
    if operator.kind != "Conv" or not any(expect(list, operator.attrs.get("pads", []))):
        return (operator,)
    data = operator.inputs[0]
    if not any(has_zero_point(graph, each) for each in computed_of(sources, data)):
        return (operator,)
    maker = sources.makers[data]
    is_direct = maker.kind == "DequantizeLinear" and shape_of(graph, maker.inputs[2]) == ()
    return _reading_padded(graph, operator, maker) if is_direct else reading_a_copy(graph, operator, data)


def _reading_padded(graph: Graph, convolution: Operator, dequantize: Operator) -> tuple[Operator, ...]:
    """A convolution without padding, in front of which bytes are padded and become floats."""
    source, scale, zero = dequantize.inputs
    pads = expect(list, convolution.attrs["pads"])
    spatial = len(pads) // 2
    places = graph.constant(np.array([0, 0, *pads[:spatial], 0, 0, *pads[spatial:]]))
    padded = graph.declare(graph.fresh("padded"), graph.dtypes[source])
    data = graph.declare(graph.fresh("padded_data"), graph.dtypes[dequantize.outputs[0]])
    unpadded = {**convolution.attrs, "pads": [0] * len(pads)}
    return (
        Operator("Pad", (source, places, zero), (padded,), {"mode": "constant"}),
        Operator("DequantizeLinear", (padded, scale, zero), (data,), dequantize.attrs),
        Operator("Conv", (data, *convolution.inputs[1:]), convolution.outputs, unpadded),
    )


PADDING_REPAIRS: tuple[Repair, ...] = (_padded_in_front,)
