"""Reshapes, permutations, slices, concatenation, broadcast, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax, tirx

from annotated_region.backends.dnnl.graph import Dim, Kind, TensorId, same_dim, same_shape, volume
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.ops.checks import (
    FLOATS,
    MOVABLE,
    Problems,
    field_problems,
    is_made_of_extents,
    tensor_problem,
)
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import (
    Begins,
    Border,
    BorderPadding,
    Concat,
    Padding,
)
from annotated_region.backends.dnnl.views import (
    align_rank,
    broadcast_to,
    permute,
    reshape,
)
from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__ = ["part"]

_MOST_AXES = 12
"""Of a tensor of oneDNN."""

LARGEST_WHOLE = 2**24
"""float32 represents all integers up to this one; the runtime stores the value of a padding as float32."""


@converts(
    "relax.reshape",
    "relax.flatten",
    "relax.squeeze",
    "relax.expand_dims",
    types=MOVABLE,
    result=MOVABLE,
)
def _reshape(call: OpConversion) -> TensorId:
    return reshape(call.graph, call.operand(0), call.shape)


@converts("relax.permute_dims", types=MOVABLE, result=MOVABLE)
def _permute(call: OpConversion) -> TensorId:
    rank, axes = len(call.shape), call.attrs["axes"]
    order = range(rank)[::-1] if axes is None else [axis % rank for axis in axes]
    return permute(call.graph, call.operand(0), tuple(order))


def _repetition_problems(op: OpView) -> Problems:
    given, wanted = extents_of(op.arg_types[0]) or (), extents_of(op.out_type) or ()
    for before, after in zip(given, wanted[len(wanted) - len(given) :], strict=True):
        is_one = isinstance(before, int) and before == 1
        if not is_one and not same_dim(before, after):
            yield f"an extent of {before} may be repeated to {after}, which is only known at run time"


@converts("relax.broadcast_to", types=MOVABLE, result=MOVABLE, unless=_repetition_problems)
def _broadcast(call: OpConversion) -> TensorId:
    return broadcast_to(call.graph, call.operand(0), call.shape)


@converts("relax.tile", types=MOVABLE, result=MOVABLE)
def _tile(call: OpConversion) -> TensorId:
    """Broadcasts along a new axis in front of each repeated axis, then merges the pairs of axes.

    As many axes at a time as a tensor may have; one of extent 1 is broadcast itself.
    """
    graph, shape, rank = call.graph, call.shape, len(call.shape)
    times = (1,) * (rank - len(call.attrs["repeats"])) + tuple(call.attrs["repeats"])
    data = align_rank(graph, call.operand(0), rank)
    extents = list(graph.shape(data))
    repeated = [axis for axis, count in enumerate(times) if count > 1]
    for begin in range(0, len(repeated), _MOST_AXES - rank):
        axes = repeated[begin : begin + _MOST_AXES - rank]
        apart: list[Dim] = []
        wide: list[Dim] = []
        for axis, extent in enumerate(extents):
            count = times[axis] if axis in axes else 1
            is_paired = count > 1 and not same_dim(extent, 1)
            apart += [1, extent] if is_paired else [extent]
            wide += [count, extent] if is_paired else [count if count > 1 else extent]
        extents = [shape[axis] if axis in axes else extent for axis, extent in enumerate(extents)]
        data = reshape(graph, broadcast_to(graph, reshape(graph, data, apart), tuple(wide)), tuple(extents))
    return data


def _flat_problem(op: OpView) -> Problems:
    if op.attrs["axis"] is None:
        yield "it repeats the flattened tensor"


@converts("relax.repeat", types=MOVABLE, result=MOVABLE, unless=_flat_problem)
def _repeat(call: OpConversion) -> TensorId:
    """Repeats each slice along one axis."""
    graph, shape, before = call.graph, call.shape, call.extents(0)
    axis, count = call.attrs["axis"] % len(shape) + 1, call.attrs["repeats"]
    apart, wide = ((*before[:axis], times, *before[axis:]) for times in (1, count))
    return reshape(graph, broadcast_to(graph, reshape(graph, call.operand(0), apart), wide), shape)


def part(call: OpConversion, begins: Sequence[Dim], steps: Sequence[int], shape: Sequence[Dim]) -> TensorId:
    """The strided slice of the data with these begins and steps; the data itself if that is all of it."""
    data = call.operand(0)
    if (
        all(isinstance(begin, int) and begin == 0 for begin in begins)
        and set(steps) == {1}
        and same_shape(call.graph.shape(data), shape)
    ):
        return data
    return call.graph.add(Kind.SLICE, (data,), shape, Begins(tuple(begins), tuple(steps)))


def _parts_problems(op: OpView) -> Problems:
    if not isinstance(op.out_type, relax.TupleType):
        yield "its only part is a tensor, and no tuple"
        return
    axis = op.attrs["axis"] % op.arg_tensor(0).ndim
    for position, field in enumerate(op.out_type.fields):
        yield tensor_problem(field, f"part {position}", MOVABLE)
        if not isinstance((extents_of(field) or ())[axis], int):
            yield f"part {position} has a symbolic extent on the axis that is split"


@converts("relax.split", types=MOVABLE, result=None, unless=_parts_problems)
def _split(call: OpConversion) -> tuple[TensorId, ...]:
    rank = len(call.extents(0))
    axis = call.attrs["axis"] % rank
    parts, begin = [], 0
    for field in expect(relax.TupleType, call.op.out_type).fields:
        shape = extents_of(field)
        assert shape is not None
        extent = shape[axis]
        assert isinstance(extent, int)
        begins = [begin if each == axis else 0 for each in range(rank)]
        parts.append(part(call, begins, [1] * rank, shape))
        begin += extent
    return tuple(parts)


def _window_problem(op: OpView) -> Problems:
    if _window(op) is None:
        yield "its begins are unknown or before the data, or its steps are not positive"


@converts("relax.strided_slice", types=MOVABLE, result=MOVABLE, unless=_window_problem)
def _strided_slice(call: OpConversion) -> TensorId:
    window = _window(call.op)
    assert window is not None
    return part(call, *window, call.shape)


def _window(op: OpView) -> tuple[list[Dim], list[int]] | None:
    """Begin and step of a strided slice on every axis; None unless known, with positive steps.

    In each call the runtime checks that what they select is inside of the data.
    """
    extents = extents_of(op.arg_types[0]) or ()
    begins: list[Dim] = [0] * len(extents)
    steps = [1] * len(extents)
    axes, *stride = map(_numbers, (op.args[1], *op.args[4:]))
    given = _dims(op.args[2])
    if axes is None or given is None or None in stride:
        return None
    by = stride[0] if stride and stride[0] is not None else [1] * len(axes)
    for axis, begin, step in zip(axes, given, by, strict=True):
        first = _first(begin, extents[axis], is_inside=bool(op.attrs["assume_inbound"]))
        if step < 1 or first is None:
            return None
        begins[axis], steps[axis] = first, step
    return begins, steps


def _first(begin: Dim, extent: Dim, *, is_inside: bool) -> Dim | None:
    """The first selected element of an axis: from its end if `begin` is negative, and moved into the axis.

    A slice that is stated to be inside begins as it says. None if that is before the data, or unknown.
    """
    if isinstance(begin, int) and isinstance(extent, int):
        return min(max(begin + extent if begin < 0 else begin, 0), extent)
    if not isinstance(begin, int) and not is_made_of_extents(begin):
        return None
    if is_inside:
        return begin if bounds_of(begin)[1] >= 0 else None
    return 0 if isinstance(begin, int) and begin == 0 else _moved_inside(begin, extent)


def _moved_inside(begin: Dim, extent: Dim) -> relax.Expr:
    """The begin as an element of the axis, or its end."""
    least, largest = bounds_of(begin)
    zero, one, length, first = (
        each if isinstance(each, relax.Expr) else tirx.IntImm("int64", each) for each in (0, 1, extent, begin)
    )
    if least >= 0:
        return tirx.Min(first, length)
    if largest < 0:
        return tirx.Max(tirx.Add(length, first), zero)
    counts_from_end = tirx.Max(tirx.Min(tirx.Sub(zero, first), one), zero)  # 1 if the begin is negative, or 0
    return tirx.Max(tirx.Min(tirx.Add(first, tirx.Mul(counts_from_end, length)), length), zero)


def _numbers(argument: relax.Expr) -> list[int] | None:
    dims = _dims(argument)
    numbers = [each for each in dims or () if isinstance(each, int)]
    return numbers if dims is not None and len(numbers) == len(dims) else None


def _dims(argument: relax.Expr) -> list[Dim] | None:
    """The fields of a tuple, numbers as int."""
    fields = getattr(argument, "fields", None)
    if fields is None:
        return None
    return [int(field) if isinstance(field, tirx.IntImm) else field for field in fields]


def _width_problem(op: OpView) -> Problems:
    if op.arg_tensor(0).ndim == 0:
        yield "a tensor of rank 0 cannot be padded"
    if any(width < 0 for width in op.attrs["pad_width"]):
        yield "a negative width, which crops"


def _padding_problems(op: OpView) -> Problems:
    yield from _width_problem(op)
    value = op.attrs["pad_value"]
    dtype = str(op.arg_tensor(0).dtype)
    if math.isnan(value):
        yield "the value is not a number"
    elif dtype not in FLOATS and not _is_value_of(dtype, value):
        yield f"the value {value} is not one of {dtype} that float32 represents"


def _is_value_of(dtype: str, value: float) -> bool:
    if not math.isfinite(value) or value != int(value):
        return False
    least, largest = {"bool": (0, 1), "int8": (-128, 127), "uint8": (0, 255)}.get(
        dtype, (-LARGEST_WHOLE, LARGEST_WHOLE)
    )
    return least <= value <= largest


@converts("relax.nn.pad", types=MOVABLE, result=MOVABLE, unless=_padding_problems)
def _pad(call: OpConversion) -> TensorId:
    padding = Padding(_widths_before(call.op), float(call.attrs["pad_value"]))
    return call.add(Kind.PAD, [call.operand(0)], padding)


def _widths_before(op: OpView) -> tuple[int, ...]:
    return tuple(op.attrs["pad_width"][::2])


BORDERS = {border.value: border for border in Border}


def _border_problems(op: OpView) -> Problems:
    yield from _width_problem(op)
    widths = op.attrs["pad_width"]
    for axis, extent in enumerate(extents_of(op.arg_types[0]) or ()):
        widest = max(widths[2 * axis : 2 * axis + 2])
        if op.attrs["pad_mode"] == Border.REFLECT.value and isinstance(extent, int) and widest >= extent:
            yield f"it reflects {widest} elements of {extent}"


@converts(
    "relax.nn.pad",
    types=MOVABLE,
    result=MOVABLE,
    unless=_border_problems,
    suits=lambda op: op.attrs["pad_mode"] in BORDERS,
)
def _border_pad(call: OpConversion) -> TensorId:
    """Padding with elements of the tensor itself."""
    border = BORDERS[call.attrs["pad_mode"]]
    return call.add(Kind.BORDER_PAD, [call.operand(0)], BorderPadding(_widths_before(call.op), border))


def _fields_problems(op: OpView) -> Problems:
    yield from field_problems(op.arg_types[0], "its operands", "operand", MOVABLE)


HIGHEST_RANK_OF_CONCAT = 6
"""oneDNN 3.2 ends the process where it joins tensors of more axes."""


@converts("relax.concat", "relax.stack", operands=(), result=MOVABLE, unless=_fields_problems)
def _concat(call: OpConversion) -> TensorId:
    """Concatenation along an axis; a stack inserts the axis first."""
    shape = call.shape
    axis = (call.attrs["axis"] or 0) % len(shape)
    parts = call.parts()
    if call.op.name == "relax.stack":
        parts = tuple(reshape(call.graph, part, (*shape[:axis], 1, *shape[axis + 1 :])) for part in parts)
    if len(parts) == 1:
        return parts[0]
    if len(shape) > HIGHEST_RANK_OF_CONCAT:
        return _flat_concat(call, parts, axis)
    return call.add(Kind.CONCAT, parts, Concat(axis))


def _flat_concat(call: OpConversion, parts: Sequence[TensorId], axis: int) -> TensorId:
    """The same, with one axis in place of those before it, and one in place of those behind it."""
    graph, shape = call.graph, call.shape
    outer, inner = volume(shape[:axis]), volume(shape[axis + 1 :])
    flat = tuple(reshape(graph, part, (outer, graph.shape(part)[axis], inner)) for part in parts)
    joined = graph.add(Kind.CONCAT, flat, (outer, shape[axis], inner), Concat(1))
    return reshape(graph, joined, shape)
