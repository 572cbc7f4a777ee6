"""Reductions along no axes that still have something to compute for each element.

With ``noop_with_empty_axes``, and without axes, nothing is summed; but ``ReduceSumSquare`` squares, and
``ReduceLogSum`` takes the logarithm. TVM's importer gives the operand.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_STEPS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "ReduceL1": relax.op.abs,
    "ReduceL2": relax.op.abs,
    "ReduceLogSum": relax.op.log,
    "ReduceSumSquare": lambda data: relax.op.multiply(data, data),
}


@converts("", "ReduceL1", (1, 2), "axes keepdims noop_with_empty_axes")
@converts("", "ReduceL2", (1, 2), "axes keepdims noop_with_empty_axes")
@converts("", "ReduceLogSum", (1, 2), "axes keepdims noop_with_empty_axes")
@converts("", "ReduceSumSquare", (1, 2), "axes keepdims noop_with_empty_axes")
def _reduced(node: OnnxNode) -> relax.Expr:
    """The step of each element where there are no axes; other reductions are left to TVM."""
    if not node.integer("noop_with_empty_axes", 0, 0, 1) or _has_axes(node):
        return node.by_tvm()
    return _STEPS[node.proto.op_type](node.tensor(0))


def _has_axes(node: OnnxNode) -> bool:
    """Whether axes are given, or not known."""
    if not node.has(1):
        return bool(node.integers("axes"))
    axes = node.constant(node.tensor(1, ("int64",), (1,)))
    return axes is None or axes.size > 0
