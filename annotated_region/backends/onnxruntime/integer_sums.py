"""Sums of integers as running sums: ``ReduceSum`` of ONNX Runtime adds in float64, and saturates.

    y = ReduceSum([2**53 + 1, 0])        2**53
    y = ReduceSum([2**31 - 1, 1])        2**31 - 1 for int32, where TVM wraps around

A running sum is exact and wraps. The first of its numbers is a zero, for axes of extent 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator

__all__ = ["write_integer_sums"]

_WIDE = frozenset(("int32", "int64"))


def write_integer_sums(graph: Graph) -> None:
    """Replace the sums of integers along constant axes."""
    graph.operators = [part for each in graph.operators for part in _parts(graph, each)]


def _parts(graph: Graph, operator: Operator) -> tuple[Operator, ...]:
    if operator.kind != "ReduceSum" or graph.dtypes[operator.inputs[0]] not in _WIDE:
        return (operator,)
    axes = graph.constants.get(operator.inputs[1])
    return (operator,) if axes is None or not axes.size else tuple(_running(graph, operator, axes))


def _running(graph: Graph, operator: Operator, axes: np.ndarray) -> Iterator[Operator]:
    """For each axis, the last ones first: a zero in front, the running sum, its last number."""
    value = operator.inputs[0]
    dtype = graph.dtypes[value]
    in_front, zero = graph.constant(np.array([1, 0])), graph.constant(np.zeros((), dtype))
    last = graph.constant(np.array([-1] if operator.attrs["keepdims"] else -1))
    order = sorted((int(axis) for axis in axes), reverse=True)
    for axis in order:
        padded, running = (graph.declare(graph.fresh(stem), dtype) for stem in ("padded", "running"))
        is_final = axis == order[-1]
        total = operator.outputs[0] if is_final else graph.declare(graph.fresh("total"), dtype)
        yield Operator("Pad", (value, in_front, zero, graph.constant(np.array([axis]))), (padded,), {})
        yield Operator("CumSum", (padded, graph.constant(np.array(axis))), (running,), {})
        yield Operator("Gather", (running, last), (total,), {"axis": axis})
        value = total
