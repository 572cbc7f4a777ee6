"""Integers of 4 bits of an ONNX model as bytes, which TVM's importer can hold.

Weights of 4 bits are initializers, read by `DequantizeLinear`, perhaps behind ops that only move them. Their
values are the same as bytes. Nodes that would compute with them, or make them, are declined: what they make
has 4 bits, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from annotated_region.errors import ModelError
from annotated_region.importing.onnx_models.converters.conversion import DEFAULT_DOMAINS, node_label
from annotated_region.importing.onnx_models.functions import OnnxGraph, bodies_of, nodes_of

if TYPE_CHECKING:
    import onnx

__all__ = ["with_bytes"]

_TYPES = {21: "uint8", 22: "int8"}
"""The bytes for UINT4 and INT4 of ``onnx.TensorProto``."""

_MOVING = (
    "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
_READING = ("DequantizeLinear", "Cast", "Shape", "Size")
_DECIDING = ("to", "output_dtype")
"""The attributes that state the type of a result."""


def with_bytes(graph: OnnxGraph, name: str) -> OnnxGraph:
    """The graph with its constants of 4 bits as int8 and uint8.

    Raises
    ------
    ModelError
        The model of that name computes with integers of 4 bits, or has them as inputs or results.
    """
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _TYPES:
            raise ModelError(
                f"{name} cannot be imported: {value.name!r}, an input or a result, has integers of 4 bits, "
                "which are supported as constants only; make it int8 or uint8"
            )
    small = {tensor.name for tensor in graph.initializer if tensor.data_type in _TYPES}
    nodes = [_with_byte_value(node) if _has_small_value(node) else node for node in graph.node]
    for node, given in zip(nodes, graph.node, strict=True):
        if node is not given:
            small.update(node.output)
        if _makes_small(node) or not small.isdisjoint(_inner_reads(node)) or not _may_read(node, small):
            raise ModelError(
                f"{name} cannot be imported: {node_label(node)} reads or makes integers of 4 bits; supported "
                f"are constants that {', '.join((*_READING, *_MOVING))} read"
            )
        if node.op_type in _MOVING and not small.isdisjoint(node.input):
            small.update(node.output)
    if not small:
        return graph
    return replace(graph, node=nodes, initializer=list(map(_as_bytes, graph.initializer)))


def _may_read(node: onnx.NodeProto, small: set[str]) -> bool:
    is_known = node.domain in DEFAULT_DOMAINS and node.op_type in (*_MOVING, *_READING)
    return is_known or small.isdisjoint(node.input)


def _makes_small(node: onnx.NodeProto) -> bool:
    return any(each.name in _DECIDING and each.i in _TYPES for each in node.attribute)


def _inner_reads(node: onnx.NodeProto) -> Iterator[str]:
    """The names that branches and loops of a node read."""
    for body in bodies_of(node):
        for inner in nodes_of(body.node):
            yield from inner.input


def _has_small_value(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and any(
        each.name == "value" and each.t.data_type in _TYPES for each in node.attribute
    )


def _with_byte_value(node: onnx.NodeProto) -> onnx.NodeProto:
    from onnx import helper  # noqa: PLC0415 - an extra

    return helper.make_node("Constant", [], node.output, node.name, value=_as_bytes(node.attribute[0].t))


def _as_bytes(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """The tensor, as bytes if it has 4 bits."""
    from onnx import numpy_helper  # noqa: PLC0415 - an extra

    if tensor.data_type not in _TYPES:
        return tensor
    return numpy_helper.from_array(
        numpy_helper.to_array(tensor).astype(_TYPES[tensor.data_type]), tensor.name
    )
