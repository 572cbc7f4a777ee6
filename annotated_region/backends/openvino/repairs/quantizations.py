"""What a `QuantizeLinear` misreads; it reads a copy instead.

A quantization is fused with a factor in front of it, also across a permutation or a clip. If a number of the
factor is negative, and behind a permutation or a clip, all but the first are forgotten:

    y = QuantizeLinear(Mul(x, [1, -2]), 0.5, 0)        QuantizeLinear(Mul(x, [1, 1]), 0.5, 0)
    m = Mul(x, [1, -2]), y = QuantizeLinear(Max(m, m), 0.5, 0)        right
    m = Transpose(Mul(x, [1, 2])), y = QuantizeLinear(Max(m, m), 0.5, 0)        right

So it is with what is joined, unless a product or another function is in front:

    y = QuantizeLinear(Concat(Mul(x, [1, -2]), z), 0.5, 2)        wrong
    y = QuantizeLinear(Concat(Clip(Mul(x, [1, 2]), -1, 1), z), 0.5, 2)        wrong
    c = Concat(Mul(x, [1, -2]), z), y = QuantizeLinear(Max(c, c), 0.5, 2)        right

Bytes that are joined with others of another zero point, and quantized for several readers, are passed on as
they are:

    q = QuantizeLinear(Concat(DequantizeLinear(x, s, 0), DequantizeLinear(y, s, 128)), s, 0)
                                                                  wrong, if q and its numbers are results
    c = Concat(...), q = QuantizeLinear(Max(c, c), s, 0)        right

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

A matrix product of what was joined along other axes than its columns, and quantized with a zero point, is
rejected:

    y = MatMul(DequantizeLinear(QuantizeLinear(Concat(x, y), s, 128), s, 128), w)        an error, along rows
    c = Concat(x, y), y = MatMul(DequantizeLinear(QuantizeLinear(Max(c, c), s, 128), s, 128), w)        right

For bytes with signs of what is joined, see `joined_bytes.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnx_emitter.copies import is_copy
from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    LINEAR,
    OF_BYTES,
    PRODUCTS,
    VIEWS,
    Repair,
    ValueSources,
    behind,
    chain_of,
    holds_several,
    reading_a_copy,
    shape_of,
    stems_from,
)

__all__ = ["QUANTIZATION_REPAIRS"]

_FACTORS = frozenset(("BatchNormalization", "Div", "InstanceNormalization", "LayerNormalization", "Mul"))
# Operators that are not fused with a product as a function of its result is.
_MOVING = frozenset(
    (
        "AveragePool", "Concat", "Expand", "Gather", "MaxPool", "Pad", "Reshape", "Resize", "Slice", "Split",
        "Squeeze", "Tile", "Transpose", "Unsqueeze",
    )
)  # fmt: skip
# Operators that are fused with a quantization, or do not prevent it.
_LINES = LINEAR | VIEWS | {"Clip", "Neg", "Transpose"}
# Behind others, joined values are quantized rightly.
_FUNCTIONS = LINEAR | {"BatchNormalization", "Identity", "LeakyRelu", "PRelu", "Relu"}


def _apart_from_data(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a quantization reads a copy of data that it would misread."""
    if operator.kind != "QuantizeLinear":
        return (operator,)
    if not any(is_misread(graph, sources, operator) for is_misread in _MISREAD):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


def _has_misread_factor(graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether the data have a factor that OpenVINO misreads when it quantizes them.

    These are factors with a negative number; and, unless functions alone are between the data and a product,
    factors of several numbers, and scales of a product by channels in front of a clip.
    """
    (name, *_) = operator.inputs
    is_pending = False
    is_moved = False
    while name in sources.makers and not is_copy(sources.makers[name]):
        maker = sources.makers[name]
        if maker.kind in OF_BYTES:
            return is_pending and is_moved
        factors = [each for each in maker.inputs if each in sources.constants]
        data = {each for each in maker.inputs if each not in factors}
        if maker.kind == "Neg" or (maker.kind == "Sub" and maker.inputs[0] in factors):
            return True
        if maker.kind in _FACTORS:
            at = factors if maker.kind in ("Div", "Mul") else maker.inputs[1:2]
            if any(_is_negative(graph, each) for each in at):
                return True
            if maker.kind in ("Div", "Mul"):
                is_pending |= any(holds_several(graph, each) for each in at)
        is_pending |= maker.kind == "Clip"
        is_moved |= maker.kind in _MOVING
        if len(data) != 1:
            break
        (name,) = data
    return is_pending


def _joins_misread_factors(graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether a part of joined data has factors with a negative one, or a clip behind several factors."""
    waiting = [operator.inputs[0]]
    parts: set[str] = set()  # each is looked at once, though many joins may read it
    while waiting:
        join = sources.makers.get(behind(sources, waiting.pop(), _LINES))
        if join is None or join.kind != "Concat":
            continue
        further = [name for name in dict.fromkeys(join.inputs) if name not in parts]
        if any(_is_misread_part(graph, sources, name) for name in further):
            return True
        parts.update(further)
        waiting.extend(further)
    return False


def _is_misread_part(graph: Graph, sources: ValueSources, name: str) -> bool:
    """Whether a part of joined data has such factors or such a clip, and no product in front of them."""
    is_misread = has_factors = is_negative = is_clipped = False
    while name in sources.makers and sources.makers[name].kind in _LINES:
        maker = sources.makers[name]
        constants = [each for each in maker.inputs if each in sources.constants]
        data = [each for each in maker.inputs if each not in constants]
        if len(data) != 1:
            return is_misread
        (name,) = data
        has_several = maker.kind in LINEAR and any(holds_several(graph, each) for each in constants)
        is_misread |= is_clipped and has_several
        is_clipped |= maker.kind == "Clip"
        is_negative |= maker.kind == "Neg" or (maker.kind == "Sub" and maker.inputs[0] in constants)
        if maker.kind in ("Div", "Mul"):
            has_factors |= has_several
            is_negative |= any(_is_negative(graph, each) for each in constants)
        is_misread |= has_factors and is_negative
    return is_misread and (name not in sources.makers or sources.makers[name].kind not in OF_BYTES)


def _joins_zero_points(_graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether the data are joined numbers that had different zero points."""
    join = _behind_views(sources, operator.inputs[0])
    if join is None or join.kind != "Concat":
        return False
    makers = [_behind_views(sources, each) for each in join.inputs]
    zeros = {each.inputs[2] for each in makers if each is not None and each.kind == "DequantizeLinear"}
    return len(zeros) > 1


def _is_joined_before(_graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether the data were joined and quantized before."""
    scaled = behind(sources, operator.inputs[0], LINEAR | VIEWS | {"Identity"})
    quantized = sources.makers.get(behind(sources, scaled, {"DequantizeLinear"}))
    if quantized is None or quantized.kind != "QuantizeLinear":
        return False
    join = sources.makers.get(behind(sources, quantized.inputs[0], VIEWS))
    return join is not None and join.kind == "Concat"


def _is_joined_to_signed(graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether joined data become bytes with signs."""
    return graph.dtypes[operator.outputs[0]] == "int8" and _is_joined(sources, operator)


def _is_joined_for_product(graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether joined data become bytes with a zero point that a matrix product reads."""
    zero = graph.constants.get(operator.inputs[2])
    if (zero is not None and not zero.any()) or not _is_joined(sources, operator):
        return False
    factors = (name for each in graph.operators if each.kind in PRODUCTS for name in each.inputs)
    return any(stems_from(sources, name, lambda maker: maker.outputs == operator.outputs) for name in factors)


def _is_joined(sources: ValueSources, operator: Operator) -> bool:
    """Whether the data of a quantization are linear functions, or views, of what was joined."""
    data = sources.makers.get(behind(sources, operator.inputs[0], _FUNCTIONS | VIEWS))
    return data is not None and data.kind == "Concat"


def _is_clipped_away(graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether a clip keeps the data away from the numbers that the bytes stand for."""
    data, *parameters = operator.inputs
    clip = sources.makers.get(data)
    if clip is None or clip.kind != "Clip":
        return False
    held = [graph.constants.get(each) for each in (*clip.inputs[1:], *parameters)]
    if not all(each is not None and each.size == 1 for each in held):
        return True
    low, high, scale, zero = (float(np.asarray(each).reshape(())) for each in held)
    range_ = np.iinfo(graph.dtypes[operator.outputs[0]])
    ends = (scale * (range_.min - zero), scale * (range_.max - zero))
    return low >= max(ends) or high <= min(ends)


def _may_rise(graph: Graph, sources: ValueSources, operator: Operator) -> bool:
    """Whether a constant may have given further axes to a view."""
    may_rise = False
    for maker in chain_of(sources, operator.inputs[0]):
        if may_rise and maker.kind in VIEWS:
            return True
        if maker.kind in OF_BYTES:
            break
        shapes = (shape_of(graph, each) for each in maker.inputs if each in sources.constants)
        may_rise |= any(shape is None or len(shape) > 1 for shape in shapes)
    return False


def _behind_views(sources: ValueSources, name: str) -> Operator | None:
    """The operator that makes what a value is a view or a permutation of; None of inputs and constants."""
    return sources.makers.get(behind(sources, name, VIEWS | {"Transpose"}))


def _is_negative(graph: Graph, constant: str) -> bool:
    """Whether a constant holds a negative number, or is computed."""
    held = graph.constants.get(constant)
    if held is None and constant in graph.weights:
        held = array_of(graph.weights[constant])
    return held is None or bool((held < 0).any())


_MISREAD: tuple[Callable[[Graph, ValueSources, Operator], bool], ...] = (
    _has_misread_factor,
    _joins_misread_factors,
    _joins_zero_points,
    _is_joined_before,
    _is_joined_to_signed,
    _is_joined_for_product,
    _is_clipped_away,
    _may_rise,
)

QUANTIZATION_REPAIRS: tuple[Repair, ...] = (_apart_from_data,)
"""Behind those of factors, and in front of those of joined bytes."""
