"""Integers: arithmetic, comparisons, cumulative sums, ranges; and predicates such as isnan."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax, tirx

from annotated_region.backends.dnnl.graph import HALVES, DataType, Kind, TensorId, volume
from annotated_region.backends.dnnl.importer import shape_of
from annotated_region.backends.dnnl.ops.checks import (
    BYTES,
    COUNTED,
    FLOAT,
    FLOATS,
    MOVABLE,
    OPERANDS,
    TRUTH,
    WHOLE,
    Problems,
    is_made_of_extents,
    is_whole,
    tensor_problem,
)
from annotated_region.backends.dnnl.ops.normalization import reduced_axes, reduction_problem
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import (
    Combination,
    Comparing,
    Comparison,
    Concat,
    Cumulation,
    Predicate,
    Property,
    Range,
    Whole,
    WholeFunction,
    WholeReduction,
)
from annotated_region.backends.dnnl.views import align_rank, broadcast_to, permute, reshape
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []

PAIRWISE: Mapping[str, WholeFunction] = {
    "relax.add": WholeFunction.ADD,
    "relax.subtract": WholeFunction.SUBTRACT,
    "relax.multiply": WholeFunction.MULTIPLY,
    "relax.minimum": WholeFunction.MINIMUM,
    "relax.maximum": WholeFunction.MAXIMUM,
    "relax.bitwise_and": WholeFunction.BITWISE_AND,
    "relax.bitwise_or": WholeFunction.BITWISE_OR,
    "relax.bitwise_xor": WholeFunction.BITWISE_XOR,
}
QUOTIENTS: Mapping[str, WholeFunction] = {
    "relax.floor_divide": WholeFunction.FLOOR_DIVIDE,
    "relax.floor_mod": WholeFunction.FLOOR_MOD,
    "relax.divide": WholeFunction.TRUNCATED_DIVIDE,
    "relax.mod": WholeFunction.TRUNCATED_MOD,
}
SINGLE: Mapping[str, WholeFunction] = {
    "relax.bitwise_not": WholeFunction.BITWISE_NOT,
    "relax.negative": WholeFunction.NEGATIVE,
    "relax.abs": WholeFunction.ABSOLUTE,
    "relax.sign": WholeFunction.SIGN,
}
COMPARISONS: Mapping[str, tuple[Comparison, bool]] = {
    "relax.equal": (Comparison.EQUAL, False),
    "relax.not_equal": (Comparison.NOT_EQUAL, False),
    "relax.less": (Comparison.LESS, False),
    "relax.less_equal": (Comparison.LESS_EQUAL, False),
    "relax.greater": (Comparison.LESS, True),
    "relax.greater_equal": (Comparison.LESS_EQUAL, True),
}
"""The comparison in the runtime, and whether its operands are exchanged."""

REDUCTIONS: Mapping[str, Combination] = {
    "relax.sum": Combination.ADD,
    "relax.prod": Combination.MUL,
    "relax.min": Combination.MIN,
    "relax.max": Combination.MAX,
}

NUMBERS = (FLOAT, *WHOLE, *BYTES)
"""The types that bytes are converted from and to."""

PROPERTIES: Mapping[str, Property] = {
    "relax.isnan": Property.UNDEFINED,
    "relax.isinf": Property.INFINITE,
    "relax.isfinite": Property.FINITE,
}


def _operand_problems(op: OpView) -> Problems:
    for index, what in enumerate(OPERANDS):
        yield tensor_problem(op.arg_types[index], what, WHOLE)


def _compared_problems(op: OpView) -> Problems:
    """Relax compares numbers of two types; other ops refuse them."""
    yield from _operand_problems(op)
    left, right = (op.arg_tensor(index).dtype for index in range(len(OPERANDS)))
    if left != right:
        yield f"the operands are of the types {left} and {right}"


def _divisor_problems(op: OpView) -> Problems:
    yield from _operand_problems(op)
    divisor = op.constant(1)
    if divisor is None or not divisor.all():
        yield "the divisor is not a nonzero constant"


@converts(*QUOTIENTS, operands=(), result=WHOLE, unless=_divisor_problems, suits=is_whole)
@converts(*PAIRWISE, operands=(), result=WHOLE, unless=_operand_problems, suits=is_whole)
def _pairwise(call: OpConversion) -> TensorId:
    function = {**PAIRWISE, **QUOTIENTS}[call.op.name]
    return call.add(Kind.WHOLE, _aligned(call), Whole(function))


def _aligned(call: OpConversion) -> list[TensorId]:
    """The operands, reshaped to the rank of the result."""
    return [align_rank(call.graph, each, len(call.shape)) for each in call.operands()]


@converts(*SINGLE, types=WHOLE, result=WHOLE, suits=is_whole)
def _single(call: OpConversion) -> TensorId:
    return call.add(Kind.WHOLE, [call.operand(0)], Whole(SINGLE[call.op.name]))


@converts(*COMPARISONS, operands=(), result=(TRUTH,), unless=_compared_problems, suits=is_whole)
def _comparison(call: OpConversion) -> TensorId:
    comparison, is_exchanged = COMPARISONS[call.op.name]
    operands = _aligned(call)
    inputs = operands[::-1] if is_exchanged else operands
    return call.add(Kind.COMPARISON, inputs, Comparing(comparison), DataType.FLOAT32)


@converts(*PROPERTIES, result=(TRUTH,))
def _property(call: OpConversion) -> TensorId:
    return call.add(Kind.PREDICATE, [call.operand(0)], Predicate(PROPERTIES[call.op.name]))


def _has_bytes(op: OpView) -> bool:
    """Whether a cast is between bytes and numbers; bytes made of booleans are floats (PyTorch's `any`)."""
    dtypes = [str(getattr(type_, "dtype", None)) for type_ in (op.arg_types[0], op.out_type)]
    return TRUTH not in dtypes and any(dtype in BYTES for dtype in dtypes)


@converts("relax.astype", types=NUMBERS, result=NUMBERS, suits=_has_bytes)
def _astype_of_bytes(call: OpConversion) -> TensorId:
    """Casts to a byte keep the low 8 bits; a float is first converted to int32."""
    return call.graph.cast(call.operand(0), call.importer.dtype(call.op.out_type))


@converts("relax.astype", types=COUNTED, result=COUNTED)
def _astype(call: OpConversion) -> TensorId:
    """Casts; floats and booleans are float32 inside a region, and a cast to a half rounds."""
    graph, data = call.graph, call.operand(0)
    given, wanted = (call.importer.dtype(each) for each in (call.op.arg_types[0], call.op.out_type))
    if wanted is DataType.TRUTH and given.value in (*FLOATS, *WHOLE):
        return call.add(Kind.PREDICATE, [data], Predicate(Property.NOT_ZERO), DataType.FLOAT32)
    if wanted.value in WHOLE:
        return graph.cast(data, wanted)
    number = graph.cast(data, DataType.FLOAT32)
    if wanted not in HALVES or given in (wanted, DataType.TRUTH):
        return number
    if wanted is DataType.FLOAT16 and graph.is_made_of(number, wanted):
        return number  # PyTorch exports a float16 op as cast, op, cast: regions do not round its result
    return graph.cast(graph.cast(number, wanted), DataType.FLOAT32)


@converts("relax.cumsum", "relax.cumprod", types=MOVABLE, result=(*FLOATS, *WHOLE))
def _cumulated(call: OpConversion) -> TensorId:
    """Cumulative sums or products; those of halves are float32 inside. Without an axis, over all elements."""
    axis, graph, wanted = call.attrs["axis"], call.graph, call.importer.dtype(call.op.out_type)
    data = graph.cast(call.operand(0), DataType.FLOAT32 if wanted in HALVES else wanted)
    multiplies = call.op.name == "relax.cumprod"
    parameters = Cumulation((axis or 0) % len(call.shape), bool(call.attrs["exclusive"]), multiplies)
    return call.add(Kind.CUMULATION, [reshape(graph, data, call.shape)], parameters)


@converts(*REDUCTIONS, types=WHOLE, result=WHOLE, unless=reduction_problem, suits=is_whole)
def _reduction(call: OpConversion) -> TensorId:
    """A reduction of the last axis, which the reduced axes become."""
    graph, shape, axes = call.graph, call.extents(0), reduced_axes(call.op)
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    moved = permute(graph, call.operand(0), (*kept, *axes))
    before = tuple(shape[axis] for axis in kept)
    rows = reshape(graph, moved, (*before, volume([shape[axis] for axis in axes])))
    parameters = WholeReduction(REDUCTIONS[call.op.name])
    return reshape(graph, graph.add(Kind.WHOLE_REDUCTION, (rows,), (*before, 1), parameters), call.shape)


def _range_problems(op: OpView) -> Problems:
    start, _end, step = op.args
    if not is_made_of_extents(start):
        yield f"the start {start} cannot be computed at run time"
    if not isinstance(step, tirx.IntImm):
        yield "the step is not a constant integer"


@converts("relax.arange", operands=(), result=WHOLE, unless=_range_problems)
def _arange(call: OpConversion) -> TensorId:
    (start,) = shape_of(call.op.args[:1])
    step = int(expect(tirx.IntImm, call.op.args[2]))
    return call.add(Kind.RANGE, [], Range(start, step), call.importer.dtype(call.op.out_type))


def _shape_problems(op: OpView) -> Problems:
    shape = op.args[0]
    if not isinstance(shape, relax.ShapeExpr):
        yield "the shape is computed by another op"
        return
    for extent in shape.values:
        if not is_made_of_extents(extent):
            yield f"the extent {extent} cannot be computed at run time"


@converts("relax.shape_to_tensor", operands=(), result=WHOLE, unless=_shape_problems)
def _shape_to_tensor(call: OpConversion) -> TensorId:
    """Each extent is a range of one number."""
    extents = shape_of(expect(relax.ShapeExpr, call.op.args[0]).values)
    graph, dtype = call.graph, call.importer.dtype(call.op.out_type)
    parts = [graph.add(Kind.RANGE, (), (1,), Range(extent, 0), dtype=dtype) for extent in extents]
    return parts[0] if len(parts) == 1 else call.add(Kind.CONCAT, parts, Concat(0))


def _likeness_problems(op: OpView) -> Problems:
    """The tensor whose extents the result has is an input of the region, though it is not read."""
    if op.name.endswith("_like"):
        yield tensor_problem(op.arg_types[0], "the data", MOVABLE)


def _filling_problems(op: OpView) -> Problems:
    yield from _likeness_problems(op)
    value = op.constant(1)
    if value is None or value.size != 1 or str(value.dtype) != str(op.out_tensor.dtype):
        yield "the fill value is not a constant scalar of the result's dtype"


@converts("relax.full", "relax.full_like", operands=(), result=MOVABLE, unless=_filling_problems)
def _full(call: OpConversion) -> TensorId:
    return broadcast_to(call.graph, call.operand(1), call.shape)


FILLED = {"relax.zeros": 0, "relax.ones": 1, "relax.zeros_like": 0, "relax.ones_like": 1}


@converts(*FILLED, operands=(), result=COUNTED, unless=_likeness_problems)
def _filled(call: OpConversion) -> TensorId:
    name = str(call.op.out_tensor.dtype)
    dtype = DataType(name) if name in WHOLE else DataType.FLOAT32
    return call.add(Kind.RANGE, [], Range(FILLED[call.op.name], 0), dtype)
