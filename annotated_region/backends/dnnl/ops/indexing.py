"""Elements at computed indices: embeddings, gathers, advanced indexing, reversed axes and sequences."""

from __future__ import annotations

import math

import numpy as np
from tvm import tirx

from annotated_region.backends.dnnl.graph import DataType, Dim, Graph, Kind, TensorId, same_dim
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.index_parameters import Bounds, Element, Gather
from annotated_region.backends.dnnl.ops.checks import (
    FLOATS,
    MOVABLE,
    WHOLE,
    Problems,
    field_problems,
    tensor_problem,
)
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.ops.shape import part
from annotated_region.backends.dnnl.parameters import (
    Begins,
    Comparing,
    Comparison,
    Range,
    Whole,
    WholeFunction,
)
from annotated_region.backends.dnnl.views import broadcast_to, reshape
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__ = ["fields_of_last_axis", "index_operand"]

LEAST_EXTENT = 1  # of any axis at run time: the runtime refuses empty tensors
BOUNDS = {
    "fast": Bounds.CHECKED,
    "clip": Bounds.CLIPPED,
    "wrap": Bounds.WRAPPED,
    "nan": Bounds.UNDEFINED,
}
"""How TVM treats an index out of range, by the mode of a `take`.

In mode ``"fast"`` TVM reads out of bounds; here the call fails instead.
"""


def _axis(op: OpView) -> int:
    """The axis of a `take`; 0 for a take from the flattened tensor."""
    axis = op.attrs["axis"]
    return 0 if axis is None else int(axis) % op.arg_tensor(0).ndim


def _bounds(op: OpView) -> Bounds | None:
    """How an index out of range is treated; for a flattened tensor TVM takes it modulo the size."""
    bounds = BOUNDS.get(op.attrs["mode"])
    return Bounds.WRAPPED if op.attrs["axis"] is None and bounds is Bounds.CHECKED else bounds


def _index_problems(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[1], "the index", WHOLE)
    bounds = _bounds(op)
    if bounds is None:
        yield f"the mode {op.attrs['mode']}"
    if op.attrs["axis"] is None and op.arg_tensor(0).ndim != 1:
        yield "it indexes the flattened tensor"
    if bounds is Bounds.UNDEFINED and (op.attrs["axis"] is None or str(op.arg_tensor(0).dtype) not in FLOATS):
        yield "mode 'nan' needs a float dtype"
    index, extent = op.constant(1), (extents_of(op.arg_types[0]) or ())[_axis(op)]
    if index is None or bounds is not Bounds.CHECKED:
        return
    if (index < 0).any() or (isinstance(extent, int) and (index >= extent).any()):
        yield "an index is out of range"


@converts("relax.take", types=MOVABLE, result=MOVABLE, unless=_index_problems)
def _take(call: OpConversion) -> TensorId:
    """Rows of a table, such as word embeddings; constant consecutive indices become a slice."""
    axis, first = _axis(call.op), _first_neighbour(call.op)
    if first is None:
        bounds = _bounds(call.op)
        assert bounds is not None
        return call.add(Kind.GATHER, [call.operand(0), index_operand(call, 1)], Gather(axis, False, bounds))
    extents = call.extents(0)
    begins = [first if each == axis else 0 for each in range(len(extents))]
    size = math.prod(int(extent) for extent in call.extents(1) if isinstance(extent, int))
    shape = [size if each == axis else extent for each, extent in enumerate(extents)]
    return reshape(call.graph, part(call, begins, [1] * len(extents), shape), call.shape)


def _first_neighbour(op: OpView) -> int | None:
    """The first index, if the indices are constant, consecutive and in range; else None."""
    index, extent = op.constant(1), (extents_of(op.arg_types[0]) or ())[_axis(op)]
    if index is None or index.ndim > 1 or index.size == 0:
        return None
    flat = index.reshape(-1)
    is_row = np.array_equal(flat, np.arange(flat.size) + flat[0])
    last = extent if isinstance(extent, int) else LEAST_EXTENT
    return int(flat[0]) if is_row and flat[0] >= 0 and flat[-1] < last else None


def index_operand(call: OpConversion, index: int) -> TensorId:
    """An index argument in the type that the runtime reads."""
    return call.graph.cast(call.operand(index), DataType.INT64)


def _elements_problems(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[1], "the indices", WHOLE)
    axis = op.attrs["axis"] % op.arg_tensor(0).ndim
    pairs = zip(extents_of(op.arg_types[0]) or (), extents_of(op.arg_types[1]) or (), strict=True)
    for each, (whole, extent) in enumerate(pairs):
        is_known = isinstance(whole, int) and isinstance(extent, int)
        if each != axis and is_known and extent > whole:
            yield f"there are more indices than elements along axis {each}"


@converts("relax.flip", types=MOVABLE, result=MOVABLE)
def _flip(call: OpConversion) -> TensorId:
    """Gathers along an axis, from the last element to the first."""
    axis = call.attrs["axis"] % len(call.shape)
    extent = call.shape[axis]
    last = extent - 1 if isinstance(extent, int) else tirx.Sub(extent, tirx.IntImm("int64", 1))
    backwards = call.graph.add(Kind.RANGE, (), (extent,), Range(last, -1), dtype=DataType.INT64)
    return call.add(Kind.GATHER, [call.operand(0), backwards], Gather(axis, False, Bounds.CHECKED))


def _sequence_problems(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[1], "the lengths", WHOLE)
    rank = op.arg_tensor(0).ndim
    if {op.attrs[name] % rank for name in ("batch_axis", "seq_axis")} != {0, 1}:
        yield "axes of batch and time other than the first two"


@converts("relax.reverse_sequence", types=MOVABLE, result=MOVABLE, unless=_sequence_problems)
def _reverse_sequence(call: OpConversion) -> TensorId:
    """Gathers by a batch and a time: ``t`` becomes ``length - 1 - t`` where it is below the length."""
    graph, axis = call.graph, call.attrs["seq_axis"] % len(call.shape)
    places = call.shape[:2]
    batches, times = (_line(graph, places, each) for each in (1 - axis, axis))
    along = tuple(1 if each == axis else extent for each, extent in enumerate(places))
    given = reshape(graph, index_operand(call, 1), along)
    lengths = _whole(graph, WholeFunction.MINIMUM, (given, _number(graph, places[axis])), along)
    last = _whole(graph, WholeFunction.SUBTRACT, (lengths, _number(graph, 1)), along)
    backwards = _whole(graph, WholeFunction.SUBTRACT, (last, times), places)
    inside = Comparing(Comparison.LESS)
    is_inside = graph.add(Kind.COMPARISON, (times, lengths), places, inside, dtype=DataType.FLOAT32)
    turned = graph.add(Kind.SELECT, (is_inside, backwards, times), places, dtype=DataType.INT64)
    indices = [broadcast_to(graph, batches, places), turned]
    if axis == 0:
        indices.reverse()
    return call.add(Kind.GATHER, [call.operand(0), *indices], Gather(0, False, Bounds.CHECKED))


def _line(graph: Graph, places: tuple[Dim, ...], axis: int) -> TensorId:
    """The places along one axis, beside those of the other one."""
    count = graph.add(Kind.RANGE, (), (places[axis],), Range(0, 1), dtype=DataType.INT64)
    return reshape(graph, count, tuple(extent if each == axis else 1 for each, extent in enumerate(places)))


def _number(graph: Graph, value: Dim) -> TensorId:
    """One whole number, with two axes."""
    return graph.add(Kind.RANGE, (), (1, 1), Range(value, 0), dtype=DataType.INT64)


def _whole(
    graph: Graph, function: WholeFunction, operands: tuple[TensorId, ...], shape: tuple[Dim, ...]
) -> TensorId:
    return graph.add(Kind.WHOLE, operands, shape, Whole(function))


@converts("relax.gather_elements", types=MOVABLE, result=MOVABLE, unless=_elements_problems)
def _gather_elements(call: OpConversion) -> TensorId:
    axis = call.attrs["axis"] % len(call.shape)
    return call.add(Kind.GATHER_ELEMENTS, [call.operand(0), index_operand(call, 1)], Element(axis))


def _places_problems(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[1], "the indices", WHOLE)
    places = extents_of(op.arg_types[1]) or ()
    count, batch = places[-1], op.attrs["batch_dims"]
    if not isinstance(count, int) or count + batch > op.arg_tensor(0).ndim:
        yield f"{count} indices per element"
    if not all(map(same_dim, places[:batch], (extents_of(op.arg_types[0]) or ())[:batch])):
        yield "the batches of data and indices differ"


@converts("relax.gather_nd", types=MOVABLE, result=MOVABLE, unless=_places_problems)
def _gather_nd(call: OpConversion) -> TensorId:
    """The last axis of the indices enumerates the indexed axes of the data."""
    axis, parts = call.attrs["batch_dims"], fields_of_last_axis(call, index_operand(call, 1))
    return call.add(Kind.GATHER, [call.operand(0), *parts], Gather(axis, axis > 0, Bounds.CHECKED))


def fields_of_last_axis(call: OpConversion, tensor: TensorId) -> list[TensorId]:
    """The elements of the last axis one by one, each with an axis of one in its place."""
    count = expect(int, call.graph.shape(tensor)[-1])
    return [_last(call, tensor, number) for number in range(count)] if count > 1 else [tensor]


def _last(call: OpConversion, tensor: TensorId, number: int) -> TensorId:
    """Element `number` of the last axis."""
    shape: tuple[Dim, ...] = (*call.graph.shape(tensor)[:-1], 1)
    begins = (*(0,) * (len(shape) - 1), number)
    return call.graph.add(Kind.SLICE, (tensor,), shape, Begins(begins, (1,) * len(shape)))


def _advanced_problems(op: OpView) -> Problems:
    yield from field_problems(op.arg_types[1], "the indices", "index", WHOLE)


@converts("relax.index_tensor", types=MOVABLE, result=MOVABLE, unless=_advanced_problems)
def _index_tensor(call: OpConversion) -> TensorId:
    """One index tensor for each leading axis, broadcast together."""
    graph = call.graph
    given = call.importer.operands(call.op.args[1])
    places = call.shape[: len(call.shape) - len(call.extents(0)) + len(given)] or (1,)
    indices = [broadcast_to(graph, graph.cast(each, DataType.INT64), places) for each in given]
    return call.add(Kind.GATHER, [call.operand(0), *indices], Gather(0, False, Bounds.CHECKED))
