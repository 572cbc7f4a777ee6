"""`ReduceMean` of integers, which TVM computes in int64 whatever their type is."""

from __future__ import annotations

import math

from tvm import relax

from annotated_region.importing.onnx_models.converters.elementwise import INTEGERS
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []


@converts("", "ReduceMean", (1, 2), "axes keepdims noop_with_empty_axes")
def _mean(node: OnnxNode) -> relax.Expr:
    """The sum divided by the number of elements, rounded towards zero."""
    data = node.inputs[0]
    if data is None or not isinstance(data.ty, relax.TensorType) or dtype_of(data) not in INTEGERS:
        return node.by_tvm()
    axes = _axes(node)
    if not axes and node.integer("noop_with_empty_axes", 0, 0, 1):
        return data
    data = node.tensor(0)
    shape, rank = node.shape(data), rank_of(data)
    node.require(all(-rank <= axis < rank for axis in axes), f"has the axes {axes}, and {rank} axes")
    reduced = sorted({axis % rank for axis in axes}) if axes else list(range(rank))
    extents = [each for each in (shape[axis] for axis in reduced) if isinstance(each, int)]
    node.require(len(extents) == len(reduced), "averages integers along an axis of symbolic extent")
    node.require(math.prod(extents) > 0, "averages no elements")
    total = relax.op.sum(data, reduced, keepdims=node.integer("keepdims", 1, 0, 1) == 1)
    return relax.op.divide(node.emit(total), relax.const(math.prod(extents), dtype_of(data)))


def _axes(node: OnnxNode) -> list[int]:
    """The axes, an attribute before operator set 18; none if all."""
    if not node.has(1):
        return list(node.integers("axes"))
    axes = node.constant(node.tensor(1, ("int64",), (1,)))
    if axes is None:
        raise node.declined("has axes that are not constant")
    return [int(axis) for axis in axes]
