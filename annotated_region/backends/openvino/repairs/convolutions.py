"""Repairs of convolutions of floats.

A factor of a convolution's input is folded into the kernel, even if it varies along the rows or columns.
One for each channel is folded rightly, and needs no copy:

    m = Mul(x, [2, 0.5]), y = Conv(m, w)        wrong, if w is two wide
    m = Mul(x, [2, 0.5]), c = Max(m, m), y = Conv(c, w)        right

A difference from a convolution of each channel by itself is fused with it; of symbolic extents, and one pixel
of one image, it is wrong if a function with a constant for each channel is behind:

    y = Mul(Sub(Conv(x, w), x), c)        wrong, if x is (n, 8, 1, 1), and n is 1
    v = Conv(x, w), y = Mul(Sub(Max(v, v), x), c)        right
    y = Sub(Conv(x, w), x)        wrong, if x is (n, 1, 2, 1), and w is computed

An image of one channel that a transposed convolution makes is expanded along a new axis as if it were
another one:

    y = Expand(ConvTranspose(x, w), [1, 2, 1, 7, 2])        wrong, if the convolution is (1, 1, 7, 2)
    c = ConvTranspose(x, w), y = Expand(Max(c, c), [1, 2, 1, 7, 2])        right

A sum with a convolution of one to three channels that is no dot product of pixels is fused with it, and may
be the other operand alone, most often of symbolic extents:

    y = Add(Conv(x, w), z)        z, if x is (n, 1, 4, 4), and w is (2, 1, 2, 2)
    c = Conv(x, w), y = Add(Max(c, c), z)        right
    y = BatchNormalization(Conv(x, w), ...)        the same of any channels, if its parameters are computed

A sum with a convolution, and with one image for any number of them, is computed in the memory of its result;
if there are no images, the other operand is written there nevertheless, and destroys what lies behind:

    y = Add(Conv(x, w), z)        crashes later, if x is (0, 8, 4, 4), and z is (1, 8, 4, 4)
    c = Conv(x, w), y = Add(Max(c, c), z)        right

A permutation in front of a convolution becomes an order of axes in memory; that memory is given to others too
early, if a view shares it:

    e = Exp(x), y = Conv(Transpose(e)), u = Unsqueeze(e), z = ReduceSum(u)        y is wrong
    e = Exp(x), y = Conv(Transpose(Max(e, e))), u = Unsqueeze(e), z = ReduceSum(u)        right
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    CONVOLUTIONS,
    LINEAR,
    VIEWS,
    Repair,
    ValueSources,
    kernel_shape,
    reading_a_copy,
    shape_of,
    source_of,
    stems_from,
)
from annotated_region.tvm_adapter.types import expect

__all__ = ["CONVOLUTION_REPAIRS"]

# Operators that may stand between a factor and a convolution: they are fused into either, or removed.
_BETWEEN = frozenset(
    ("BatchNormalization", "Cast", "Identity", "Neg", "Pad", "Reshape", "Squeeze", "Unsqueeze")
)
# Input channels of convolutions that compute sums wrongly; of four and more, 1 000 drawn ones were right.
_FEW = 3


def _apart_from_factors(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a convolution reads a copy of data whose scale may vary along the rows or columns."""
    if operator.kind != "Conv":
        return (operator,)
    pixel_axes = len(expect(list, operator.attrs["strides"]))
    if not _is_scaled_by_pixels(graph, sources, operator.inputs[0], pixel_axes):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


def _apart_from_pixels(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a difference reads a copy of what is computed from a convolution to one pixel, or of the
    other operand.
    """
    if operator.kind != "Sub" or sources.constants.intersection(operator.inputs):
        return (operator,)
    minuend, subtrahend = operator.inputs

    def is_fused(maker: Operator) -> bool:
        is_of_other = maker.kind == "Conv" and maker.inputs[0] == subtrahend
        is_of_pixel = maker.outputs[0] in graph.single_pixels
        return is_of_other or (is_of_pixel and _is_of_single_channels(graph, sources, maker))

    return reading_a_copy(graph, operator, minuend) if stems_from(sources, minuend, is_fused) else (operator,)


def _is_of_single_channels(graph: Graph, sources: ValueSources, convolution: Operator) -> bool:
    """Whether a convolution may be one of each channel by itself."""
    shape = kernel_shape(graph, sources, convolution)
    return convolution.attrs["group"] != 1 and (shape is None or shape[1] == 1)


def _apart_from_sums(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a sum reads copies of what is computed from a convolution of few channels, and of any
    convolution if the other operand may be one image for none.
    """
    is_sum = operator.kind in ("Add", "Sub") and not sources.constants.intersection(operator.inputs)
    is_norm = operator.kind == "BatchNormalization" and not sources.constants.issuperset(operator.inputs[1:])
    if not is_sum and not is_norm:
        return (operator,)
    is_of_any = is_norm or bool(graph.repeated_images.intersection(operator.outputs))
    most = sys.maxsize if is_of_any else _FEW
    copies: list[Operator] = []
    for name in dict.fromkeys(operator.inputs):
        if _is_convolved(graph, sources, name, most):
            copy, operator = reading_a_copy(graph, operator, name)
            copies.append(copy)
    return (*copies, operator)


def _is_convolved(graph: Graph, sources: ValueSources, name: str, most: int) -> bool:
    """Whether a value is computed from a convolution of at most `most` channels, or of unknown ones."""
    maker = source_of(sources, name, lambda maker: maker.kind == "Conv")
    if maker is None:
        return False
    shape = kernel_shape(graph, sources, maker)
    return shape is None or shape[1] <= most


def _apart_from_views(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a permutation for a convolution reads a copy of a value that others view."""
    if operator.kind != "Transpose":
        return (operator,)
    (result,) = operator.outputs
    is_for_convolution = any(each.kind in CONVOLUTIONS for each in _readers(graph, result))
    if not is_for_convolution or not _is_viewed(graph, sources, operator):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


def _is_viewed(graph: Graph, sources: ValueSources, reader: Operator) -> bool:
    """Whether there is another view of what an operator reads, or of what that is a view of."""
    while True:
        name = reader.inputs[0]
        if any(each.kind in VIEWS and each.outputs != reader.outputs for each in _readers(graph, name)):
            return True
        if name not in sources.makers or sources.makers[name].kind not in VIEWS:
            return False
        reader = sources.makers[name]


def _readers(graph: Graph, name: str) -> Iterator[Operator]:
    return (each for each in graph.operators if name in each.inputs)


def _apart_from_deconvolutions(
    graph: Graph, sources: ValueSources, operator: Operator
) -> tuple[Operator, ...]:
    """The operator; an expansion reads a copy of what is computed from a transposed convolution."""
    if operator.kind != "Expand":
        return (operator,)
    data = operator.inputs[0]
    is_made = stems_from(sources, data, lambda maker: maker.kind == "ConvTranspose")
    return reading_a_copy(graph, operator, data) if is_made else (operator,)


def _is_scaled_by_pixels(graph: Graph, sources: ValueSources, name: str, pixel_axes: int) -> bool:
    """Whether a value is a linear function of another one, with constants that vary along pixels or images.

    The axes of constants in front of a view are others, so that all those of several elements may.
    """
    is_viewed = False
    while name in sources.makers:
        operator = sources.makers[name]
        if operator.kind in _BETWEEN:
            is_viewed |= operator.kind in VIEWS
            name = operator.inputs[0]
            continue
        if operator.kind not in LINEAR:
            return operator.kind == "LayerNormalization"  # it ends with a factor and a summand
        constant, *others = sorted(operator.inputs, key=lambda each: each not in sources.constants)
        if constant not in sources.constants:
            return False
        shape = shape_of(graph, constant)
        if shape is None or math.prod(shape if is_viewed else _besides(shape, -pixel_axes - 1)) != 1:
            return True
        (name,) = others
    return False


def _besides(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The extents of the other axes than one, which is counted from the end and may be missing."""
    return shape[:axis] + shape[axis + 1 :] if len(shape) >= -axis else shape


CONVOLUTION_REPAIRS: tuple[Repair, ...] = (
    _apart_from_factors,
    _apart_from_pixels,
    _apart_from_sums,
    _apart_from_views,
    _apart_from_deconvolutions,
)
"""In this order."""
