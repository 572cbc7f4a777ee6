"""Element rules of operations that move integers and booleans."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax, tirx

from annotated_region.passes.preparation.elements.element_reader import (
    ElementReader,
    ElementRule,
    Index,
    is_one,
    occurrences,
    whole,
)
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Analyzer, PrimExpr

__all__ = ["MOVING"]

MOST_PARTS = 4
"""The maximum number of operands of ``concat``; each adds a case to the expression."""


def _reshape(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    """Axes of extent 1 may be added or removed; other axes must keep their order and extents."""
    before, after = reader.shape(view.args[0]), reader.shape(view.call)
    if before is None or after is None:
        return None
    kept = [(extent, place) for extent, place in zip(after, index, strict=True) if not is_one(extent)]
    places: list[PrimExpr] = []
    for extent in before:
        if is_one(extent):
            places.append(whole(0))
        elif not kept or not reader.are_equal(extent, kept[0][0]):
            return None
        else:
            places.append(kept.pop(0)[1])
    return None if kept else reader.element(view.args[0], tuple(places))


def _broadcast(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    extents = reader.shape(view.call)
    return None if extents is None else reader.operand(view.args[0], index, extents)


def _permute(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    rank = len(index)
    axes = view.attrs["axes"] or tuple(reversed(range(rank)))
    places = {axis % rank: place for axis, place in zip(axes, index, strict=True)}
    return reader.element(view.args[0], tuple(places[axis] for axis in range(rank)))


def _concat(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    """Selects the operand by index; each operand begins where the previous one ends."""
    whole_tuple = reader.editor.value_of(view.args[0])
    if not isinstance(whole_tuple, relax.Tuple) or len(whole_tuple.fields) > MOST_PARTS:
        return None
    axis = (view.attrs["axis"] or 0) % len(index)
    result: PrimExpr | None = None
    begins: list[PrimExpr] = [whole(0)]
    for part in whole_tuple.fields:
        extents = reader.shape(part)
        if extents is None:
            return None
        begins.append(tirx.Add(begins[-1], extents[axis]))
    parts = list(zip(whole_tuple.fields, begins[:-1], begins[1:], strict=True))
    for part, begin, end in reversed(parts):
        place = reader.simplified(tirx.Sub(index[axis], begin))
        found = reader.element(part, (*index[:axis], place, *index[axis + 1 :]))
        if found is None:
            return None
        if result is None:
            result = found
        elif not (
            reader.are_equal(end, tirx.Add(begin, whole(1)))
            and _agree(found, result, index[axis], begin, reader)
        ):
            result = tirx.Select(tirx.LT(index[axis], end), found, result)
    return result


def _agree(one: PrimExpr, other: PrimExpr, place: PrimExpr, begin: PrimExpr, reader: ElementReader) -> bool:
    """Whether two expressions agree at `place == begin`, such as a ramp and its first element before it."""
    read = occurrences(place)
    variables = [each for each in reader.places if read[each]]
    if len(variables) != 1:
        return False
    (variable,) = variables
    solution = reader.simplified(tirx.Sub(begin, tirx.Sub(place, variable)))
    if occurrences(solution)[variable]:
        return False
    there = Analyzer()
    there.bind(variable, solution)
    return bool(there.can_prove_equal(one, other))


def _slice(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    """Slices with positive strides; slices are clamped to the tensor, so all elements are in bounds."""
    data, *ranges = view.args
    read = [_numbers(each, reader) for each in ranges]
    axes, begins, _ends, *steps = [each for each in read if each is not None]
    extents = reader.shape(data)
    if len(axes) != len(begins) or None in read or extents is None:
        return None
    strides = steps[0] if steps else [whole(1)] * len(axes)
    places = list(index)
    for written, begin, stride in zip(axes, begins, strides, strict=True):
        axis = int(written) % len(index) if isinstance(written, tirx.IntImm) else None
        if axis is None or not isinstance(stride, tirx.IntImm) or stride.value < 1:
            return None
        start = _start(begin, extents[axis], reader)
        if start is None:
            return None
        places[axis] = reader.simplified(tirx.Add(start, tirx.Mul(stride, index[axis])))
    return reader.element(data, tuple(places))


def _numbers(expr: relax.Expr, reader: ElementReader) -> list[PrimExpr] | None:
    value = reader.editor.value_of(expr)
    if not isinstance(value, relax.Tuple | relax.ShapeExpr):
        return None
    return list(value.fields if isinstance(value, relax.Tuple) else value.values)


def _start(begin: PrimExpr, extent: PrimExpr, reader: ElementReader) -> PrimExpr | None:
    """The nonnegative start of a slice; None if it cannot be proved."""
    if reader.proves(tirx.GE(begin, whole(0))):
        return begin
    from_the_end = tirx.Add(extent, begin)
    is_inside = reader.proves(tirx.LT(begin, whole(0))) and reader.proves(tirx.GE(from_the_end, whole(0)))
    return from_the_end if is_inside else None


def _index_tensor(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    """One index tensor for each axis, broadcast together."""
    indices = reader.editor.value_of(view.args[1])
    extents = reader.shape(view.args[0])
    if not isinstance(indices, relax.Tuple) or extents is None or len(indices.fields) != len(extents):
        return None
    together = reader.broadcast_shape(indices.fields)
    if together is None or len(together) != len(index):
        return None
    places = [reader.operand(each, index, together) for each in indices.fields]
    return _at(view.args[0], places, extents, reader)


def _gather_elements(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    extents = reader.shape(view.args[0])
    if extents is None:
        return None
    axis = int(view.attrs["axis"]) % len(index)
    place = reader.element(view.args[1], index)
    return _at(view.args[0], [*index[:axis], place, *index[axis + 1 :]], extents, reader)


def _take(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    data, indices = view.args
    extents, chosen = reader.shape(data), reader.shape(indices)
    if extents is None or chosen is None or (view.attrs["axis"] is None and len(extents) != 1):
        return None
    axis = int(view.attrs["axis"] or 0) % len(extents)
    place = reader.element(indices, index[axis : axis + len(chosen)])
    return _at(data, [*index[:axis], place, *index[axis + len(chosen) :]], extents, reader)


def _at(
    data: relax.Expr, places: Sequence[PrimExpr | None], extents: Sequence[PrimExpr], reader: ElementReader
) -> PrimExpr | None:
    """The element at a computed index, if it is provably within bounds; negative indices are not read."""
    known = tuple(reader.simplified(place) for place in places if place is not None)
    if len(known) != len(extents):
        return None
    inside = all(reader.is_within(place, extent) for place, extent in zip(known, extents, strict=True))
    return reader.element(data, known) if inside else None


def _flip(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    extents = reader.shape(view.args[0])
    if extents is None:
        return None
    axis = int(view.attrs["axis"]) % len(index)
    place = reader.simplified(tirx.Sub(tirx.Sub(extents[axis], whole(1)), index[axis]))
    return reader.element(view.args[0], (*index[:axis], place, *index[axis + 1 :]))


def _triangle(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    data, diagonal = view.args
    found = reader.element(data, index)
    if found is None or not isinstance(diagonal, tirx.IntImm):
        return None
    distance = tirx.Sub(index[-1], index[-2])
    inside = tirx.LE(distance, diagonal) if view.name == "relax.tril" else tirx.GE(distance, diagonal)
    return tirx.Select(inside, found, tirx.IntImm("bool" if str(found.ty) == "bool" else "int64", 0))


def _arange(view: OpView, index: Index, _reader: ElementReader) -> PrimExpr | None:
    """Positive steps only: TVM 0.27 infers too many elements for negative steps with symbolic bounds."""
    start, _stop, step = view.args
    is_whole = all(isinstance(each.ty, tvm.ir.PrimType) and str(each.ty) == "int64" for each in (start, step))
    if not is_whole or not isinstance(step, tirx.IntImm) or step.value < 1:
        return None
    return tirx.Add(start, tirx.Mul(step, index[0]))


def _filled(number: int) -> ElementRule:
    def fill(view: OpView, _index: Index, _reader: ElementReader) -> PrimExpr:
        return tirx.IntImm("bool" if str(view.out_tensor.dtype) == "bool" else "int64", number)

    return fill


def _full(view: OpView, _index: Index, reader: ElementReader) -> PrimExpr | None:
    same = str(view.out_tensor.dtype) == str(getattr(view.args[1].ty, "dtype", None))
    return reader.element(view.args[1], ()) if same else None


MOVING: dict[str, ElementRule] = {
    "relax.reshape": _reshape,
    "relax.expand_dims": _reshape,
    "relax.squeeze": _reshape,
    "relax.flatten": _reshape,
    "relax.broadcast_to": _broadcast,
    "relax.permute_dims": _permute,
    "relax.concat": _concat,
    "relax.strided_slice": _slice,
    "relax.index_tensor": _index_tensor,
    "relax.gather_elements": _gather_elements,
    "relax.take": _take,
    "relax.flip": _flip,
    "relax.tril": _triangle,
    "relax.triu": _triangle,
    "relax.arange": _arange,
    "relax.zeros": _filled(0),
    "relax.ones": _filled(1),
    "relax.zeros_like": _filled(0),
    "relax.ones_like": _filled(1),
    "relax.full": _full,
    "relax.full_like": _full,
}
