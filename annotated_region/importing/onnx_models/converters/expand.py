"""`Expand` to a static, a partly static or a computed shape.

TVM's converter fails for a tensor with symbolic extents and a constant shape, and for a computed
shape it emits an impure call, which a dataflow block cannot contain. Its `broadcast_to` from an extent `n` to
another extent assumes that they are equal: if `n = 1` at run time, it reads out of bounds. Here
such axes are read at `i % n`, which is 0 for one element and `i` for equal extents.
"""

from __future__ import annotations

from tvm import relax, tirx

from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.importing.onnx_models.converters.extent_numbers import shape_of_numbers
from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal

__all__ = ["computed_extents", "extents_of_input"]


@converts("", "Expand", (2, 2))
def _expanded(node: OnnxNode) -> relax.Expr:
    """Broadcasts both shapes: an extent of 1 in either becomes that of the other."""
    data = _data(node)
    given, asked = node.shape(data), _asked(node)
    node.require(not any(isinstance(each, int) and each < 0 for each in asked), "asks for a negative extent")
    behind = len(asked) - len(given)
    result: list[Extent] = list(asked[: max(behind, 0)])
    for axis, extent in enumerate(given):
        wanted = asked[axis + behind] if axis + behind >= 0 else 1
        result.append(_joined(node, extent, wanted))
        if not _is_number(extent, 1) and not provably_equal(extent, result[-1]):
            data = node.emit(relax.op.take(data, _places(node, extent, result[-1]), axis))
    if len(result) == len(given) and all(map(provably_equal, result, node.shape(data))):
        return data
    return relax.op.broadcast_to(data, relax.ShapeExpr(result))


def _data(node: OnnxNode) -> relax.Expr:
    """The data; a list of extents, such as the lengths of sequences that TensorFlow reverses, is a tensor."""
    given = node.inputs[0]
    if given is None or not isinstance(given.ty, relax.ShapeType):
        return node.tensor(0)
    numbers = known_numbers(given)
    return node.emit(relax.op.shape_to_tensor(given)) if numbers is None else relax.const(numbers, "int64")


def _places(node: OnnxNode, given: Extent, wanted: Extent) -> relax.Expr:
    """The source index of each element of the expanded axis: 0 if the extent is 1, otherwise
    its own index.
    """
    count = node.emit(relax.op.shape_to_tensor(relax.ShapeExpr([given])))
    return node.emit(relax.op.floor_mod(relax.op.arange(0, wanted, 1, "int64"), count))


def _asked(node: OnnxNode) -> tuple[Extent, ...]:
    """The requested extents; variables for a computed shape."""
    shape = shape_of_numbers(node, 1) or node.inputs[1]
    if isinstance(shape, relax.ShapeExpr):
        return tuple(int(each) if isinstance(each, tirx.IntImm) else each for each in shape.values)
    shape = node.tensor(1, ("int64",), (1,))
    numbers = known_numbers(shape)
    if numbers is not None:
        return tuple(numbers.tolist())
    (count,) = node.shape(shape)
    if not isinstance(count, int):
        raise node.declined("has a shape of unknown length")
    return computed_extents(node, shape, count)


def computed_extents(node: OnnxNode, shape: relax.Expr, count: int) -> tuple[relax.Expr, ...]:
    """Shape variables for the extents in a computed int64 tensor of `count` elements."""
    names = [tirx.Var(f"{node.proto.op_type.lower()}_{axis}", "int64") for axis in range(count)]
    computed = node.emit(relax.op.tensor_to_shape(shape))
    node.builder.match_cast(computed, relax.ShapeType(names))
    return tuple(names)


def extents_of_input(node: OnnxNode, position: int, count: int) -> list[Extent]:
    """Shape variables for the `count` extents in an int64 input that is data."""
    return list(computed_extents(node, node.vector(position, ("int64",), count), count))


def _joined(node: OnnxNode, given: Extent, asked: Extent) -> Extent:
    """The extent of the result; the maximum of two symbolic extents."""
    if _is_number(given, 1):
        return asked
    if _is_number(asked, 1) or provably_equal(given, asked):
        return given
    if isinstance(given, int):
        node.require(not isinstance(asked, int), f"asks for an extent of {asked} in the place of {given}")
        return given
    if isinstance(asked, int):
        return asked
    return given if _is_at_least(given, asked) else tirx.Max(given, asked)


def _is_at_least(one: Extent, other: Extent) -> bool:
    """Whether an extent is never below another one; or below one of two whose minimum that is.

    PyTorch's exporter takes the first row of data, and asks for as many rows as it has, ``min(1, n)``.
    """
    parts = (other.a, other.b) if isinstance(other, tirx.Min) else (other,)
    return any(bounds_of(one - part)[0] >= 0 for part in parts)


def _is_number(extent: Extent, number: int) -> bool:
    return isinstance(extent, int) and extent == number
