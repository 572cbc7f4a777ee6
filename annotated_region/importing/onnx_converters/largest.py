"""`TopK` of as many elements as an extent says; TVM's importer takes a constant number."""

from __future__ import annotations

from dataclasses import replace

from tvm import relax

from annotated_region.importing.onnx_converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_converters.node import OnnxNode
from annotated_region.importing.onnx_converters.registry import converts

__all__: list[str] = []


@converts("", "TopK", (2, 2), "axis largest sorted")
def _largest(node: OnnxNode) -> relax.Expr:
    given = node.inputs[1]
    numbers = None if given is None else numbers_of(node.builder, given)
    if numbers is None or len(numbers) != 1 or not isinstance(numbers[0], int):
        raise node.declined("has a number of elements that is neither constant nor a known extent")
    count = relax.const([numbers[0]], "int64")
    return replace(node, inputs=(node.inputs[0], count)).by_tvm()
