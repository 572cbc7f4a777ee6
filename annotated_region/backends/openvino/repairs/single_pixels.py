"""A repair of functions by channels behind a convolution of bytes, which OpenVINO 2026.4 loses for one pixel.

Where a call has one image of one pixel, though the extents are symbolic, numbers by channels are read as one
number behind a function that is fused with the convolution::

    c = Conv(DequantizeLinear(x, s, 0), w)        x of (n, 2, 1, 1), called with (1, 2, 1, 1)
    y = Add(Relu(c), [[[1]], [[2]]])        wrong; with Add(c, [[[1]], [[2]]]) right
    f = Relu(c), y = Add(Max(f, f), [[[1]], [[2]]])        right

So they are behind a sum with another value, and so are slopes of a `PRelu`, batch norms, and the zero points
of a quantization by channels; the sum of a convolution and itself, or its own function, is wrong, too.
Convolutions of floats, transposed ones and matrix products are right.
"""

from __future__ import annotations

from collections.abc import Callable

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    LINEAR,
    VIEWS,
    Repair,
    ValueSources,
    behind,
    computed_of,
    holds_several,
    reading_a_copy,
    stems_from,
)

__all__ = ["PIXEL_REPAIRS"]

_BY_CHANNELS = ("BatchNormalization", "PRelu")
_MERGED = ("Add", "Mul", "Sub")
"""What becomes one factor and one summand of each channel; quotients stay quotients (`kept_quotients`)."""


def _apart_from_functions(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; it reads a copy of a function of such a convolution that it would misread."""
    if operator.kind not in LINEAR and operator.kind not in _BY_CHANNELS:
        return (operator,)
    misread = _misread(graph, sources, operator)
    return (operator,) if misread is None else reading_a_copy(graph, operator, misread)


def _misread(graph: Graph, sources: ValueSources, operator: Operator) -> str | None:
    """The operand that has to be a copy."""
    if not graph.single_pixels:
        return None
    constants = [each for each in operator.inputs if each in sources.constants]
    data = [each for each in dict.fromkeys(operator.inputs) if each not in sources.constants]

    def is_pixel(name: str) -> bool:
        return name in graph.single_pixels and _is_of_bytes(sources, name)

    if data and (constants or operator.kind in _BY_CHANNELS):
        if operator.kind in LINEAR and not any(holds_several(graph, each) for each in constants):
            return None
        merged = _MERGED if operator.kind in _MERGED else ()
        if operator.kind in LINEAR and is_pixel(behind(sources, data[0], merged)):
            return None
        return data[0] if _stems_from(sources, data[0], is_pixel) else None
    own = {each for each in data if is_pixel(each)}
    if len(data) == 1 or not own:
        return next(iter(own), None)
    return next(
        (each for each in data if each not in own and _stems_from(sources, each, own.__contains__)), None
    )


def _stems_from(sources: ValueSources, name: str, is_wanted: Callable[[str], bool]) -> bool:
    """Whether a value is computed from such a convolution, also with other values, or through bytes."""
    if stems_from(sources, name, lambda maker: is_wanted(maker.outputs[0])):
        return True
    return any(is_wanted(each.outputs[0]) for each in computed_of(sources, name))


def _is_of_bytes(sources: ValueSources, name: str) -> bool:
    """Whether a value is made by a convolution with a kernel of bytes."""
    convolution = sources.makers.get(name)
    if convolution is None or convolution.kind != "Conv":
        return False
    kernel = sources.makers.get(behind(sources, convolution.inputs[1], VIEWS | {"Transpose"}))
    return kernel is not None and kernel.kind == "DequantizeLinear"


PIXEL_REPAIRS: tuple[Repair, ...] = (_apart_from_functions,)
