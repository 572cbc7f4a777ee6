"""Where the values of a graph come from, and copies of them, for the repairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from annotated_region.backends.onnx_emitter.copies import copied, is_copy
from annotated_region.backends.onnx_emitter.graph import Graph, Operator

__all__ = [
    "CONVOLUTIONS",
    "EXTREMES",
    "LINEAR",
    "OF_BYTES",
    "POOLS",
    "PRODUCTS",
    "QUANTIZED",
    "Repair",
    "ValueSources",
    "VIEWS",
    "behind",
    "chain_of",
    "computed_of",
    "has_zero_point",
    "holds_several",
    "is_product",
    "kernel_shape",
    "read_as_a_copy",
    "reading_a_copy",
    "shape_of",
    "source_of",
    "stems_from",
]

VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze"))
# Further operands of these are extents, axes or places, which may be computed in a call.
_BY_EXTENTS = VIEWS | {"Expand", "Pad", "Slice", "Tile"}
# The operators that OpenVINO merges into one factor and one summand.
LINEAR = frozenset(("Add", "Div", "Mul", "Sub"))
PRODUCTS = frozenset(("Einsum", "Gemm", "MatMul"))
QUANTIZED = frozenset(("DequantizeLinear", "QuantizeLinear"))
POOLS = frozenset(("GlobalAveragePool", "GlobalMaxPool"))
EXTREMES = frozenset(("ReduceMax", "ReduceMin"))
CONVOLUTIONS = frozenset(("Conv", "ConvTranspose"))
OF_BYTES = PRODUCTS | CONVOLUTIONS
# What computes the second factor of SiLU, Mish, GELU and their kind from the first one.
_GATING = LINEAR | {
    "Clip",
    "Erf",
    "Exp",
    "HardSigmoid",
    "Log",
    "Max",
    "Min",
    "Relu",
    "Sigmoid",
    "Softplus",
    "Tanh",
}


@dataclass(frozen=True, slots=True)
class ValueSources:
    """The operator that makes each value, and the values that are computed from constants alone."""

    makers: Mapping[str, Operator]
    constants: frozenset[str]

    @staticmethod
    def of(graph: Graph) -> ValueSources:
        """Those of a graph, whose operators are in topological order."""
        constants = {*graph.constants, *graph.weights, ""}
        for each in graph.operators:
            if constants.issuperset(each.inputs):
                constants.update(each.outputs)
        makers = {name: each for each in graph.operators for name in each.outputs}
        return ValueSources(makers, frozenset(constants))


def reading_a_copy(graph: Graph, operator: Operator, data: str) -> tuple[Operator, ...]:
    """A copy of a value, and the operator that reads the copy instead."""
    copy = graph.declare(graph.fresh("copied"), graph.dtypes[data])
    inputs = tuple(copy if each == data else each for each in operator.inputs)
    return copied(graph, data, copy), Operator(operator.kind, inputs, operator.outputs, operator.attrs)


def read_as_a_copy(graph: Graph, operator: Operator) -> tuple[Operator, ...]:
    """The operator, and a copy of its result under the name of the result."""
    (name,) = operator.outputs
    made = graph.declare(graph.fresh("made"), graph.dtypes[name])
    return Operator(operator.kind, operator.inputs, (made,), operator.attrs), copied(graph, made, name)


def holds_several(graph: Graph, constant: str) -> bool:
    """Whether a constant holds several numbers, or is computed."""
    shape = shape_of(graph, constant)
    return shape is None or math.prod(shape) > 1


def shape_of(graph: Graph, constant: str) -> tuple[int, ...] | None:
    """The shape of a constant; None of a computed value."""
    held = graph.constants.get(constant, graph.weights.get(constant))
    return None if held is None else tuple(int(extent) for extent in held.shape)


def kernel_shape(graph: Graph, sources: ValueSources, convolution: Operator) -> tuple[int, ...] | None:
    """The shape of a kernel, which may be dequantized; None if it is computed."""
    name = convolution.inputs[1]
    if name in sources.makers and sources.makers[name].kind == "DequantizeLinear":
        name = sources.makers[name].inputs[0]
    return shape_of(graph, name)


def has_zero_point(graph: Graph, operator: Operator) -> bool:
    """Whether an operator makes floats of bytes with a zero point that is not 0, or computed."""
    if operator.kind != "DequantizeLinear" or len(operator.inputs) < 3:
        return False
    zero = graph.constants.get(operator.inputs[2])
    return zero is None or bool(np.any(zero))


def is_product(sources: ValueSources, name: str) -> bool:
    """Whether a value is a product, or computed from a product and constants."""
    return stems_from(sources, name, lambda operator: operator.kind in PRODUCTS)


def stems_from(sources: ValueSources, name: str, is_wanted: Callable[[Operator], bool]) -> bool:
    """Whether a value is the result of such an operator, or computed from it and constants."""
    return source_of(sources, name, is_wanted) is not None


def source_of(sources: ValueSources, name: str, is_wanted: Callable[[Operator], bool]) -> Operator | None:
    """The last such operator that makes a value, or from which it is computed with constants and extents.

    None is found in front of a copy.
    """
    return next(filter(is_wanted, chain_of(sources, name)), None)


def chain_of(sources: ValueSources, name: str) -> Iterator[Operator]:
    """The operators that compute a value from one, constants and extents, back to a copy; the last first.

    The first operator with several operands ends the chain, and is part of it, unless it makes a function
    such as SiLU, which OpenVINO finds in ``Mul(x, Sigmoid(x))``.
    """
    while name in sources.makers and not is_copy(sources.makers[name]):
        operator = sources.makers[name]
        yield operator
        varied = _varied(sources, operator)
        if operator.kind == "Mul" and len(varied) > 1:
            varied = [each for each in varied if _is_gated(sources, each, varied)]
        if len(varied) != 1:
            return
        (name,) = varied


def _varied(sources: ValueSources, operator: Operator) -> list[str]:
    """The operands that are neither constants nor extents, each once."""
    data = operator.inputs[:1] if operator.kind in _BY_EXTENTS else operator.inputs
    return [each for each in dict.fromkeys(data) if each not in sources.constants]


def _is_gated(sources: ValueSources, name: str, factors: Collection[str]) -> bool:
    """Whether the other factor of a product is computed from this one, by functions of single elements."""
    (gate,) = (each for each in factors if each != name)
    while gate != name:
        maker = sources.makers.get(gate)
        varied = [] if maker is None or maker.kind not in _GATING else _varied(sources, maker)
        if len(varied) != 1:
            return False
        (gate,) = varied
    return True


def behind(sources: ValueSources, name: str, kinds: Collection[str]) -> str:
    """The value that another one is computed from by operators of these kinds and constants."""
    while name in sources.makers and sources.makers[name].kind in kinds:
        operator = sources.makers[name]
        varied = [each for each in operator.inputs if each not in sources.constants]
        if operator.kind in LINEAR and len(varied) != 1:
            break
        name = varied[0] if operator.kind in LINEAR else operator.inputs[0]
    return name


def computed_of(sources: ValueSources, name: str) -> Iterator[Operator]:
    """The operators that a value is computed by, back to products and 8-bit values, and those included."""
    seen = {name}
    waiting = [name]
    while waiting:
        maker = sources.makers.get(waiting.pop())
        if maker is None or is_copy(maker):
            continue
        yield maker
        if maker.kind not in OF_BYTES | QUANTIZED:
            further = [each for each in maker.inputs if each not in seen | sources.constants]
            seen.update(further)
            waiting.extend(further)


Repair = Callable[[Graph, ValueSources, Operator], tuple[Operator, ...]]
"""What an operator is replaced by."""
