"""Repairs of quantized models, but for joined bytes and what a `QuantizeLinear` misreads.

In quantized models scales are moved behind the readers of the 8-bit values. A scale that is moved behind a
convolution or product with several readers is lost, or applied twice, for some of them; one before a
normalization is moved behind it as if epsilon were zero:

    c = Conv(DequantizeLinear(x), w), r = Relu(c), results c and r        r is wrong
    c = Conv(DequantizeLinear(x), w), d = Max(c, c), r = Relu(d), results d and r        right
    c = Conv(DequantizeLinear(x), w), y = Mul(c, c)        wrong
    y = InstanceNormalization(DequantizeLinear(x))        wrong, if the variance is near epsilon
    m = ReduceMean(DequantizeLinear(x)), ...        the same, where the normalization is written out

One with a number for each channel is moved behind what joins the channels of a product, and behind a
reduction along the last of three axes, where it is lost for all images but the first. A factor of a product
of 8 bits that varies along rows and columns is taken for one number a column:

    p = AveragePool(MatMul(DequantizeLinear(x), w))        wrong
    p = ReduceSum(Conv(DequantizeLinear(x), w))        wrong, if w has three axes
    c = Conv(DequantizeLinear(x), w), p = ReduceSum(Max(c, c))        right
    p = Mul(MatMul(DequantizeLinear(x), w), c)        wrong, if c is (2, 3)

Means of windows of bytes are rounded to bytes in front of a factor or summand, and padding counts as byte 0:

    y = Neg(AveragePool(DequantizeLinear(x, 0.0625, 0)))        0.625 for 0.59375
    d = DequantizeLinear(x, 0.0625, 128), y = AveragePool(Max(d, d))        right, where padding counts

In a model with a quantization, a summand is moved behind means of windows in which padding counts:

    s = Add(x, 1), q = QuantizeLinear(s), y = AveragePool(s)        wrong at the border
    s = Add(x, 1), q = QuantizeLinear(s), y = AveragePool(Max(s, s))        right

A quantization becomes a FakeQuantize, which computes (x - low) / (high - low) * 255 instead of x / scale, so
that a quotient that is a tie in float32 may be rounded to either side. Only constant scales lead to products
of 8 bits, so a quantization with a computed one is written in parts:

    y = QuantizeLinear(0.5, s, 0), s = 5 / 255        25, where 0.5 / s is 25.5
    y = Cast(Clip(Add(Round(Div(0.5, s)), 0)))        26

Its limits and their distance have to be finite; otherwise the result is one of the ends of the type, or 0.
Masks of the least float32 have such scales:

    y = QuantizeLinear(x, inf, 0)        -128, where x / inf is 0
    y = QuantizeLinear(0, 1.4e36, 255)        0 instead of 255, because 255 * 1.4e36 is infinite
    y = Cast(Clip(Add(Round(Div(0, 1.4e36)), 255)))        255

A permutation of a dequantized constant is lost where the other factor of a product is constant, too:

    y = MatMul(Transpose(DequantizeLinear(c, s, z)), d)        wrong
    t = Transpose(DequantizeLinear(c, s, z)), y = MatMul(Max(t, t), d)        right

A quantization that is fused with a maximum or minimum rounds it to a whole number before it divides:

    y = QuantizeLinear(ReduceMax([1.4, 1.5]), 0.125, 0)        16, which is 2 / 0.125
    m = ReduceMax([1.4, 1.5]), y = QuantizeLinear(Max(m, m), 0.125, 0)        12

A convolution of bytes with one channel is wrong if its single plane is padded:

    y = Conv(DequantizeLinear(x), w)        wrong, if x is (3, 1, 1, 2, 4), and there are planes of padding
    d = DequantizeLinear(x), y = Conv(Max(d, d), w)        right

The bounds of a clip are moved in front of the quantization, also over factors and summands; there they are
a quantum narrower:

    y = Clip(DequantizeLinear(QuantizeLinear(x, 0.1, 3), 0.1, 3), -0.5, 0.5)        -0.4 for -2
    d = DequantizeLinear(...), y = Clip(Max(d, d), -0.5, 0.5)        -0.5

The compilation of a quantized model ends the process if the difference from a constant is gathered:

    y = Gather(Sub(c, x), [0, 2])        a segmentation fault
    m = Sub(c, x), y = Gather(Max(m, m), [0, 2])        right
"""

from __future__ import annotations

import math

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    CONVOLUTIONS,
    EXTREMES,
    LINEAR,
    OF_BYTES,
    POOLS,
    PRODUCTS,
    VIEWS,
    Repair,
    ValueSources,
    behind,
    computed_of,
    holds_several,
    is_product,
    kernel_shape,
    read_as_a_copy,
    reading_a_copy,
    shape_of,
)
from annotated_region.tvm_adapter.types import expect

__all__ = ["FACTOR_REPAIRS", "SCALE_REPAIRS"]

# Of a quantization whose limits, 255 steps apart, are finite.
_LARGEST_STEP = float(np.finfo("float32").max) / 256
_WINDOWS = frozenset(("AveragePool", "MaxPool", "Resize"))
_POOLINGS = POOLS | _WINDOWS
# With a mean of its own, a normalization that is written out is not recognized as one.
_NORMS = frozenset(("InstanceNormalization", "LayerNormalization", "ReduceMean"))


def _apart_from_readers(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; if it is a product, or a multiple of one, several readers read a copy.

    One that reads it twice, as a square does, counts as two.
    """
    if operator.kind not in OF_BYTES and not _is_multiple(sources, operator):
        return (operator,)
    (name,) = operator.outputs
    readers = sum(each.inputs.count(name) for each in graph.operators)
    readers += sum(port.name == name for port in graph.outputs)
    return (operator,) if readers < 2 else read_as_a_copy(graph, operator)


def _of_constants(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a product of constants alone reads copies of the factors that are computed."""
    if operator.kind not in PRODUCTS or not sources.constants.issuperset(operator.inputs):
        return (operator,)
    copies: list[Operator] = []
    for name in dict.fromkeys(operator.inputs):
        if name in sources.makers:
            copy, operator = reading_a_copy(graph, operator, name)
            copies.append(copy)
    return (*copies, operator)


def _unrounded(graph: Graph, _sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of an extreme read a copy."""
    return read_as_a_copy(graph, operator) if operator.kind in EXTREMES else (operator,)


def _apart_from_norms(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a normalization, or what joins the channels of a product, reads a copy of its data."""
    is_joining = operator.kind in _POOLINGS or operator.kind.startswith("Reduce")
    if operator.kind in _NORMS or (is_joining and _joins_scales(graph, sources, operator)):
        return reading_a_copy(graph, operator, operator.inputs[0])
    return (operator,)


def _apart_from_bytes(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of numbers with a scale for each channel read a copy, and such a scale does.

    Scales for each channel are those of kernels and factors; those of data are rare.
    """
    if operator.kind == "DequantizeLinear":
        is_by_channels = holds_several(graph, operator.inputs[1])
        is_constant = sources.constants.issuperset(operator.inputs)
        return read_as_a_copy(graph, operator) if is_by_channels and not is_constant else (operator,)
    if operator.kind not in LINEAR | {"BatchNormalization", "PRelu"}:
        return (operator,)
    constants = [each for each in operator.inputs if each in sources.constants]
    data = [each for each in operator.inputs if each not in constants]
    if operator.kind == "Sub" and data == [operator.inputs[1]]:
        return read_as_a_copy(graph, operator)
    shapes = [shape_of(graph, each) for each in constants]
    is_bias = operator.kind in ("Add", "Sub") and all(
        shape is not None and math.prod(shape[:-1]) == 1 for shape in shapes
    )
    if len(data) != 1 or is_bias or not any(holds_several(graph, each) for each in constants):
        return (operator,)
    is_of_bytes = any(each.kind == "DequantizeLinear" for each in computed_of(sources, *data))
    return reading_a_copy(graph, operator, *data) if is_of_bytes else (operator,)


def _apart_from_rows(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a factor that varies along rows and columns is multiplied by a copy of a product."""
    if operator.kind not in ("BatchNormalization", "Div", "Mul"):
        return (operator,)
    shapes = [shape_of(graph, each) for each in operator.inputs if each in sources.constants]
    data = [each for each in operator.inputs if each not in sources.constants]
    if len(data) != 1:
        return (operator,)
    is_number = all(shape is not None and math.prod(shape) == 1 for shape in shapes)
    is_by_columns = all(shape is not None and math.prod(shape[:-1]) == 1 for shape in shapes)
    is_direct = data[0] in sources.makers and sources.makers[data[0]].kind in PRODUCTS
    if is_number or (is_by_columns and is_direct and operator.kind != "BatchNormalization"):
        return (operator,)
    return reading_a_copy(graph, operator, *data) if is_product(sources, *data) else (operator,)


def _in_parts(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization with a computed scale, or with a huge one, in parts."""
    if operator.kind != "QuantizeLinear" or _has_known_steps(graph, sources, operator.inputs[1]):
        return (operator,)
    data, scale, zero = operator.inputs
    dtype = graph.dtypes[operator.outputs[0]]
    names = ("quotient", "whole", "shift", "shifted", "bounded")
    quotient, whole, shift, shifted, bounded = (graph.declare(graph.fresh(name), "float32") for name in names)
    limits = np.iinfo(dtype)
    bounds = (graph.constant(np.asarray(limit, "float32")) for limit in (limits.min, limits.max))
    return (
        Operator("Div", (data, scale), (quotient,), {}),
        Operator("Round", (quotient,), (whole,), {}),
        Operator("Cast", (zero,), (shift,), {"to": "float32"}),
        Operator("Add", (whole, shift), (shifted,), {}),
        Operator("Clip", (shifted, *bounds), (bounded,), {}),
        Operator("Cast", (bounded,), operator.outputs, {"to": dtype}),
    )


def _has_known_steps(graph: Graph, sources: ValueSources, scale: str) -> bool:
    """Whether a scale is constant, and the limits of the FakeQuantize are finite."""
    if scale not in sources.constants:
        return False
    return bool((np.abs(graph.constants.get(scale, 0.0)) <= _LARGEST_STEP).all())


def _joins_scales(graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether a reduction or pooling joins columns of a product, or is one of lines behind a convolution."""
    is_reshaped = False
    for maker in computed_of(sources, operator.inputs[0]):
        if maker.kind in PRODUCTS:
            return True
        is_reshaped |= maker.kind in VIEWS
        is_of_lines = maker.kind in CONVOLUTIONS and (
            is_reshaped or _kernel_axes(graph, sources, maker) in (None, 3)
        )
        if is_of_lines and operator.kind not in _WINDOWS:
            return True
        if maker.kind == "DequantizeLinear" and operator.kind.startswith(("AveragePool", "Reduce")):
            return True
        if maker.kind in LINEAR and _counts_padding(operator):
            return True
    return False


def _counts_padding(operator: Operator) -> bool:
    """Whether padding, which is 0 and no linear function of it, counts in the means of windows."""
    pads = expect(list, operator.attrs.get("pads", []))
    return operator.kind == "AveragePool" and bool(operator.attrs.get("count_include_pad")) and any(pads)


def _kernel_axes(graph: Graph, sources: ValueSources, convolution: Operator) -> int | None:
    """The number of axes of a kernel; None if it is computed."""
    shape = kernel_shape(graph, sources, convolution)
    return None if shape is None else len(shape)


def _apart_from_planes(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution of one channel of volumes reads a copy of bytes, and is one of floats."""
    maker = sources.makers.get(operator.inputs[0]) if operator.kind == "Conv" else None
    if maker is None or maker.kind != "DequantizeLinear":
        return (operator,)
    shape = kernel_shape(graph, sources, operator)
    is_of_one = shape is not None and len(shape) == 5 and shape[1] == 1
    return reading_a_copy(graph, operator, operator.inputs[0]) if is_of_one else (operator,)


def _apart_from_bounds(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a clip reads a copy of linear functions of what was bytes."""
    if operator.kind != "Clip":
        return (operator,)
    maker = sources.makers.get(behind(sources, operator.inputs[0], LINEAR | VIEWS | {"Neg", "Transpose"}))
    if maker is None or maker.kind != "DequantizeLinear" or sources.constants.issuperset(maker.outputs):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


def _is_multiple(sources: ValueSources, operator: Operator) -> bool:
    """Whether an operator is a linear function, with constants, of a convolution or product."""
    while operator.kind in LINEAR | {"BatchNormalization", "Cast", "Neg"}:
        data = {each for each in operator.inputs if each not in sources.constants}
        if len(data) != 1 or data.isdisjoint(sources.makers):
            return False
        operator = sources.makers[data.pop()]
    return operator.kind in OF_BYTES


SCALE_REPAIRS: tuple[Repair, ...] = (_apart_from_bytes, _apart_from_norms)
"""Those in front of the repairs of any model."""

FACTOR_REPAIRS: tuple[Repair, ...] = (
    _of_constants,
    _apart_from_readers,
    _in_parts,
    _unrounded,
    _apart_from_rows,
    _apart_from_planes,
    _apart_from_bounds,
)
"""Those behind them."""
