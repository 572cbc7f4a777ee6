"""Repairs of bytes that are joined, by which OpenVINO 2026.4 computes wrongly.

What is joined and has been int8, or is quantized to it, has another scale in front of a convolution or
product of bytes, also if functions, windows or views are between:

    c = Concat(DequantizeLinear(x, 0.1, 0), DequantizeLinear(y, 0.1, 0)), y = Conv(c, w)        wrong
    y = Conv(DequantizeLinear(QuantizeLinear(Concat(x, y), 0.1, 0)), w)        wrong: 1 and 3 for 1.1 and 2.4

Bytes without signs are right, and the same with another zero point, so that nothing but their readers sees
which they are:

    DequantizeLinear(QuantizeLinear(x, 0.1, 3), 0.1, 3)        int8
    DequantizeLinear(QuantizeLinear(x, 0.1, 131), 0.1, 131)        uint8, the same numbers

Where others than a `DequantizeLinear` read the bytes, these stay as they are; copies are made where they are
joined.

A matrix product of bytes of several scales, joined along its rows, applies one of the scales:

    c = Concat(DequantizeLinear(x, 0.1, 0), DequantizeLinear(y, 0.2, 0)), z = MatMul(c, w)        wrong
    c = Concat(...), z = MatMul(Max(c, c), w)        right

The compilation ends the process if elements of joined bytes with a zero point are taken by computed places:

    c = Concat(DequantizeLinear(x, 0.1, 3), y), z = Gather(c, i)        a fault, also of Mul(c, 2)
    c = Concat(...), z = Gather(Max(c, c), i)        right
"""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.openvino.repairs.sources import (
    LINEAR,
    OF_BYTES,
    PRODUCTS,
    Repair,
    ValueSources,
    behind,
    chain_of,
    read_as_a_copy,
    reading_a_copy,
    source_of,
)

__all__ = ["JOIN_REPAIRS", "without_signs"]

_HALF = 128


def without_signs(graph: Graph) -> None:
    """Make bytes unsigned where they are computed and nothing but `DequantizeLinear` reads them."""
    sources = ValueSources.of(graph)
    results = {port.name for port in graph.outputs}
    readers: dict[str, list[Operator]] = {}
    for each in graph.operators:
        for name in each.inputs:
            readers.setdefault(name, []).append(each)
    changed: set[str] = set()
    for each in graph.operators:
        name = each.outputs[0]
        if each.kind != "QuantizeLinear" or name in results or name in sources.constants:
            continue
        if graph.dtypes[name] == "int8" and _can_change(graph, (each, *readers.get(name, ()))):
            changed.add(name)
            graph.dtypes[name] = "uint8"
    graph.operators = [
        _with_half(graph, each) if changed.intersection(_bytes_of(each)) else each for each in graph.operators
    ]


def _can_change(graph: Graph, operators: Sequence[Operator]) -> bool:
    """Whether these are a quantization and its inverses, whose zero points are known."""
    _, *inverses = operators
    return all(each.kind == "DequantizeLinear" for each in inverses) and all(
        each.inputs[2] in graph.constants for each in operators
    )


def _bytes_of(operator: Operator) -> set[str]:
    """The bytes that a quantization makes, or that its inverse reads."""
    if operator.kind == "QuantizeLinear":
        return set(operator.outputs)
    return {operator.inputs[0]} if operator.kind == "DequantizeLinear" else set()


def _with_half(graph: Graph, operator: Operator) -> Operator:
    """A quantization or its inverse, with the zero point of unsigned bytes."""
    data, scale, zero = operator.inputs
    moved = graph.constant((graph.constants[zero].astype("int16") + _HALF).astype("uint8"))
    return Operator(operator.kind, (data, scale, moved), operator.outputs, operator.attrs)


def _joined_as_a_copy(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of joined numbers, some of which were bytes with signs, read a copy."""
    if not _joins_bytes(graph, sources, operator, ("int8",)):
        return (operator,)
    return read_as_a_copy(graph, operator)


def _of_joined(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a matrix product reads copies of joined numbers that were bytes."""
    if operator.kind not in PRODUCTS:
        return (operator,)
    copies: list[Operator] = []
    for name in dict.fromkeys(operator.inputs):
        join = source_of(sources, name, lambda maker: maker.kind in OF_BYTES | {"Concat"})
        if join is not None and _joins_bytes(graph, sources, join, ("int8", "uint8")):
            copy, operator = reading_a_copy(graph, operator, name)
            copies.append(copy)
    return (*copies, operator)


def _joins_bytes(graph: Graph, sources: ValueSources, operator: Operator, dtypes: Sequence[str]) -> bool:
    """Whether an operator joins numbers some of which were bytes of these types."""
    return operator.kind == "Concat" and any(
        _was_bytes(graph, sources, each, dtypes) for each in operator.inputs
    )


def _was_bytes(graph: Graph, sources: ValueSources, name: str, dtypes: Sequence[str]) -> bool:
    makers = (each for each in chain_of(sources, name) if each.kind in OF_BYTES | {"DequantizeLinear"})
    last = next(makers, None) if name not in sources.constants else None
    return last is not None and last.kind == "DequantizeLinear" and graph.dtypes[last.inputs[0]] in dtypes


def _taken_from_a_copy(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; what takes elements by computed places reads a copy of joined bytes."""
    if operator.kind != "Gather" or operator.inputs[1] in sources.constants:
        return (operator,)
    join = sources.makers.get(behind(sources, operator.inputs[0], LINEAR))
    if join is None or not _joins_bytes(graph, sources, join, ("int8", "uint8")):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


JOIN_REPAIRS: tuple[Repair, ...] = (_joined_as_a_copy, _of_joined, _taken_from_a_copy)
"""In this order."""
