"""Copies, and operators in parts, that prevent wrong results of OpenVINO 2026.4.

A result that is a view of a value with another reader shares its memory, and is overwritten:

    e = Exp(x), r = Reshape(e), y = Conv(Transpose(e))        results r and y: y is wrong
    e = Exp(x), v = Reshape(e), r = Max(v, v), y = ...        right

A factor of a convolution's input is folded into the kernel, even if it varies along the rows or columns:

    m = Mul(x, [2, 0.5]), y = Conv(m, w)        wrong, if w is two wide
    m = Mul(x, [2, 0.5]), c = Max(m, m), y = Conv(c, w)        right

A convolution of one channel with strides between columns is computed in the first row only, if its result has
a single column, on processors with AVX-512 (not with AVX2):

    y = Conv(x, w)        wrong, if x is (1, 1, 4, 2), w is (32, 1, 2, 2), and the strides are (1, 3)
    y = Conv(Pad(x), Pad(w))        right, with a second channel of zeros

A matrix product without summands is fused with a function behind it: the result is not written, and the
process ends in the next call:

    y = Relu(MatMul(a, b))        wrong, if a is (2, n), b is (n, 2), and n is 0
    m = MatMul(a, b), y = Relu(Max(m, m))        0

A constant that is combined with a product is assumed to vary along the columns. The result is wrong if it
varies along the second of four axes (an error if that axis and the columns differ in length); and of a
constant with two columns the plugin may read only one:

    m = MatMul(x, w), y = Add(m, c)        wrong, if m is (1, 3, 2, 3) and c is (3, 1, 1)
    m = MatMul(a, b), y = Div(m, c)        wrong, if m is (1, 2) and c is (2,)
    m = MatMul(a, b), n = Max(m, m), y = Div(n, c)        right

In quantized models scales are moved behind the readers of the 8-bit values. A scale that is moved behind a
convolution or product with several readers is lost, or applied twice, for some of them; one before a
normalization is moved behind it as if epsilon were zero:

    c = Conv(DequantizeLinear(x), w), r = Relu(c), results c and r        r is wrong
    c = Conv(DequantizeLinear(x), w), d = Max(c, c), r = Relu(d), results d and r        right
    y = InstanceNormalization(DequantizeLinear(x))        wrong, if the variance is near epsilon
    m = ReduceMean(DequantizeLinear(x)), ...        the same, where the normalization is written out

One with a number for each channel is moved behind what joins the channels of a product, and behind a
reduction along the last of three axes, where it is lost for all images but the first. A factor of a product
of 8 bits that varies along rows and columns is taken for one number a column:

    p = AveragePool(MatMul(DequantizeLinear(x), w))        wrong
    p = ReduceSum(Conv(DequantizeLinear(x), w))        wrong, if w has three axes
    c = Conv(DequantizeLinear(x), w), p = ReduceSum(Max(c, c))        right
    p = Mul(MatMul(DequantizeLinear(x), w), c)        wrong, if c is (2, 3)

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

A permutation that moves only an axis of extent 1 is lost behind a reduction that removes an axis, so that
its reader broadcasts it otherwise:

    y = Add(Transpose(ReduceMean(x)), c)        (3, 3), if the mean is (3, 1) and c is (1, 3)
    m = ReduceMean(x), y = Add(Transpose(Max(m, m)), c)        right

A function of a reduction along the last of three axes, or of a global pool of lines, is fused with it; if its
constant varies along the channels, the result is not written for batches of more than one. So it is if there
is one channel, and the function a division:

    y = Add(ReduceMean(x), c)        wrong, if x is (2, 3, 8) and c is (3,)
    y = Div(ReduceMean(x), 2)        wrong, if x is (2, 1, 8)
    m = ReduceMean(x), y = Add(Max(m, m), c)        right

A quantization is fused with a factor in front of it, also across a permutation or a clip. If a number of the
factor is negative, and behind a permutation or a clip, all but the first are forgotten:

    y = QuantizeLinear(Mul(x, [1, -2]), 0.5, 0)        QuantizeLinear(Mul(x, [1, 1]), 0.5, 0)
    m = Mul(x, [1, -2]), y = QuantizeLinear(Max(m, m), 0.5, 0)        right
    m = Transpose(Mul(x, [1, 2])), y = QuantizeLinear(Max(m, m), 0.5, 0)        right

The compilation of a quantized model ends the process if the difference from a constant is gathered:

    y = Gather(Sub(c, x), [0, 2])        a segmentation fault
    m = Sub(c, x), y = Gather(Max(m, m), [0, 2])        right

A test for infinity that is fused with an element-wise function in front of it finds none:

    y = IsInf(Exp([inf, 1]))        [0, 0]
    y = Equal(Abs(Exp([inf, 1])), inf)        [1, 0]

The maximum of nothing but -inf is the lowest finite number; minima, and windows, alike. See `lowest_numbers`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnx_emitter.copies import copied, copy_output
from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.onnx_emitter.lowest_numbers import of_halves, with_infinities
from annotated_region.tvm_adapter.types import expect

__all__ = ["repair"]

_VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze"))
# The operators that OpenVINO merges into one factor and one summand.
_LINEAR = frozenset(("Add", "Div", "Mul", "Sub"))
# Operators that may stand between these and a convolution: they are fused into either, or removed.
_BETWEEN = frozenset(
    ("BatchNormalization", "Cast", "Identity", "Neg", "Pad", "Reshape", "Squeeze", "Unsqueeze")
)
_PRODUCTS = frozenset(("Einsum", "Gemm", "MatMul"))
# Operators with constant operands that the plugin may fuse with a product.
_BEHIND = _LINEAR | {"Max", "Min", "PRelu", "Pow"}
_QUANTIZED = frozenset(("DequantizeLinear", "QuantizeLinear"))
# Of a quantization whose limits, 255 steps apart, are finite.
_LARGEST_STEP = float(np.finfo("float32").max) / 256
# Functions that the plugin may fuse with a reduction, with a number for each channel.
_BY_CHANNELS = _BEHIND | {"BatchNormalization"}
_POOLS = frozenset(("GlobalAveragePool", "GlobalMaxPool"))
_FACTORS = frozenset(("BatchNormalization", "Div", "InstanceNormalization", "LayerNormalization", "Mul"))
# Operators that are not fused with a product as a function of its result is.
_MOVING = frozenset(
    (
        "AveragePool", "Concat", "Expand", "Gather", "MaxPool", "Pad", "Reshape", "Resize", "Slice", "Split",
        "Squeeze", "Tile", "Transpose", "Unsqueeze",
    )
)  # fmt: skip
_EXTREMES = frozenset(("ReduceMax", "ReduceMin"))
_CONVOLUTIONS = frozenset(("Conv", "ConvTranspose"))
_OF_BYTES = _PRODUCTS | _CONVOLUTIONS
_WINDOWS = frozenset(("AveragePool", "MaxPool", "Resize"))
_POOLINGS = _POOLS | _WINDOWS
# With a mean of its own, a normalization that is written out is not recognized as one.
_NORMS = frozenset(("InstanceNormalization", "LayerNormalization", "ReduceMean"))


@dataclass(frozen=True, slots=True)
class _Sources:
    """The operator that makes each value, and the values that are computed from constants alone."""

    makers: Mapping[str, Operator]
    constants: frozenset[str]

    @staticmethod
    def of(graph: Graph) -> _Sources:
        """Those of a graph, whose operators are in topological order."""
        constants = {*graph.constants, *graph.weights, ""}
        for each in graph.operators:
            if constants.issuperset(each.inputs):
                constants.update(each.outputs)
        makers = {name: each for each in graph.operators for name in each.outputs}
        return _Sources(makers, frozenset(constants))


def repair(graph: Graph) -> None:
    """Insert copies and write operators in parts where OpenVINO needs it; the graph computes the same."""
    with_infinities(graph)
    sources = _Sources.of(graph)
    for port in graph.outputs:
        if _is_shared_view(graph, sources, port.name):
            copy_output(graph, port, f"{port.name}_view")
    is_quantized = any(each.kind in _QUANTIZED for each in graph.operators)
    scales = (_apart_from_bytes, _apart_from_norms)
    factors = (_of_constants, _apart_from_readers, _in_parts, _unrounded, _apart_from_signs, _apart_from_rows)
    apart = (_apart_from_factors, _apart_from_products, _apart_from_reductions, _apart_from_channels)
    parts = (_of_halves, _by_comparison, *apart, _written, _with_two_channels)
    for part in (*scales, *parts, *factors) if is_quantized else parts:
        graph.operators = [each for operator in graph.operators for each in part(graph, sources, operator)]


def _is_shared_view(graph: Graph, sources: _Sources, name: str) -> bool:
    """Whether a value is a view, directly or through other views, of a value with another reader."""
    makers = sources.makers
    while name in makers and makers[name].kind in _VIEWS:
        name = makers[name].inputs[0]
        if sum(name in each.inputs for each in graph.operators) > 1:
            return True
    return False


def _apart_from_factors(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution reads a copy of scaled data."""
    if operator.kind != "Conv" or not _is_scaled(graph, sources, operator.inputs[0]):
        return (operator,)
    return _reading_a_copy(graph, operator, operator.inputs[0])


def _apart_from_products(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; one with a constant that OpenVINO misplaces reads a copy of the product."""
    if operator.kind not in _BEHIND:
        return (operator,)
    constants = [each for each in operator.inputs if each in sources.constants]
    data = [each for each in operator.inputs if each not in constants]
    if len(data) != 1 or not any(_is_misplaced(graph, each) for each in constants):
        return (operator,)
    return _reading_a_copy(graph, operator, *data) if _is_product(sources, *data) else (operator,)


def _apart_from_readers(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; if it is a product, or a multiple of one, several readers read a copy."""
    if operator.kind not in _OF_BYTES and not _is_multiple(sources, operator):
        return (operator,)
    (name,) = operator.outputs
    readers = sum(name in each.inputs for each in graph.operators)
    readers += sum(port.name == name for port in graph.outputs)
    return (operator,) if readers < 2 else _read_as_a_copy(graph, operator)


def _apart_from_reductions(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a permutation reads a copy of what a reduction makes that removes axes."""
    maker = sources.makers.get(operator.inputs[0]) if operator.kind == "Transpose" else None
    if maker is None or not maker.kind.startswith("Reduce") or maker.attrs.get("keepdims", 1):
        return (operator,)
    return _reading_a_copy(graph, operator, operator.inputs[0])


def _apart_from_channels(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a function with several numbers reads a copy of what is computed from a reduction."""
    if operator.kind not in _BY_CHANNELS:
        return (operator,)
    constants = [each for each in operator.inputs if each in sources.constants]
    data = [each for each in operator.inputs if each not in constants]
    is_varied = operator.kind == "Div" or any(_holds_several(graph, each) for each in constants)
    if len(data) != 1 or not is_varied or not _is_reduced(sources, *data):
        return (operator,)
    return _reading_a_copy(graph, operator, *data)


def _apart_from_signs(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization reads a copy of what a factor is part of that OpenVINO misreads."""
    if operator.kind != "QuantizeLinear" or not _has_misread_factor(graph, sources, operator.inputs[0]):
        return (operator,)
    return _reading_a_copy(graph, operator, operator.inputs[0])


def _of_constants(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a product of constants alone reads copies of the factors that are computed."""
    if operator.kind not in _PRODUCTS or not sources.constants.issuperset(operator.inputs):
        return (operator,)
    copies: list[Operator] = []
    for name in dict.fromkeys(operator.inputs):
        if name in sources.makers:
            copy, operator = _reading_a_copy(graph, operator, name)
            copies.append(copy)
    return (*copies, operator)


def _written(graph: Graph, _sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of a matrix product that may have no summands read a copy."""
    if operator.kind != "MatMul" or not graph.open_sums.intersection(operator.outputs):
        return (operator,)
    return _read_as_a_copy(graph, operator)


def _with_two_channels(graph: Graph, _sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution of one channel whose result may have a single column gets one of zeros."""
    if operator.kind != "Conv" or not graph.single_columns.intersection(operator.outputs):
        return (operator,)
    axes = len(expect(list, operator.attrs["strides"])) + 2
    pads = graph.constant(np.eye(1, 2 * axes, axes + 1, dtype="int64").reshape(-1))
    padded = [graph.declare(graph.fresh("padded"), graph.dtypes[name]) for name in operator.inputs]
    return (
        *(
            Operator("Pad", (name, pads), (wide,), {})
            for name, wide in zip(operator.inputs, padded, strict=True)
        ),
        Operator("Conv", tuple(padded), operator.outputs, operator.attrs),
    )


def _unrounded(graph: Graph, _sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of an extreme read a copy."""
    return _read_as_a_copy(graph, operator) if operator.kind in _EXTREMES else (operator,)


def _apart_from_norms(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a normalization, or what joins the channels of a product, reads a copy of its data."""
    is_joining = operator.kind in _POOLINGS or operator.kind.startswith("Reduce")
    if operator.kind in _NORMS or (is_joining and _joins_scales(graph, sources, operator)):
        return _reading_a_copy(graph, operator, operator.inputs[0])
    return (operator,)


def _apart_from_bytes(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of numbers with a scale for each channel read a copy, and such a scale does.

    Scales for each channel are those of kernels and factors; those of data are rare.
    """
    if operator.kind == "DequantizeLinear":
        is_by_channels = _holds_several(graph, operator.inputs[1])
        is_constant = sources.constants.issuperset(operator.inputs)
        return _read_as_a_copy(graph, operator) if is_by_channels and not is_constant else (operator,)
    if operator.kind not in _LINEAR | {"BatchNormalization", "PRelu"}:
        return (operator,)
    constants = [each for each in operator.inputs if each in sources.constants]
    data = [each for each in operator.inputs if each not in constants]
    if operator.kind == "Sub" and data == [operator.inputs[1]]:
        return _read_as_a_copy(graph, operator)
    shapes = [_shape(graph, each) for each in constants]
    is_bias = operator.kind in ("Add", "Sub") and all(
        shape is not None and math.prod(shape[:-1]) == 1 for shape in shapes
    )
    if len(data) != 1 or is_bias or not any(_holds_several(graph, each) for each in constants):
        return (operator,)
    is_of_bytes = any(each.kind == "DequantizeLinear" for each in _computed_of(sources, *data))
    return _reading_a_copy(graph, operator, *data) if is_of_bytes else (operator,)


def _apart_from_rows(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a factor that varies along rows and columns is multiplied by a copy of a product."""
    if operator.kind not in ("BatchNormalization", "Div", "Mul"):
        return (operator,)
    shapes = [_shape(graph, each) for each in operator.inputs if each in sources.constants]
    data = [each for each in operator.inputs if each not in sources.constants]
    if len(data) != 1:
        return (operator,)
    is_number = all(shape is not None and math.prod(shape) == 1 for shape in shapes)
    is_by_columns = all(shape is not None and math.prod(shape[:-1]) == 1 for shape in shapes)
    is_direct = data[0] in sources.makers and sources.makers[data[0]].kind in _PRODUCTS
    if is_number or (is_by_columns and is_direct and operator.kind != "BatchNormalization"):
        return (operator,)
    return _reading_a_copy(graph, operator, *data) if _is_product(sources, *data) else (operator,)


def _of_halves(graph: Graph, _sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; the double of an extreme of halves."""
    return of_halves(graph, operator) if operator.kind in _EXTREMES else (operator,)


def _by_comparison(graph: Graph, _sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a test for infinity as a comparison."""
    if operator.kind != "IsInf":
        return (operator,)
    (data,) = operator.inputs
    infinity = graph.constant(np.asarray(np.inf, graph.dtypes[data]))
    size = graph.declare(graph.fresh("size"), graph.dtypes[data])
    return Operator("Abs", (data,), (size,), {}), Operator("Equal", (size, infinity), operator.outputs, {})


def _in_parts(graph: Graph, sources: _Sources, operator: Operator) -> tuple[Operator, ...]:
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


def _has_known_steps(graph: Graph, sources: _Sources, scale: str) -> bool:
    """Whether a scale is constant, and the limits of the FakeQuantize are finite."""
    if scale not in sources.constants:
        return False
    return bool((np.abs(graph.constants.get(scale, 0.0)) <= _LARGEST_STEP).all())


def _reading_a_copy(graph: Graph, operator: Operator, data: str) -> tuple[Operator, ...]:
    """A copy of a value, and the operator that reads the copy instead."""
    copy = graph.declare(graph.fresh("copied"), graph.dtypes[data])
    inputs = tuple(copy if each == data else each for each in operator.inputs)
    return copied(graph, data, copy), Operator(operator.kind, inputs, operator.outputs, operator.attrs)


def _read_as_a_copy(graph: Graph, operator: Operator) -> tuple[Operator, ...]:
    """The operator, and a copy of its result under the name of the result."""
    (name,) = operator.outputs
    made = graph.declare(graph.fresh("made"), graph.dtypes[name])
    return Operator(operator.kind, operator.inputs, (made,), operator.attrs), copied(graph, made, name)


def _is_misplaced(graph: Graph, constant: str) -> bool:
    """Whether a constant has two columns, or varies along other axes only."""
    shape = _shape(graph, constant)
    if shape is None:
        return True
    return shape[-1:] == (2,) or (shape[-1:] == (1,) and any(extent != 1 for extent in shape))


def _holds_several(graph: Graph, constant: str) -> bool:
    """Whether a constant holds several numbers, or is computed."""
    shape = _shape(graph, constant)
    return shape is None or math.prod(shape) > 1


def _shape(graph: Graph, constant: str) -> tuple[int, ...] | None:
    """The shape of a constant; None of a computed value."""
    held = graph.constants.get(constant, graph.weights.get(constant))
    return None if held is None else tuple(int(extent) for extent in held.shape)


def _is_product(sources: _Sources, name: str) -> bool:
    """Whether a value is a product, or computed from a product and constants."""
    while name in sources.makers:
        operator = sources.makers[name]
        if operator.kind in _PRODUCTS:
            return True
        data = {each for each in operator.inputs if each not in sources.constants}
        if len(data) != 1:
            return False
        (name,) = data
    return False


def _is_reduced(sources: _Sources, name: str) -> bool:
    """Whether a value is a reduction or a global pool, or computed from one and constants by functions."""
    while name in sources.makers:
        operator = sources.makers[name]
        if operator.kind.startswith("Reduce") or operator.kind in _POOLS:
            return True
        data = {each for each in operator.inputs if each not in sources.constants}
        if len(data) != 1 or operator.kind in _OF_BYTES:
            return False
        (name,) = data
    return False


def _has_misread_factor(graph: Graph, sources: _Sources, name: str) -> bool:
    """Whether a value has a factor that OpenVINO misreads when it quantizes the value.

    These are factors with a negative number; and, unless functions alone are between the value and a product,
    factors of several numbers, and scales of a product by channels in front of a clip.
    """
    is_pending = False
    is_moved = False
    while name in sources.makers:
        operator = sources.makers[name]
        if operator.kind in _OF_BYTES:
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
                is_pending |= any(_holds_several(graph, each) for each in at)
        is_pending |= operator.kind == "Clip"
        is_moved |= operator.kind in _MOVING
        if len(data) != 1:
            break
        (name,) = data
    return is_pending


def _joins_scales(graph: Graph, sources: _Sources, operator: Operator) -> bool:
    """Whether a reduction or pooling joins columns of a product, or is one of lines behind a convolution."""
    is_reshaped = False
    for maker in _computed_of(sources, operator.inputs[0]):
        if maker.kind in _PRODUCTS:
            return True
        is_reshaped |= maker.kind in _VIEWS
        is_of_lines = maker.kind in _CONVOLUTIONS and (
            is_reshaped or _kernel_axes(graph, sources, maker) in (None, 3)
        )
        if is_of_lines and operator.kind not in _WINDOWS:
            return True
        if maker.kind == "DequantizeLinear" and operator.kind.startswith("Reduce"):
            return True
    return False


def _computed_of(sources: _Sources, name: str) -> Iterator[Operator]:
    """The operators that a value is computed by, back to products and 8-bit values, and those included."""
    seen = {name}
    waiting = [name]
    while waiting:
        maker = sources.makers.get(waiting.pop())
        if maker is None:
            continue
        yield maker
        if maker.kind not in _OF_BYTES | _QUANTIZED:
            further = [each for each in maker.inputs if each not in seen | sources.constants]
            seen.update(further)
            waiting.extend(further)


def _kernel_axes(graph: Graph, sources: _Sources, convolution: Operator) -> int | None:
    """The number of axes of a kernel; None if it is computed."""
    name = convolution.inputs[1]
    if name in sources.makers and sources.makers[name].kind == "DequantizeLinear":
        name = sources.makers[name].inputs[0]
    shape = _shape(graph, name)
    return None if shape is None else len(shape)


def _is_multiple(sources: _Sources, operator: Operator) -> bool:
    """Whether an operator is a linear function, with constants, of a convolution or product."""
    while operator.kind in _LINEAR | {"BatchNormalization", "Cast", "Neg"}:
        data = {each for each in operator.inputs if each not in sources.constants}
        if len(data) != 1 or data.isdisjoint(sources.makers):
            return False
        operator = sources.makers[data.pop()]
    return operator.kind in _OF_BYTES


def _is_negative(graph: Graph, constant: str) -> bool:
    """Whether a constant holds a negative number, or is computed."""
    held = graph.constants.get(constant)
    if held is None and constant in graph.weights:
        held = array_of(graph.weights[constant])
    return held is None or bool((held < 0).any())


def _is_scaled(graph: Graph, sources: _Sources, name: str) -> bool:
    """Whether a value is a linear function of another value, with constants of several elements."""
    while name in sources.makers:
        operator = sources.makers[name]
        if operator.kind in _BETWEEN:
            name = operator.inputs[0]
            continue
        if operator.kind not in _LINEAR:
            return operator.kind == "LayerNormalization"  # it ends with a factor and a summand
        constant, *others = sorted(operator.inputs, key=lambda each: each not in sources.constants)
        if constant not in sources.constants:
            return False
        if constant not in graph.constants or graph.constants[constant].size != 1:
            return True
        (name,) = others
    return False
