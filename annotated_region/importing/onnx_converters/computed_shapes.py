"""`ConstantOfShape`, `Reshape` and `Range` of extents: those of tensors, and those computed at run time.

TVM's importer converts the first to a tensor of unknown shape, which a dataflow block cannot contain, and
rejects the second. Here computed extents become shape variables, bound by a `MatchCast` of the computed shape.
It computes the length of every `Range` at run time, also where extents of tensors state it.
"""

from __future__ import annotations

import numpy as np
from tvm import relax, tirx

from annotated_region.importing.onnx_converters.expand import computed_extents
from annotated_region.importing.onnx_converters.folding import known_numbers
from annotated_region.importing.onnx_converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_converters.registry import converts
from annotated_region.tvm_adapter.nodes import Analyzer, ConstIntBound, PrimExpr

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


@converts("", "Range", (3, 3))
def _range(node: OnnxNode) -> relax.Expr:
    """Positions, as many as the extents state; a length of its own would equal no extent of a tensor.

    A range that may end before it begins is left to TVM, which makes it empty.
    """
    start, limit, step = (_extent(each) for each in node.inputs)
    if start is None or limit is None or not isinstance(step, int) or step < 1:
        return node.by_tvm()
    if not _is_at_least(limit, start):
        return node.by_tvm()
    return relax.op.arange(start, limit, step, "int64")


def _extent(expr: relax.Expr | None) -> int | PrimExpr | None:
    """An int64 number that is constant or computed from extents; None for any other."""
    if expr is None:
        return None
    numbers = known_numbers(expr)
    if numbers is not None:
        return int(numbers.item()) if numbers.dtype == np.int64 and numbers.size == 1 else None
    return expr if isinstance(expr, PrimExpr) and str(expr.ty) == "int64" else None


def _is_at_least(limit: int | PrimExpr, start: int | PrimExpr) -> bool:
    """Whether this holds for all extents, which are not negative."""
    analyzer, length = Analyzer(), limit - start
    if isinstance(length, int):
        return length >= 0
    for variable in tirx.analysis.undefined_vars(length):
        analyzer.update(variable, ConstIntBound(0, ConstIntBound.POS_INF))
    return int(analyzer.const_int_bound(analyzer.simplify(length)).min_value) >= 0


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
