"""Sorting along an axis: sort, argsort, topk, argmax, argmin and median."""

from __future__ import annotations

from collections.abc import Iterator

import tvm

from annotated_region.backends.dnnl.graph import DataType, Dim, Kind, TensorId, volume
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.index_parameters import Element, Ordering
from annotated_region.backends.dnnl.ops.checks import COUNTED, WHOLE, Problems, tensor_problem
from annotated_region.backends.dnnl.ops.registry import OpConversion, Results, converts
from annotated_region.backends.dnnl.parameters import Begins
from annotated_region.backends.dnnl.views import reshape
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []


def _rank_problem(op: OpView) -> str | None:
    return None if op.arg_tensor(0).ndim else "a tensor of rank 0 cannot be sorted"


def _axis(op: OpView) -> int:
    axis, rank = op.attrs["axis"], op.arg_tensor(0).ndim
    return int(axis) % rank


def _order(call: OpConversion, data: TensorId, axis: int, count: Dim, descending: bool) -> TensorId:
    """The int64 indices of the first `count` elements in sorted order."""
    shape = call.graph.shape(data)
    first = (*shape[:axis], count, *shape[axis + 1 :])
    return call.graph.add(Kind.ORDERING, (data,), first, Ordering(axis, descending), dtype=DataType.INT64)


def _elements(call: OpConversion, data: TensorId, order: TensorId, axis: int) -> TensorId:
    return call.graph.add(Kind.GATHER_ELEMENTS, (data, order), call.graph.shape(order), Element(axis))


def _fields(type_: tvm.ir.Type) -> Iterator[tvm.ir.Type]:
    """The types of a single result or of the fields of a tuple."""
    yield from getattr(type_, "fields", (type_,))


def _first_problems(op: OpView) -> Problems:
    yield _rank_problem(op)
    for type_ in _fields(op.out_type):
        yield tensor_problem(type_, "a result", COUNTED)
    whole, part = (_extent(type_, op) for type_ in (op.arg_types[0], next(_fields(op.out_type))))
    if isinstance(whole, int) and isinstance(part, int) and part > whole:
        yield f"it selects {part} of only {whole} elements"


def _extent(type_: tvm.ir.Type, op: OpView) -> Dim:
    return (extents_of(type_) or ())[_axis(op)]


@converts("relax.topk", types=COUNTED, result=None, unless=_first_problems)
def _topk(call: OpConversion) -> Results:
    """Values, indices, or both."""
    op, data, axis = call.op, call.operand(0), _axis(call.op)
    first = next(_fields(op.out_type))
    order = _order(call, data, axis, _extent(first, op), bool(op.attrs["largest"]))
    made = {"values": lambda: _elements(call, data, order, axis), "indices": lambda: _places(call, order)}
    if op.attrs["ret_type"] == "both":
        return made["values"](), made["indices"]()
    return made[op.attrs["ret_type"]]()


def _places(call: OpConversion, order: TensorId) -> TensorId:
    *_, last = _fields(call.op.out_type)
    return call.graph.cast(order, call.importer.dtype(last))


def _sorting_problems(op: OpView) -> Problems:
    yield _rank_problem(op)


@converts("relax.sort", types=COUNTED, result=COUNTED, unless=_sorting_problems)
def _sort(call: OpConversion) -> TensorId:
    data, axis = call.operand(0), _axis(call.op)
    order = _order(call, data, axis, call.shape[axis], bool(call.attrs["descending"]))
    return _elements(call, data, order, axis)


@converts("relax.argsort", types=COUNTED, result=WHOLE, unless=_sorting_problems)
def _argsort(call: OpConversion) -> TensorId:
    axis = _axis(call.op)
    order = _order(call, call.operand(0), axis, call.shape[axis], bool(call.attrs["descending"]))
    return _places(call, order)


@converts("relax.argmax", "relax.argmin", types=COUNTED, result=WHOLE, unless=_sorting_problems)
def _extreme(call: OpConversion) -> TensorId:
    """Argmax and argmin; without an axis, over the flattened tensor."""
    data, is_flat = call.operand(0), call.attrs["axis"] is None
    if is_flat:
        data = reshape(call.graph, data, (volume(call.graph.shape(data)),))
    order = _order(call, data, 0 if is_flat else _axis(call.op), 1, call.op.name == "relax.argmax")
    return _places(call, reshape(call.graph, order, call.shape))


def _middle_problems(op: OpView) -> Problems:
    yield _rank_problem(op)
    for type_ in _fields(op.out_type):
        yield tensor_problem(type_, "a result", COUNTED)
    axes, extents = op.attrs["axis"], extents_of(op.arg_types[0]) or ()
    if axes and len(axes) > 1:
        yield "a median over several axes"
    elif not all(isinstance(extent, int) for extent in ((extents[axes[0]],) if axes else extents)):
        yield "a median along a symbolic extent"


@converts("relax.median", types=COUNTED, result=None, unless=_middle_problems)
def _median(call: OpConversion) -> Results:
    """The middle element, the lower one of two; along one axis also its index."""
    graph, data, axes = call.graph, call.operand(0), call.op.attrs["axis"]
    if not axes:
        data = reshape(graph, data, (volume(graph.shape(data)),))
    shape = graph.shape(data)
    axis = int(axes[0]) % len(shape) if axes else 0
    before = (expect(int, shape[axis]) - 1) // 2
    order = _order(call, data, axis, before + 1, descending=False)
    begins = tuple(before if each == axis else 0 for each in range(len(shape)))
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    place = graph.add(Kind.SLICE, (order,), one, Begins(begins, (1,) * len(shape)))
    shape = extents_of(next(_fields(call.op.out_type))) or (1,)
    value = reshape(graph, _elements(call, data, place, axis), shape)
    return (value, reshape(graph, _places(call, place), shape)) if axes else value
