"""Operators of the default domain that TVM's table lacks and that ONNX does not define as functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []


@converts("", "Constant", (0, 0), "value value_float value_floats value_int value_ints")
def _constant(node: OnnxNode) -> relax.Expr:
    """A constant from a tensor or from number attributes; TVM only supports tensors."""
    node.require(len(node.attributes) == 1, f"has {len(node.attributes)} attributes; one is its value")
    if "value_int" in node.attributes:
        return relax.const(node.integer("value_int"), "int64")
    if "value_float" in node.attributes:
        return relax.const(float(node.attributes["value_float"].f), "float32")
    if "value_ints" in node.attributes:
        return relax.const(np.asarray(node.integers("value_ints")), "int64")
    if "value_floats" in node.attributes:
        return relax.const(np.asarray(node.numbers("value_floats"), "float32"))
    return node.standard("Constant", [], {"value": node.attributes["value"].t})


@converts("", "LpNormalization", (1, 1), "axis p")
def _lp_normalization(node: OnnxNode) -> relax.Expr:
    """Division by the L1 or L2 norm; zero vectors stay zero."""
    data = node.tensor(0, FLOATS)
    axis = _axis(node, "axis", -1, data)
    is_square = node.integer("p", 2, 1, 2) == 2
    powers = relax.op.multiply(data, data) if is_square else relax.op.abs(data)
    total = relax.op.sum(powers, axis=[axis], keepdims=True)
    norm = node.emit(relax.op.sqrt(total) if is_square else total)
    nothing, one = (relax.const(number, dtype_of(data)) for number in (0.0, 1.0))
    return relax.op.divide(data, relax.op.where(relax.op.equal(norm, nothing), one, norm))


@converts("", "ReverseSequence", (2, 2), "batch_axis time_axis")
def _reversed_sequence(node: OnnxNode) -> relax.Expr:
    data, lengths = node.tensor(0), node.tensor(1, ("int64",), (1,))
    batch, time = (_axis(node, f"{name}_axis", at, data) for name, at in (("batch", 1), ("time", 0)))
    node.require({batch, time} == {0, 1}, "has axes of batch and time other than the first two")
    return relax.op.reverse_sequence(data, lengths, time, batch)


@converts("", "CumProd", (2, 2), "exclusive reverse")
@converts("", "CumSum", (2, 2), "exclusive reverse")
def _cumulative(node: OnnxNode) -> relax.Expr:
    """Sums or products up to each element; TVM's importer reverses sums by opaque functions."""
    data = node.tensor(0)
    rank, place = rank_of(data), _axis_of_input(node)
    node.require(-rank <= place < rank, f"has the axis {place}, and {rank} axes")
    place %= rank
    reverse = node.integer("reverse", 0, 0, 1) == 1
    given = node.emit(relax.op.flip(data, place)) if reverse else data
    exclusive = bool(node.integer("exclusive", 0, 0, 1))
    accumulate = relax.op.cumsum if node.proto.op_type == "CumSum" else relax.op.cumprod
    result = accumulate(given, place, dtype_of(data), exclusive)
    return relax.op.flip(node.emit(result), place) if reverse else result


def _axis_of_input(node: OnnxNode) -> int:
    """The axis that is an input, a constant or a number that is computed from extents that are known."""
    given = node.inputs[1]
    numbers = None if given is None else numbers_of(node.builder, given)
    if numbers is None or len(numbers) != 1 or not isinstance(numbers[0], int):
        raise node.declined("has an axis that is not constant")
    return numbers[0]


@converts("", "Trilu", (1, 2), "upper")
def _triangle(node: OnnxNode) -> relax.Expr:
    """Of symbolic extents, a mask of positions in the place of an op that few targets claim."""
    data = node.tensor(0)
    extents = node.shape(data)[-2:]
    offset = node.constant(node.tensor(1, ("int64",), (0, 1))) if node.has(1) else np.array(0)
    if (
        len(extents) < 2
        or offset is None
        or offset.size != 1
        or all(isinstance(each, int) for each in extents)
    ):
        return node.by_tvm()
    columns, first = _places_of(node, extents, int(offset.item()))
    compare = relax.op.greater_equal if node.integer("upper", 1, 0, 1) else relax.op.less_equal
    return relax.op.where(node.emit(compare(columns, first)), data, relax.const(0, dtype_of(data)))


def _places_of(node: OnnxNode, extents: Sequence[Extent], offset: int) -> tuple[relax.Expr, relax.Expr]:
    """The columns of a matrix, and those of each row on a diagonal."""
    rows, columns = (
        node.emit(relax.op.expand_dims(node.emit(relax.op.arange(0, extent, 1, "int64")), [axis]))
        for extent, axis in zip(extents, (1, 0), strict=True)
    )
    return columns, node.emit(relax.op.add(rows, relax.const(offset, "int64")))


@converts("", "EyeLike", (1, 1), "dtype k")
def _eye(node: OnnxNode) -> relax.Expr:
    """Ones on a diagonal, of matrices of any size by their places, which targets know.

    TVM only supports the data type of the input.
    """
    data = node.tensor(0, ranks=(2,))
    dtype = dtype_of(data)
    if "dtype" in node.attributes:
        dtype = _TYPES.get(node.integer("dtype"), "")
        node.require(bool(dtype), f"has the dtype {node.integer('dtype')}, which TVM cannot fill")
    offset = node.integer("k", 0)
    is_known = isinstance(data.ty, relax.TensorType) and isinstance(data.ty.shape, relax.ShapeExpr)
    extents = node.shape(data) if is_known else ()
    if all(isinstance(each, int) for each in extents):
        return relax.op.eye_like(data, offset, dtype)
    columns, diagonal = _places_of(node, extents, offset)
    return relax.op.astype(node.emit(relax.op.equal(columns, diagonal)), dtype)


_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
"""The data types by ONNX's numbers."""


def _axis(node: OnnxNode, name: str, default: int, data: relax.Expr) -> int:
    rank = rank_of(data)
    node.require(rank > 0, "has an input of rank 0")
    return int(node.integer(name, default, -rank, rank - 1) % rank)
