"""Repairs of quantized models; those of joined bytes are in `joined_bytes.py`.

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

A quantization is fused with a factor in front of it, also across a permutation or a clip. If a number of the
factor is negative, and behind a permutation or a clip, all but the first are forgotten:

    y = QuantizeLinear(Mul(x, [1, -2]), 0.5, 0)        QuantizeLinear(Mul(x, [1, 1]), 0.5, 0)
    m = Mul(x, [1, -2]), y = QuantizeLinear(Max(m, m), 0.5, 0)        right
    m = Transpose(Mul(x, [1, 2])), y = QuantizeLinear(Max(m, m), 0.5, 0)        right

A convolution of bytes with one channel is wrong if its single plane is padded:

    y = Conv(DequantizeLinear(x), w)        wrong, if x is (3, 1, 1, 2, 4), and there are planes of padding
    d = DequantizeLinear(x), y = Conv(Max(d, d), w)        right

Bytes that are joined with others of another zero point, and quantized for several readers, are passed on as
they are:

    q = QuantizeLinear(Concat(DequantizeLinear(x, s, 0), DequantizeLinear(y, s, 128)), s, 0)
                                                                  wrong, if q and its numbers are results
    c = Concat(...), q = QuantizeLinear(Max(c, c), s, 0)        right

The bounds of a clip are moved in front of the quantization, also over factors and summands; there they are
a quantum narrower:

    y = Clip(DequantizeLinear(QuantizeLinear(x, 0.1, 3), 0.1, 3), -0.5, 0.5)        -0.4 for -2
    d = DequantizeLinear(...), y = Clip(Max(d, d), -0.5, 0.5)        -0.5

If the bounds of a clip are beyond the numbers that bytes stand for, it is lost:

    y = QuantizeLinear(Clip(x, -1, -0.5), 0.1, 0)        30 for 3, to uint8 behind a convolution; 0 is right
    c = Clip(x, -1, -0.5), y = QuantizeLinear(Max(c, c), 0.1, 0)        0

A line of symbolic length that a constant gives an axis has no elements, if it is quantized:

    y = DequantizeLinear(QuantizeLinear(Add(Reshape(x, [-1]), [[1]])))        of shape (0,)
    a = Add(Reshape(x, [-1]), [[1]]), y = DequantizeLinear(QuantizeLinear(Max(a, a)))        right

The compilation of a quantized model ends the process if what was joined and quantized is quantized once more,
maybe times a constant:

    d = DequantizeLinear(QuantizeLinear(Concat(x, y))), q = QuantizeLinear(d)        a segmentation fault
    d = ..., q = QuantizeLinear(Max(d, d))        right

And if the difference from a constant is gathered:

    y = Gather(Sub(c, x), [0, 2])        a segmentation fault
    m = Sub(c, x), y = Gather(Max(m, m), [0, 2])        right
"""

from __future__ import annotations

import math

import numpy as np

from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnx_emitter.copies import is_copy
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
    chain_of,
    computed_of,
    holds_several,
    is_product,
    kernel_shape,
    read_as_a_copy,
    reading_a_copy,
    shape_of,
)

__all__ = ["FACTOR_REPAIRS", "SCALE_REPAIRS"]

# Of a quantization whose limits, 255 steps apart, are finite.
_LARGEST_STEP = float(np.finfo("float32").max) / 256
_FACTORS = frozenset(("BatchNormalization", "Div", "InstanceNormalization", "LayerNormalization", "Mul"))
# Operators that are not fused with a product as a function of its result is.
_MOVING = frozenset(
    (
        "AveragePool", "Concat", "Expand", "Gather", "MaxPool", "Pad", "Reshape", "Resize", "Slice", "Split",
        "Squeeze", "Tile", "Transpose", "Unsqueeze",
    )
)  # fmt: skip
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


def _apart_from_signs(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization reads a copy of what a factor is part of that OpenVINO misreads."""
    if operator.kind != "QuantizeLinear" or not _has_misread_factor(graph, sources, operator.inputs[0]):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


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


def _has_misread_factor(graph: Graph, sources: ValueSources, name: str) -> bool:
    """Whether a value has a factor that OpenVINO misreads when it quantizes the value.

    These are factors with a negative number; and, unless functions alone are between the value and a product,
    factors of several numbers, and scales of a product by channels in front of a clip.
    """
    is_pending = False
    is_moved = False
    while name in sources.makers and not is_copy(sources.makers[name]):
        operator = sources.makers[name]
        if operator.kind in OF_BYTES:
            return is_pending and is_moved
        factors = [each for each in operator.inputs if each in sources.constants]
        data = {each for each in operator.inputs if each not in factors}
        if operator.kind == "Neg" or (operator.kind == "Sub" and operator.inputs[0] in factors):
            return True
        if operator.kind in _FACTORS:
            at = factors if operator.kind in ("Div", "Mul") else operator.inputs[1:2]
            if any(_is_negative(graph, each) for each in at):
                return True
            if operator.kind in ("Div", "Mul"):
                is_pending |= any(holds_several(graph, each) for each in at)
        is_pending |= operator.kind == "Clip"
        is_moved |= operator.kind in _MOVING
        if len(data) != 1:
            break
        (name,) = data
    return is_pending


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
    return False


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


def _apart_from_zeros(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization reads a copy of joined numbers that had different zero points."""
    if operator.kind != "QuantizeLinear":
        return (operator,)
    join = _behind_views(sources, operator.inputs[0])
    if join is None or join.kind != "Concat":
        return (operator,)
    makers = [_behind_views(sources, each) for each in join.inputs]
    zeros = {each.inputs[2] for each in makers if each is not None and each.kind == "DequantizeLinear"}
    return reading_a_copy(graph, operator, operator.inputs[0]) if len(zeros) > 1 else (operator,)


def _apart_from_joins(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization reads a copy of what was joined and quantized before."""
    if operator.kind != "QuantizeLinear":
        return (operator,)
    scaled = behind(sources, operator.inputs[0], LINEAR | VIEWS | {"Identity"})
    quantized = sources.makers.get(behind(sources, scaled, {"DequantizeLinear"}))
    if quantized is None or quantized.kind != "QuantizeLinear":
        return (operator,)
    join = sources.makers.get(behind(sources, quantized.inputs[0], VIEWS))
    is_joined = join is not None and join.kind == "Concat"
    return reading_a_copy(graph, operator, operator.inputs[0]) if is_joined else (operator,)


def _apart_from_bounds(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a clip reads a copy of linear functions of what was bytes."""
    if operator.kind != "Clip":
        return (operator,)
    maker = sources.makers.get(behind(sources, operator.inputs[0], LINEAR | VIEWS | {"Neg", "Transpose"}))
    if maker is None or maker.kind != "DequantizeLinear" or sources.constants.issuperset(maker.outputs):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


def _apart_from_limits(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization reads a copy of what a clip keeps away from the range of its bytes."""
    if operator.kind != "QuantizeLinear":
        return (operator,)
    data, *parameters = operator.inputs
    clip = sources.makers.get(data)
    if clip is None or clip.kind != "Clip":
        return (operator,)
    held = [graph.constants.get(each) for each in (*clip.inputs[1:], *parameters)]
    if all(each is not None and each.size == 1 for each in held):
        low, high, scale, zero = (float(np.asarray(each).reshape(())) for each in held)
        range_ = np.iinfo(graph.dtypes[operator.outputs[0]])
        ends = (scale * (range_.min - zero), scale * (range_.max - zero))
        if low < max(ends) and high > min(ends):
            return (operator,)
    return reading_a_copy(graph, operator, data)


def _apart_from_axes(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization reads a copy of a view that a constant may have given further axes."""
    if operator.kind != "QuantizeLinear":
        return (operator,)
    may_rise = False
    for maker in chain_of(sources, operator.inputs[0]):
        if may_rise and maker.kind in VIEWS:
            return reading_a_copy(graph, operator, operator.inputs[0])
        if maker.kind in OF_BYTES:
            break
        shapes = (shape_of(graph, each) for each in maker.inputs if each in sources.constants)
        may_rise |= any(shape is None or len(shape) > 1 for shape in shapes)
    return (operator,)


def _behind_views(sources: ValueSources, name: str) -> Operator | None:
    """The operator that makes what a value is a view or a permutation of; None of inputs and constants."""
    return sources.makers.get(behind(sources, name, VIEWS | {"Transpose"}))


def _is_multiple(sources: ValueSources, operator: Operator) -> bool:
    """Whether an operator is a linear function, with constants, of a convolution or product."""
    while operator.kind in LINEAR | {"BatchNormalization", "Cast", "Neg"}:
        data = {each for each in operator.inputs if each not in sources.constants}
        if len(data) != 1 or data.isdisjoint(sources.makers):
            return False
        operator = sources.makers[data.pop()]
    return operator.kind in OF_BYTES


def _is_negative(graph: Graph, constant: str) -> bool:
    """Whether a constant holds a negative number, or is computed."""
    held = graph.constants.get(constant)
    if held is None and constant in graph.weights:
        held = array_of(graph.weights[constant])
    return held is None or bool((held < 0).any())


SCALE_REPAIRS: tuple[Repair, ...] = (_apart_from_bytes, _apart_from_norms)
"""Those in front of the repairs of any model."""

FACTOR_REPAIRS: tuple[Repair, ...] = (
    _of_constants,
    _apart_from_readers,
    _in_parts,
    _unrounded,
    _apart_from_signs,
    _apart_from_rows,
    _apart_from_planes,
    _apart_from_zeros,
    _apart_from_joins,
    _apart_from_bounds,
    _apart_from_limits,
    _apart_from_axes,
)
"""Those behind them."""
