"""`ConstantOfShape`, `Reshape`, `Range`, `Equal` and `Gather` of extents, computed ones and those of tensors.

TVM's importer converts the first to a tensor of unknown shape, which a dataflow block cannot contain, and
rejects the second. Here computed extents become shape variables, bound by a `MatchCast` of the computed
shape. It computes the length of every `Range` at run time, also where extents of tensors state it; so it does
with a permuted shape. Its `Equal` finds no extent equal to a constant, and its `Ceil` rounds tensors alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.functions.extent_checks import without_traps
from annotated_region.importing.equations import symbolic_divisors
from annotated_region.importing.onnx_models.converters.expand import computed_extents
from annotated_region.importing.onnx_models.converters.extent_numbers import (
    as_tensor,
    numbers_of,
    shape_of_numbers,
)
from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import provably_equal, visit
from annotated_region.tvm_adapter.nodes import Analyzer, ConstIntBound, PrimExpr

__all__: list[str] = []

Extent = int | PrimExpr


@converts("", "ConstantOfShape", (1, 1), "value")
def _constant_of_shape(node: OnnxNode) -> relax.Expr:
    """A tensor of the given shape filled with one number, by default 0 of float32."""
    if _is_known(node, 0):
        return node.by_tvm()
    known = shape_of_numbers(node, 0)
    if known is not None:
        return node.with_input(0, known).by_tvm()
    from onnx import numpy_helper  # noqa: PLC0415 - an extra

    given = node.attributes.get("value")
    number = np.zeros(1, "float32") if given is None else numpy_helper.to_array(given.t)
    node.require(number.size == 1, f"has a value of {number.size} numbers; it should be one")
    extents = computed_extents(node, *_shape(node, 0))
    return relax.op.full(relax.ShapeExpr(extents), relax.const(number.reshape(())), str(number.dtype))


@converts("", "Reshape", (2, 2), "allowzero")
def _reshape(node: OnnxNode) -> relax.Expr:
    """In a computed shape, 0 copies the extent of the data, and -1 is inferred.

    TVM checks no call; where numbers of elements differ, its loops leave some out or read beyond the data.
    """
    given = node.inputs[0]
    if given is not None and isinstance(given.ty, tvm.ir.PrimType):
        return _reshaped_extent(node, given)
    if given is None or not isinstance(given.ty, relax.TensorType):
        return node.by_tvm()
    numbers = node.inputs[1] if _is_known(node, 1) else shape_of_numbers(node, 1)
    if numbers is not None:
        result = node.typed(node.with_input(1, numbers).by_tvm())
        divisors = [each for extent in node.shape(result) for each in symbolic_divisors(extent)]
        if all(map(node.equations.is_known_at_entry, divisors)):
            if isinstance(given.ty.shape, relax.ShapeExpr):
                node.require_as_many(node.shape(given), node.shape(result))
            return _in_parts(node, node.shape(result)) if divisors else result
        node = node.with_input(1, node.emit(relax.op.shape_to_tensor(numbers)))
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
    node.require_as_many(node.shape(data), extents)
    return relax.op.reshape(data, relax.ShapeExpr(extents))


def _in_parts(node: OnnxNode, extents: Sequence[Extent]) -> relax.Expr:
    """The data in a shape whose extents are divided by others; each call is checked that none of these is 0.

    Extents are computed before they are checked, and a division by 0 would end the process.
    """
    for extent in extents:
        node.equations.known.require_divisors(extent)
    safe = [each if isinstance(each, int) else _quotient(each) for each in extents]
    return relax.op.reshape(node.tensor(0), relax.ShapeExpr(safe))


def _quotient(extent: PrimExpr) -> Extent:
    """An extent whose divisors are at least 1: a number, if it is a multiple of what divides it."""
    times = _times(extent.a, extent.b) if isinstance(extent, tirx.FloorDiv) else None
    return without_traps(extent) if times is None else times


def _reshaped_extent(node: OnnxNode, extent: relax.Expr) -> relax.Expr:
    """One extent, which is a number of rank 0, with a constant shape: a list of one stays a shape."""
    numbers = None if node.inputs[1] is None else known_numbers(node.inputs[1])
    if numbers is None:
        raise node.declined("reshapes an extent to a computed shape")
    if not numbers.size:
        return extent
    shape = relax.ShapeExpr([extent])
    if numbers.tolist() in ([-1], [1]):
        return shape
    return relax.op.reshape(node.emit(relax.op.shape_to_tensor(shape)), numbers.tolist())


@converts("", "Shape", (1, 1), "start end")
def _extents_of(node: OnnxNode) -> relax.Expr:
    """TVM's; the extents are noted, since they are not below zero."""
    data = node.inputs[0]
    if data is not None and isinstance(data.ty, relax.TensorType) and data.ty.shape is not None:
        node.equations.known.note_extents(node.shape(data))
    return node.by_tvm()


@converts("", "Range", (3, 3))
def _range(node: OnnxNode) -> relax.Expr:
    """Positions, as many as the extents state; a length of its own would equal no extent of a tensor.

    A range that may end before it begins has no places then.
    """
    start, limit, step = (_computed_number(node, each) for each in node.inputs)
    if start is None or limit is None or not isinstance(step, int) or step == 0:
        return node.by_tvm()
    distance = limit - start if step > 0 else start - limit
    if isinstance(distance, int):
        return node.by_tvm()
    is_rising = step > 0 and _is_nonnegative(node, distance)
    places = (
        relax.op.arange(start, limit, step, "int64")
        if is_rising
        else _steps(node, start, Analyzer().simplify(distance), step)
    )
    dtype = _type_of(node.inputs[0])
    return places if dtype == "int64" else relax.op.astype(node.emit(places), dtype)


def _steps(node: OnnxNode, start: Extent, distance: PrimExpr, step: int) -> relax.Expr:
    """Places from a start, as many steps as lead over a distance; none if it is below zero."""
    count = distance if abs(step) == 1 else (distance + (abs(step) - 1)) // abs(step)
    if bounds_of(count)[0] < 0:
        count = tirx.Max(count, tirx.IntImm("int64", 0))
    begin = (
        relax.const(start, "int64")
        if isinstance(start, int)
        else node.emit(relax.op.shape_to_tensor(relax.ShapeExpr([start])))
    )
    places = node.emit(relax.op.arange(0, count, 1, "int64"))
    return relax.op.add(node.emit(relax.op.multiply(places, relax.const(step, "int64"))), begin)


@converts("", "Div", (2, 2))
def _divided(node: OnnxNode) -> relax.Expr:
    """An extent divided by a number as a floor division, of which TVM and targets know more.

    ONNX rounds towards zero, which differs below zero: that is the case for images smaller than a window. The
    number of windows of an image is that of a batch divided by its images.
    """
    left, right = (None if each is None else _extent_or_number(each) for each in node.inputs)
    times = None if left is None or right is None else _times(left, right)
    if times is not None:
        return relax.const(times, "int64")
    if left is None or right is None:
        return node.by_tvm()
    if not isinstance(right, int):
        return _divided_by_extent(node, left, right)
    if isinstance(left, int) or right < 1:
        return node.by_tvm()
    if bounds_of(left)[0] >= 0:
        return left // right
    nothing = tirx.IntImm("int64", 0)
    return tirx.Max(left, nothing) // right - tirx.Max(-left, nothing) // right


def _divided_by_extent(node: OnnxNode, left: Extent, right: PrimExpr) -> relax.Expr:
    """As PyTorch counts the columns of a mask whose batch has a name of its own; TVM's divides by 0, too."""
    if min(bounds_of(left)[0], bounds_of(right)[0]) < 0 or not node.equations.is_known_at_entry(right):
        return node.by_tvm()
    quotient = left // right
    node.equations.known.require_divisors(quotient)
    return without_traps(quotient)


@converts("", "Ceil", (1, 1))
def _rounded_up(node: OnnxNode) -> relax.Expr:
    """Of a quotient of extents in float32, exact below 2**24: the number of windows, as EnCodec pads."""
    given = node.inputs[0]
    found = _fraction(given) if given is not None and isinstance(given.ty, tvm.ir.PrimType) else None
    if found is None:
        return node.by_tvm()
    numerator, denominator = found
    return tirx.Cast("float32", numerator if denominator == 1 else -(-numerator // denominator))


def _fraction(number: relax.Expr) -> tuple[PrimExpr, int] | None:
    """A sum or quotient of whole numbers in float32, with a positive denominator; None if it is another."""
    if isinstance(number, tirx.FloatImm):
        value = float(number.value)
        return (tirx.IntImm("int64", int(value)), 1) if value.is_integer() else None
    if isinstance(number, tirx.Cast) and str(number.value.ty) == "int64":
        return number.value, 1
    if not isinstance(number, tirx.Add | tirx.Sub | tirx.Div):
        return None
    left, right = _fraction(number.a), _fraction(number.b)
    if left is None or right is None:
        return None
    (one, below_one), (other, below_other) = left, right
    if isinstance(number, tirx.Div):
        divisor = int(other) if isinstance(other, tirx.IntImm) else 0
        return (one * below_other, below_one * divisor) if divisor > 0 else None
    first, second = one * below_other, other * below_one
    total = first + second if isinstance(number, tirx.Add) else first - second
    return Analyzer().simplify(total), below_one * below_other


def _times(product: Extent, extent: Extent) -> int | None:
    """The number by which an extent is multiplied in a product; None if it is none, or both are numbers.

    What it is if each variable is 7 is proved for all values.
    """
    if isinstance(product, int) or isinstance(extent, int):
        return None
    analyzer, seven = Analyzer(), ConstIntBound(7, 7)
    for each in (product, extent):
        visit(each, [(tirx.Var, lambda variable: analyzer.update(variable, seven, override=True))])
    dividend, divisor = (int(analyzer.const_int_bound(each).min_value) for each in (product, extent))
    times = dividend // max(divisor, 1)
    return times if times > 0 and provably_equal(product, extent * times) else None


@converts("", "Max", (1, 2**16))
@converts("", "Min", (1, 2**16))
def _extreme(node: OnnxNode) -> relax.Expr:
    """Of extents, as Paddle's exporter writes the shape of each expanded tensor, an extent or a shape."""
    parts = [_known_numbers(node, each) for each in node.inputs]
    known = [part for part in parts if part is not None]
    numbers = [number for part in known for number in part]
    count = max(map(len, known), default=0)
    is_even = all(len(part) in (1, count) for part in known)
    if len(known) < len(parts) or not is_even or all(isinstance(number, int) for number in numbers):
        return node.by_tvm()
    join = tirx.Max if node.proto.op_type == "Max" else tirx.Min
    rows = zip(*(part * count if len(part) == 1 else part for part in known), strict=True)
    found = [reduce(partial(_joined, join), row) for row in rows]
    is_list = any(each is not None and not _is_number(each) for each in node.inputs)
    return relax.ShapeExpr(found) if is_list else found[0]


def _joined(join: Callable[[PrimExpr, PrimExpr], PrimExpr], left: Extent, right: Extent) -> Extent:
    one, other = (tirx.IntImm("int64", each) if isinstance(each, int) else each for each in (left, right))
    found = Analyzer().simplify(join(one, other))
    return int(found) if isinstance(found, tirx.IntImm) else found


def _known_numbers(node: OnnxNode, expr: relax.Expr | None) -> list[Extent] | None:
    """The numbers of a list, or one number, in int64 that are constant or computed from extents."""
    if expr is None or (not isinstance(expr, relax.ShapeExpr) and _type_of(expr) != "int64"):
        return None
    return [expr] if isinstance(expr.ty, tvm.ir.PrimType) else numbers_of(node.builder, expr)


def _is_number(expr: relax.Expr) -> bool:
    return isinstance(expr.ty, tvm.ir.PrimType) or getattr(expr.ty, "ndim", None) == 0


@converts("", "Equal", (2, 2))
def _equal(node: OnnxNode) -> relax.Expr:
    """Whether extents are certain numbers: a constant where all extents give one answer, else computed."""
    given = [each for each in node.inputs if each is not None]
    if any(isinstance(each.ty, tvm.ir.PrimType) for each in given):
        return _equal_number(node, given)
    if not any(isinstance(each, relax.ShapeExpr) for each in given):
        return node.by_tvm()
    parts = [_extents(each) for each in given]
    answers = [_is_certain(node, *pair) for pair in _pairs(*parts)] if all(parts) else [None]
    if None not in answers:
        return relax.const(np.array(answers), "bool")
    return relax.op.equal(*(_tensor(node, each) for each in given))


def _equal_number(node: OnnxNode, given: Sequence[relax.Expr]) -> relax.Expr:
    """Whether a number computed from extents is another one, as DeBERTa asks of the lengths of sequences."""
    numbers = [each for each in map(_extent_or_number, given) if each is not None]
    answer = _is_certain(node, *numbers) if len(numbers) == len(given) else None
    rank = max(0 if isinstance(each.ty, tvm.ir.PrimType) else rank_of(each) for each in given)
    if answer is not None:
        return relax.const(np.full([1] * rank, answer))
    tensors = [as_tensor(node, each) for each in given]
    return relax.op.equal(
        *(each if each is not None else side for each, side in zip(tensors, given, strict=True))
    )


@converts("", "Gather", (2, 2), "axis")
def _gather(node: OnnxNode) -> relax.Expr:
    """Several extents of a shape are a shape: ONNX Runtime permutes that of a tensor for a transposed one.

    Known places along a known axis are read directly; TVM computes at run time which are negative.
    """
    data, places = node.inputs
    numbers = None if places is None else known_numbers(places)
    if data is None or numbers is None:
        return node.by_tvm()
    if isinstance(data, relax.ShapeExpr):
        return node.by_tvm() if numbers.ndim != 1 else _extents_at(node, data, numbers.tolist())
    axis, extent = _axis_read(node, data)
    if extent is None or not ((-extent <= numbers) & (numbers < extent)).all():
        return node.by_tvm()
    return relax.op.take(data, relax.const(np.where(numbers < 0, numbers + extent, numbers)), axis)


def _extents_at(node: OnnxNode, shape: relax.ShapeExpr, places: list[int]) -> relax.Expr:
    extents = list(shape.values)
    node.require(
        all(-len(extents) <= each < len(extents) for each in places),
        f"reads the extents {places} of {len(extents)}",
    )
    return relax.ShapeExpr([extents[each] for each in places])


def _axis_read(node: OnnxNode, data: relax.Expr) -> tuple[int, int | None]:
    """The axis that a `Gather` reads along, and its extent; None if it is unknown."""
    if not isinstance(data.ty, relax.TensorType) or not isinstance(data.ty.shape, relax.ShapeExpr):
        return 0, None
    shape = node.shape(data)
    axis = node.integer("axis", 0, -len(shape), len(shape) - 1) % len(shape) if shape else 0
    extent = shape[axis] if shape else None
    return axis, extent if isinstance(extent, int) else None


def _tensor(node: OnnxNode, expr: relax.Expr) -> relax.Expr:
    return node.emit(relax.op.shape_to_tensor(expr)) if isinstance(expr, relax.ShapeExpr) else expr


def _extents(expr: relax.Expr) -> list[Extent]:
    """The numbers of a shape or of a constant list; empty for any other expression."""
    if isinstance(expr, relax.ShapeExpr):
        return [int(each) if isinstance(each, tirx.IntImm) else each for each in expr.values]
    numbers = known_numbers(expr)
    return [] if numbers is None or numbers.ndim != 1 else numbers.tolist()


def _pairs(left: list[Extent], right: list[Extent]) -> list[tuple[Extent, Extent]]:
    """The numbers side by side, with a single one repeated."""
    count = max(len(left), len(right))
    sides = [side * count if len(side) == 1 else side for side in (left, right)]
    return list(zip(*sides, strict=True))


def _is_certain(node: OnnxNode, left: Extent, right: Extent) -> bool | None:
    """Whether two numbers are equal; None if that depends on the extents.

    Exporters ask of each extent of a shape whether it is -1, which stands for the extent that is there.
    """
    answer = _are_equal(left, right)
    extent, number = (right, left) if isinstance(left, int) else (left, right)
    if answer is not None or isinstance(extent, int) or not isinstance(number, int) or number >= 0:
        return answer
    return False if _is_nonnegative(node, extent) else None


def _is_nonnegative(node: OnnxNode, number: PrimExpr) -> bool:
    """Whether a number is never below zero; if it is an extent that might be, each call is checked."""
    if bounds_of(number)[0] >= 0:
        return True
    if not node.equations.known.is_extent(number):
        return False
    zero = tirx.IntImm("int64", 0)
    node.require_equal(tirx.Min(number, zero), zero)
    return True


def _are_equal(left: Extent, right: Extent) -> bool | None:
    """Whether two numbers are equal; None if that depends on the extents."""
    least, most = bounds_of(left - right)
    if least > 0 or most < 0:
        return False
    return True if provably_equal(left, right) else None


def _whole_number(expr: relax.Expr | None) -> Extent | None:
    """An int64 number, or one cast from int64 to float32, that is constant or computed from extents.

    Exporters of detectors cast extents to float32, which is exact below 2**24.
    """
    if isinstance(expr, tirx.Cast) and str(expr.ty) == "float32":
        expr = expr.value
    if expr is None:
        return None
    numbers = known_numbers(expr)
    if numbers is None:
        return expr if isinstance(expr, PrimExpr) and str(expr.ty) == "int64" else None
    is_whole = numbers.size == 1 and numbers.dtype.name in ("int64", "float32")
    return int(numbers.item()) if is_whole and float(numbers.item()).is_integer() else None


def _computed_number(node: OnnxNode, expr: relax.Expr | None) -> Extent | None:
    """A whole number, also one that bindings compute from extents in int32, as TensorFlow's do."""
    found = _whole_number(expr)
    if found is not None or expr is None or not isinstance(expr.ty, relax.TensorType) or expr.ty.ndim:
        return found
    numbers = numbers_of(node.builder, expr)
    return None if numbers is None else numbers[0]


def _extent_or_number(expr: relax.Expr) -> Extent | None:
    """An int64 number of rank 0 that is a constant, or computed from extents."""
    return _whole_number(expr) if _type_of(expr) == "int64" else None


def _type_of(expr: relax.Expr | None) -> str:
    """The type of a number."""
    ty = None if expr is None else expr.ty
    return str(ty.dtype) if isinstance(ty, relax.TensorType | tvm.ir.PrimType) else ""


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
