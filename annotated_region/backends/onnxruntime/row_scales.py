"""Constant rows with scales of their own: ``MatMulIntegerToFloat`` of ONNX Runtime 1.32 fails in each call.

The optimizer writes a product of two dequantized tensors as that operator, which takes a scale for each
column of the right one, but one for all rows of the left one; where that one is computed it sees it. A
maximum with minus infinity between them, which changes nothing and is computed once, keeps it from constants,
too::

    MatMul(DequantizeLinear(x, scales, axis=0), w)
    =>    MatMul(Max(DequantizeLinear(x, scales, axis=0), -inf), w)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator

__all__ = ["separate_row_scales"]

_PRODUCTS = frozenset(("MatMul", "Gemm"))
# Operators that the optimizer may move behind a dequantization, or remove.
_MOVING = frozenset(("Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))


def separate_row_scales(graph: Graph) -> None:
    """Write a maximum behind each constant with several scales that is the left side of a product."""
    left = _left_sides(graph)
    graph.operators = [
        part
        for each in graph.operators
        for part in (_separated(graph, each) if _is_by_rows(graph, each, left) else (each,))
    ]


def _left_sides(graph: Graph) -> set[str]:
    """The values that are the left side of a product, maybe moved before."""
    found: set[str] = set()
    for each in reversed(graph.operators):
        if each.kind in _PRODUCTS or (each.kind in _MOVING and found.intersection(each.outputs)):
            found.add(each.inputs[0])
    return found


def _is_by_rows(graph: Graph, operator: Operator, left: set[str]) -> bool:
    """Whether an operator dequantizes a constant by several scales for the left side of a product."""
    if operator.kind != "DequantizeLinear" or operator.outputs[0] not in left:
        return False
    data, scale = operator.inputs[:2]
    is_constant = data in graph.constants or data in graph.weights
    return is_constant and not (scale in graph.constants and graph.constants[scale].size == 1)


def _separated(graph: Graph, operator: Operator) -> tuple[Operator, Operator]:
    (result,) = operator.outputs
    dtype = graph.dtypes[result]
    apart = graph.declare(graph.fresh("by_rows"), dtype)
    least = graph.constant(np.asarray(-np.inf, dtype))
    return replace(operator, outputs=(apart,)), Operator("Max", (apart, least), (result,), {})
