"""`Cast` to int64 of lists that are computed from extents in int32, which become shapes.

Exporters of TensorFlow and Paddle compute shapes in int32, and cast them only where ONNX asks for int64::

    Shape(x) -> Cast to int32 -> Slice [0:1] -> Concat with [-1, 64] -> Cast to int64 -> Reshape(y)

TVM's importer goes on with tensors after the first cast, so that the shape of ``y``, and all behind it, is
unknown. Here the numbers of the list are derived from the calls that compute it: ``(n, -1, 64)``. A list in
int32 has the same numbers as long as none exceeds int32, as holds for the extents of tensors that fit into
memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from operator import add, floordiv, mod, mul, sub

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["as_tensor", "numbers_of", "shape_of_numbers", "with_tensors"]

_Numbers = list[Extent]
_WHOLE = ("int32", "int64")
_MOST_CALLS = 64


@converts("", "Cast", (1, 1), "to saturate round_mode")
def _cast(node: OnnxNode) -> relax.Expr:
    """A list of extents, cast to int64, is a shape; an extent that was cast to floats is itself again."""
    from onnx import TensorProto  # noqa: PLC0415 - an extra

    given = node.inputs[0]
    if given is None or node.integer("to") != TensorProto.INT64:
        return node.by_tvm()
    if isinstance(given, relax.ShapeExpr):
        return given
    if isinstance(given, tirx.Cast) and str(given.value.ty) == "int64":
        return given.value
    numbers = numbers_of(node.builder, given) if _is_list(given) else None
    if numbers is None or all(isinstance(each, int) for each in numbers):
        return node.by_tvm()
    return relax.ShapeExpr(numbers)


def shape_of_numbers(node: OnnxNode, position: int) -> relax.ShapeExpr | None:
    """The shape that an input of int64 holds, if its numbers are known and computed from extents."""
    given = node.inputs[position]
    if given is None or not _is_list(given) or dtype_of(given) != "int64":
        return None
    numbers = numbers_of(node.builder, given)
    return None if numbers is None else relax.ShapeExpr(numbers)


def numbers_of(builder: relax.BlockBuilder, expr: relax.Expr) -> list[Extent] | None:
    """The numbers of a shape, or of a tensor that the builder's bindings compute from extents, row after row.

    None if they are unknown, or if that takes more than some calls.
    """
    return _ListReader(builder).numbers(expr)


_COMPARING = frozenset(["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
_COMBINING = frozenset(["Add", "Clip", "Div", "Mod", "Mul", "Pow", "Sub"]) | _COMPARING


def with_tensors(node: OnnxNode) -> OnnxNode:
    """The node with tensors in the place of extents that it compares, or combines with a tensor.

    TVM passes them as they are, and few targets claim an op of a tensor and a number that is none; it fails
    to compare them.
    """
    is_computed = any(each is not None and _is_tensor(node, each) for each in node.inputs)
    name = node.proto.op_type
    if name not in _COMBINING or not (is_computed or name in _COMPARING):
        return node
    if not any(each is not None and isinstance(each.ty, tvm.ir.PrimType) for each in node.inputs):
        return node
    tensors = [None if each is None else as_tensor(node, each) for each in node.inputs]
    inputs = [each if tensor is None else tensor for each, tensor in zip(node.inputs, tensors, strict=True)]
    return replace(node, inputs=tuple(inputs))


def _is_tensor(node: OnnxNode, expr: relax.Expr) -> bool:
    """Whether the result is a tensor; TVM makes a number of any constant of one element, also of a list."""
    constant = node.constant(expr)
    return isinstance(expr.ty, relax.TensorType) and (constant is None or constant.shape != ())


def as_tensor(node: OnnxNode, expr: relax.Expr) -> relax.Expr | None:
    """A number computed from extents as a tensor of rank 0; None if it is another expression."""
    if not isinstance(expr.ty, tvm.ir.PrimType):
        return None
    if isinstance(expr, tirx.Cast):
        whole = as_tensor(node, expr.value)
        return None if whole is None else node.emit(relax.op.astype(whole, str(expr.ty)))
    if str(expr.ty) != "int64":
        return None
    return node.emit(relax.op.squeeze(node.emit(relax.op.shape_to_tensor(relax.ShapeExpr([expr]))), [0]))


def _is_list(expr: relax.Expr) -> bool:
    ty = expr.ty
    return isinstance(ty, relax.TensorType) and ty.ndim == 1 and str(ty.dtype) in _WHOLE


class _ListReader:
    """Derives the numbers of lists, and of single numbers, from the calls that compute them."""

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self._builder = builder
        self._calls = 0

    def numbers(self, expr: relax.Expr) -> _Numbers | None:
        """The numbers of a tensor, row after row; None if they are unknown."""
        if isinstance(expr, relax.ShapeExpr):
            return [int(each) if isinstance(each, tirx.IntImm) else each for each in expr.values]
        known = known_numbers(expr)
        if known is not None:
            return known.ravel().tolist() if known.dtype.name in _WHOLE and known.ndim < 2 else None
        value = self._builder.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
        self._calls += 1
        if isinstance(value, relax.TupleGetItem):
            return self._split_part(value)
        if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
            return self.numbers(value) if isinstance(value, relax.ShapeExpr) else None
        rule = _RULES.get(value.op.name)
        return rule(self, value) if rule is not None and self._calls <= _MOST_CALLS else None

    def _split_part(self, field: relax.TupleGetItem) -> _Numbers | None:
        """The numbers of one of the equal parts of a list."""
        whole = field.tuple_value
        value = self._builder.lookup_binding(whole) if isinstance(whole, relax.Var) else whole
        if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.split"):
            return None
        parts, numbers = getattr(value.attrs, "indices_or_sections", None), self.numbers(value.args[0])
        if not isinstance(parts, int | tirx.IntImm) or numbers is None or not _is_list(value.args[0]):
            return None
        size = -(-len(numbers) // int(parts))
        return numbers[field.index * size : (field.index + 1) * size]


_Rule = Callable[[_ListReader, relax.Call], _Numbers | None]


def _same(reader: _ListReader, call: relax.Call) -> _Numbers | None:
    """The numbers of the first operand, whose rank, or type, may be another one."""
    ty = call.args[0].ty
    is_whole = isinstance(ty, relax.ShapeType) or str(getattr(ty, "dtype", "")) in _WHOLE
    return reader.numbers(call.args[0]) if is_whole else None


def _part(reader: _ListReader, call: relax.Call) -> _Numbers | None:
    """A slice along one axis, also of rows of numbers, and also backwards."""
    numbers = _rows(reader, call.args[0])
    fields = [each.fields for each in call.args[1:] if isinstance(each, relax.Tuple)]
    if numbers is None or len(fields) + 1 < len(call.args) or any(len(each) != 1 for each in fields):
        return None
    bounds = [int(each) for (each,) in fields if isinstance(each, tirx.IntImm)]
    if len(bounds) < len(fields) or 0 in bounds[3:]:
        return None
    axis, *ends = bounds
    kept = np.moveaxis(numbers, axis, 0)[slice(*ends)]
    return list(np.moveaxis(kept, 0, axis).flat)


def _turned(reader: _ListReader, call: relax.Call) -> _Numbers | None:
    """Rows of numbers as columns."""
    numbers, axes = _rows(reader, call.args[0]), getattr(call.attrs, "axes", None)
    if numbers is None:
        return None
    return list(numbers.transpose(None if axes is None else [int(each) for each in axes]).flat)


def _rows(reader: _ListReader, expr: relax.Expr) -> np.ndarray | None:
    """The numbers of a tensor of any rank, in its shape; None if one of both is unknown."""
    ty, numbers = expr.ty, reader.numbers(expr)
    if numbers is None or not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    extents = [int(each) for each in ty.shape.values if isinstance(each, tirx.IntImm)]
    if len(extents) < len(ty.shape.values) or math.prod(extents) != len(numbers):
        return None
    return np.fromiter(numbers, object, len(numbers)).reshape(extents)


def _joined(reader: _ListReader, call: relax.Call) -> _Numbers | None:
    parts = (
        [reader.numbers(each) for each in call.args[0].fields]
        if isinstance(call.args[0], relax.Tuple)
        else []
    )
    known = [each for each in parts if each is not None]
    return [number for each in known for number in each] if parts and len(known) == len(parts) else None


def _taken(reader: _ListReader, call: relax.Call) -> _Numbers | None:
    numbers, places = reader.numbers(call.args[0]), known_numbers(call.args[1])
    if numbers is None or places is None or places.ndim > 1:
        return None
    chosen = np.atleast_1d(places).tolist()
    is_inside = all(-len(numbers) <= place < len(numbers) for place in chosen)
    return [numbers[place] for place in chosen] if is_inside else None


def _product(reader: _ListReader, call: relax.Call) -> _Numbers | None:
    """The product of all numbers, as TensorFlow's exporter joins axes."""
    numbers = reader.numbers(call.args[0])
    return None if numbers is None else [reduce(mul, numbers, 1)]


def _paired(
    function: Callable[[Extent, Extent], Extent],
) -> _Rule:
    def rule(reader: _ListReader, call: relax.Call) -> _Numbers | None:
        sides = [reader.numbers(each) for each in call.args]
        known = [each for each in sides if each is not None]
        if len(known) < len(sides):
            return None
        count = max(map(len, known))
        pairs = zip(*(each * count if len(each) == 1 else each for each in known), strict=True)
        return [function(*pair) for pair in pairs]

    return rule


def _by_divisor(function: Callable[[Extent, int], Extent]) -> _Rule:
    """Quotients and remainders by positive constants; quotients below zero are rounded otherwise."""

    def rule(reader: _ListReader, call: relax.Call) -> _Numbers | None:
        divisors = reader.numbers(call.args[1])
        positive = [each for each in divisors or () if isinstance(each, int) and each > 0]
        dividends = reader.numbers(call.args[0])
        if not positive or len(positive) < len(divisors or ()) or dividends is None:
            return None
        if any(bounds_of(each)[0] < 0 for each in dividends) and function is floordiv:
            return None
        count = max(len(positive), len(dividends))
        sides = (each * count if len(each) == 1 else each for each in (dividends, positive))
        return [function(*pair) for pair in zip(*sides, strict=True)]

    return rule


def _negated(reader: _ListReader, call: relax.Call) -> _Numbers | None:
    numbers = reader.numbers(call.args[0])
    return None if numbers is None else [-each for each in numbers]


def _of_lists(rule: _Rule) -> _Rule:
    """The rule, for operands that are lists or single numbers and no rows of numbers."""

    def of_lists(reader: _ListReader, call: relax.Call) -> _Numbers | None:
        given = [
            each for arg in call.args for each in (arg.fields if isinstance(arg, relax.Tuple) else [arg])
        ]
        is_flat = all(not isinstance(each.ty, relax.TensorType) or each.ty.ndim in (0, 1) for each in given)
        return rule(reader, call) if is_flat else None

    return of_lists


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(
        [f"relax.{name}" for name in ("shape_to_tensor", "astype", "squeeze", "expand_dims", "reshape")],
        _same,
    ),
    "relax.strided_slice": _part,
    "relax.permute_dims": _turned,
    "relax.concat": _of_lists(_joined),
    "relax.take": _of_lists(_taken),
    "relax.prod": _of_lists(_product),
    "relax.add": _of_lists(_paired(add)),
    "relax.subtract": _of_lists(_paired(sub)),
    "relax.multiply": _of_lists(_paired(mul)),
    "relax.floor_mod": _of_lists(_by_divisor(mod)),
    "relax.divide": _of_lists(_by_divisor(floordiv)),
    "relax.negative": _of_lists(_negated),
}
