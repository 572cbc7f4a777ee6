"""Updates of elements at computed indices: scatters, advanced assignment."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import DataType, Dim, Kind, TensorId, same_dim, same_shape
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.index_parameters import ElementScatter, Scatter
from annotated_region.backends.dnnl.ops.checks import (
    FLOATS,
    MOVABLE,
    WHOLE,
    Problems,
    field_problems,
    tensor_problem,
)
from annotated_region.backends.dnnl.ops.indexing import fields_of_last_axis, index_operand
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import Combination
from annotated_region.backends.dnnl.views import broadcast_to
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

COMBINATIONS = {combination.value: combination for combination in Combination}


def _combination_problem(op: OpView, reduction: str) -> Problems:
    dtype = str(op.arg_tensor(0).dtype)
    if reduction not in COMBINATIONS:
        yield f"the reduction {reduction}"
    elif reduction != Combination.UPDATE.value and dtype not in (*FLOATS, *WHOLE):
        yield f"the reduction {reduction} of {dtype}"


def _elements_problems(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[1], "the indices", WHOLE)
    yield from _combination_problem(op, op.attrs["reduction"])
    data, places, updates = (extents_of(type_) or () for type_ in op.arg_types)
    if not same_shape(places, updates):
        yield "the updates have other extents than the indices"
    for axis, (whole, extent) in enumerate(zip(data, places, strict=True)):
        is_known = isinstance(whole, int) and isinstance(extent, int)
        is_inside = extent <= whole if is_known else same_dim(whole, extent)
        if axis != op.attrs["axis"] % len(data) and not is_inside:
            yield f"there may be more indices than elements along axis {axis}"


@converts("relax.scatter_elements", types=MOVABLE, result=MOVABLE, unless=_elements_problems)
def _scatter_elements(call: OpConversion) -> TensorId:
    axis = call.attrs["axis"] % len(call.shape)
    parameters = ElementScatter(axis, COMBINATIONS[call.attrs["reduction"]])
    inputs = [call.operand(0), call.operand(2), index_operand(call, 1)]
    return call.add(Kind.SCATTER_ELEMENTS, inputs, parameters)


def _slices_problems(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[1], "the indices", WHOLE)
    yield from _combination_problem(op, op.attrs["reduction"])
    data, places, updates = (extents_of(type_) or () for type_ in op.arg_types)
    count = places[-1] if places else None
    if not isinstance(count, int) or count > len(data):
        yield f"{count} indices per slice"
    elif not same_shape(updates, (*places[:-1], *data[count:])):
        yield "the updates have other extents than the slices at the indices"


@converts("relax.scatter_nd", types=MOVABLE, result=MOVABLE, unless=_slices_problems)
def _scatter_nd(call: OpConversion) -> TensorId:
    """The last axis of the indices enumerates the indexed axes of the data."""
    parts = fields_of_last_axis(call, index_operand(call, 1))
    inputs = [call.operand(0), call.operand(2), *parts]
    return call.add(Kind.SCATTER, inputs, Scatter(COMBINATIONS[call.attrs["reduction"]]))


def _assignment_problems(op: OpView) -> Problems:
    yield from field_problems(op.arg_types[1], "the indices", "index", WHOLE)
    yield tensor_problem(op.arg_types[2], "the values", MOVABLE)
    yield from _combination_problem(op, _assignment(op).value)
    indices = [extents_of(field) or () for field in getattr(op.arg_types[1], "fields", ())]
    values = extents_of(op.arg_types[2]) or ()
    if len(indices) != op.arg_tensor(0).ndim:
        yield f"{len(indices)} indices of {op.arg_tensor(0).ndim} axes"
    elif not any(same_shape(each, values) for each in indices):
        yield "no index has the extents of the values"
    for each in indices:
        if len(each) > len(values) or not all(map(_repeats, reversed(each), reversed(values))):
            yield "an index does not broadcast to the extents of the values"


def _repeats(given: Dim, wanted: Dim) -> bool:
    return same_dim(given, 1) or same_dim(given, wanted)


def _assignment(op: OpView) -> Combination:
    return Combination.ADD if op.attrs["accumulate"] else Combination.UPDATE


@converts("relax.index_put", types=MOVABLE, result=MOVABLE, unless=_assignment_problems)
def _index_put(call: OpConversion) -> TensorId:
    """One index tensor for each axis, broadcast to the extents of the values."""
    graph, values = call.graph, call.operand(2)
    places = graph.shape(values)
    given = call.importer.operands(call.op.args[1])
    indices = [broadcast_to(graph, graph.cast(each, DataType.INT64), places) for each in given]
    return call.add(Kind.SCATTER, [call.operand(0), values, *indices], Scatter(_assignment(call.op)))
