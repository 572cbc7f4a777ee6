"""A repair of summands along other axes than factors, which OpenVINO 2026.4 takes for those of the channels.

In a model with a quantization, a factor for each channel and the summands behind it become one function of
the channels; summands along another axis, as many as channels, are taken for those of the channels, too::

    y = Mul(x, f), z = Mul(Add(y, c), x)        wrong for x of (1, 2, 2, 2), f of (2, 1, 1) and c of (2)
    y = Mul(x, f), z = Mul(Add(Max(y, y), c), x)        right

Also with a quotient or a batch norm, and with a function such as ReLU between.
"""

from __future__ import annotations

import math
from itertools import dropwhile

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    Repair,
    ValueSources,
    chain_of,
    reading_a_copy,
    shape_of,
)

__all__ = ["SUMMAND_REPAIRS"]

_FACTORS = ("BatchNormalization", "Div", "Mul")


def _apart_from_factors(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; summands read a copy of data with as many factors along another axis."""
    data = [each for each in operator.inputs if each not in sources.constants]
    if operator.kind not in ("Add", "Sub") or len(data) != 1:
        return (operator,)
    summands = next((each for each in operator.inputs if each in sources.constants), data[0])
    place = _place(graph, summands)
    if place is None or math.prod(place) == 1:
        return (operator,)
    for maker in chain_of(sources, *data):
        if maker.kind not in _FACTORS:
            continue
        factors = [_place(graph, each) for each in maker.inputs if each in sources.constants]
        as_many = any(each is not None and math.prod(each) == math.prod(place) for each in factors)
        if as_many and (maker.kind == "BatchNormalization" or place not in factors):
            return reading_a_copy(graph, operator, *data)
    return (operator,)


def _place(graph: Graph, constant: str) -> tuple[int, ...] | None:
    """The shape of a constant from its first axis with several numbers on; None if it is computed."""
    shape = shape_of(graph, constant)
    return None if shape is None else tuple(dropwhile(lambda extent: extent == 1, shape))


SUMMAND_REPAIRS: tuple[Repair, ...] = (_apart_from_factors,)
