"""`ConstantOfShape` and `Reshape` to a shape that is computed at run time.

TVM's importer converts the former to a tensor of unknown shape, which a dataflow block cannot contain, and
rejects the latter. Here the extents become shape variables, bound by a `MatchCast` of the computed shape.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_converters.expand import computed_extents
from annotated_region.importing.onnx_converters.folding import known_numbers
from annotated_region.importing.onnx_converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_converters.registry import converts

__all__: list[str] = []


@converts("", "ConstantOfShape", (1, 1), "value")
def _constant_of_shape(node: OnnxNode) -> relax.Expr:
    """A tensor of the given shape filled with one number, by default 0 of float32."""
    if _is_known(node, 0):
        return node.by_tvm()
    from onnx import numpy_helper  # noqa: PLC0415 - an extra

    given = node.attributes.get("value")
    number = np.zeros(1, "float32") if given is None else numpy_helper.to_array(given.t)
    node.require(number.size == 1, f"has a value of {number.size} numbers; it should be one")
    extents = computed_extents(node, *_shape(node, 0))
    return relax.op.full(relax.ShapeExpr(extents), relax.const(number.reshape(())), str(number.dtype))


@converts("", "Reshape", (2, 2), "allowzero")
def _reshape(node: OnnxNode) -> relax.Expr:
    """In a computed shape, 0 copies the extent of the data, and -1 is inferred."""
    given = node.inputs[0]
    if given is None or not isinstance(given.ty, relax.TensorType) or _is_known(node, 1):
        return node.by_tvm()
    data = node.tensor(0)
    shape, count = _shape(node, 1)
    zero, one = (relax.const(number, "int64") for number in (0, 1))
    own = node.emit(relax.op.shape_to_tensor(relax.ShapeExpr(node.shape(data))))
    if not node.integer("allowzero", 0, 0, 1):
        places = relax.const(np.minimum(np.arange(count), max(rank_of(data) - 1, 0)))
        kept = node.emit(relax.op.take(own, places, 0)) if rank_of(data) else one
        shape = node.emit(relax.op.where(relax.op.equal(shape, zero), kept, shape))
    is_rest = node.emit(relax.op.less(shape, zero))
    known = node.emit(relax.op.prod(node.emit(relax.op.where(is_rest, one, shape))))
    rest = node.emit(relax.op.floor_divide(relax.op.prod(own), relax.op.maximum(known, one)))
    extents = computed_extents(node, node.emit(relax.op.where(is_rest, rest, shape)), count)
    return relax.op.reshape(data, relax.ShapeExpr(extents))


def _is_known(node: OnnxNode, position: int) -> bool:
    """Whether the shape is a constant, or consists of extents of tensors."""
    given = node.inputs[position] if node.has(position) else None
    is_shape = given is not None and isinstance(given.ty, relax.ShapeType)
    return given is None or is_shape or known_numbers(given) is not None


def _shape(node: OnnxNode, position: int) -> tuple[relax.Expr, int]:
    """The shape tensor, and its number of extents."""
    shape = node.tensor(position, ("int64",), (1,))
    (count,) = node.shape(shape)
    if not isinstance(count, int):
        raise node.declined("has a shape of unknown length")
    return shape, count
