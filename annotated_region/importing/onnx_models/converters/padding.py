"""`Pad` as a Relax op, which targets support; TVM's importer emits an opaque function."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, tirx

from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.importing.onnx_models.converters.expand import computed_extents
from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.same_padding import filled
from annotated_region.importing.onnx_models.converters.slicing import require_order
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
_INTEGERS = ("int8", "uint8", "int32", "int64")
_LARGEST = 2**31 - 1


@converts("", "Pad", (2, 4), "mode")
def _pad(node: OnnxNode) -> relax.Expr:
    """Negative paddings crop the data first, then positive ones extend it."""
    data = node.tensor(0)
    mode = node.text("mode", "constant")
    node.require(mode in _MODES, f"has the attribute 'mode' of {mode!r}, which is not supported")
    given = _widths(node, rank_of(data))
    widths = [width for width in given if isinstance(width, int)]
    if len(widths) < len(given):
        return _by_extents(node, data, given, mode)
    if dtype_of(data) not in (*FLOATS, *_INTEGERS):
        attributes = {"mode": mode.encode()}
        return node.standard("Pad", [data, *node.inputs[1:]], attributes)
    if any(width < 0 for width in widths):
        data, widths = _cropped(node, data, widths), [max(width, 0) for width in widths]
    if not any(widths):
        return data
    if mode == "constant":
        return relax.op.nn.pad(data, widths, "constant", _value(node, data))
    _require_enough(node, data, widths, mode)
    return relax.op.nn.pad(data, widths, _MODES[mode])


def _widths(node: OnnxNode, rank: int) -> list[Extent]:
    """The paddings before and after each axis, as a flat list."""
    given = numbers_of(node.builder, node.inputs[1]) if node.inputs[1] is not None else None
    if given is None:
        given = _computed_widths(node)
    axes = _axes(node) if node.has(3) else list(range(rank))
    node.require(len(given) == 2 * len(axes), f"has {len(given)} paddings for {len(axes)} axes; each has two")
    node.require(
        all(-rank <= axis < rank for axis in axes) and len({axis % rank for axis in axes}) == len(axes),
        f"has the axes {axes} for an input of rank {rank}",
    )
    is_known = all(not isinstance(width, int) or abs(width) <= _LARGEST for width in given)
    node.require(is_known, "has paddings beyond any size")
    widths: list[Extent] = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        widths[2 * (axis % rank) : 2 * (axis % rank) + 2] = given[place], given[len(axes) + place]
    return widths


def _computed_widths(node: OnnxNode) -> list[Extent]:
    """Paddings that are data, as differences of extents, since an extent is never below zero."""
    widths, nothing = node.tensor(1, ("int64",), (1,)), relax.const(0, "int64")
    (count,) = node.shape(widths)
    if not isinstance(count, int):
        raise node.declined(f"has {count} paddings, whose number is not known")
    added, cropped = (
        computed_extents(node, node.emit(relax.op.maximum(each, nothing)), count)
        for each in (widths, node.emit(relax.op.negative(widths)))
    )
    return [one - other for one, other in zip(added, cropped, strict=True)]


def _axes(node: OnnxNode) -> list[int]:
    given = node.inputs[3]
    numbers = None if given is None else numbers_of(node.builder, given)
    known = [each for each in numbers or () if isinstance(each, int)]
    if numbers is None or len(known) < len(numbers):
        raise node.declined("has axes that are not constant")
    return known


def _by_extents(node: OnnxNode, data: relax.Expr, widths: Sequence[Extent], mode: str) -> relax.Expr:
    """Paddings that are computed from extents: numbers are joined to the data, others are elements of it.

    A padding to a multiple of 8 is such a one, ``(8 - n % 8) % 8``; one to a fixed length crops longer data.
    """
    dtype = dtype_of(data)
    node.require(dtype in (*FLOATS, *_INTEGERS), f"pads {dtype} by as much as extents say")
    for axis in range(rank_of(data)):
        before, behind = widths[2 * axis : 2 * axis + 2]
        if all(isinstance(width, int) and width == 0 for width in (before, behind)):
            continue
        if min(bounds_of(before)[0], bounds_of(behind)[0]) >= 0:
            data = _padded(node, data, axis, (before, behind), mode)
        else:
            data = _cropped_or_padded(node, data, axis, (before, behind), mode)
    return data


def _padded(
    node: OnnxNode, data: relax.Expr, axis: int, widths: tuple[Extent, Extent], mode: str
) -> relax.Expr:
    """The data with as much around it along an axis; widths are not negative."""
    if mode == "constant":
        value = _value(node, data)
        before, behind = (filled(node, data, axis, width, value) for width in widths)
        return node.emit(relax.op.concat([before, data, behind], axis))
    if mode == "reflect":
        for width in widths:
            require_order(node, width, node.shape(data)[axis] - 1)
    return node.emit(relax.op.take(data, _sources(node, data, axis, widths, mode), axis))


def _cropped_or_padded(
    node: OnnxNode, data: relax.Expr, axis: int, widths: tuple[Extent, Extent], mode: str
) -> relax.Expr:
    """The data cropped by widths below zero, then padded by those above; of the extent that both lead to."""
    shape = list(node.shape(data))
    cropped, added = zip(*map(_parts, widths), strict=True)
    rest = shape[axis] - cropped[0] - cropped[1]
    require_order(node, 0, rest)
    end = shape[axis] - cropped[1]
    part = relax.op.strided_slice(data, [axis], [cropped[0]], [end], assume_inbound=True)
    padded = _padded(node, node.emit(part), axis, added, mode)
    shape[axis] = widths[0] + shape[axis] + widths[1]
    return node.emit(relax.op.reshape(padded, relax.ShapeExpr(shape)))


def _parts(width: Extent) -> tuple[Extent, Extent]:
    """How much a width cuts off, and how much it adds."""
    if isinstance(width, int):
        return max(-width, 0), max(width, 0)
    nothing = tirx.IntImm("int64", 0)
    return tirx.Max(-width, nothing), tirx.Max(width, nothing)


def _sources(
    node: OnnxNode, data: relax.Expr, axis: int, widths: tuple[Extent, Extent], mode: str
) -> relax.Expr:
    """For each place along the padded axis that of the element of the data.

    Mirrored, place ``p`` of the data of ``n`` elements is ``m - |m - |p||``, where ``m`` is ``n - 1``.
    """
    extent = node.shape(data)[axis]
    before, behind = widths
    places = node.emit(relax.op.arange(0, before + extent + behind, 1, "int64"))
    place = node.emit(relax.op.subtract(places, _number(node, before)))
    if mode == "wrap":
        return node.emit(relax.op.floor_mod(place, _number(node, extent)))
    last = _number(node, extent - 1)
    if mode == "reflect":
        from_first = node.emit(relax.op.abs(place))
        from_last = node.emit(relax.op.abs(node.emit(relax.op.subtract(last, from_first))))
        return node.emit(relax.op.subtract(last, from_last))
    inside = node.emit(relax.op.maximum(place, relax.const(0, "int64")))
    return node.emit(relax.op.minimum(inside, last))


def _number(node: OnnxNode, number: Extent) -> relax.Expr:
    if isinstance(number, int):
        return relax.const(number, "int64")
    return node.emit(relax.op.shape_to_tensor(relax.ShapeExpr([number])))


def _value(node: OnnxNode, data: relax.Expr) -> float:
    """The padding value."""
    if not node.has(2):
        return 0.0
    numbers = node.constant(node.tensor(2, (dtype_of(data),), (0, 1)))
    if numbers is None or numbers.size != 1:
        raise node.declined("has a padding value that is not constant")
    value = float(numbers.reshape(()))
    is_exact = dtype_of(data) in FLOATS or int(value) == int(numbers.reshape(()))
    node.require(is_exact, "has a padding value that float64 cannot represent")
    return value


def _cropped(node: OnnxNode, data: relax.Expr, widths: Sequence[int]) -> relax.Expr:
    """The data without what negative widths cut off, of which each call is checked to have as much."""
    shape = node.shape(data)
    axes = [axis for axis in range(len(shape)) if min(widths[2 * axis : 2 * axis + 2]) < 0]
    begins = [max(-widths[2 * axis], 0) for axis in axes]
    ends = [shape[axis] - max(-widths[2 * axis + 1], 0) for axis in axes]
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        node.require(not isinstance(end, int) or begin <= end, f"cuts off more than there is on axis {axis}")
        require_order(node, begin, end)
    return node.typed(relax.op.strided_slice(data, axes, begins, ends, assume_inbound=True))


def _require_enough(node: OnnxNode, data: relax.Expr, widths: Sequence[int], mode: str) -> None:
    """Decline paddings that would need more elements of the data than it has."""
    for axis, extent in enumerate(node.shape(data)):
        widest = max(widths[2 * axis : 2 * axis + 2])
        if not isinstance(extent, int) or not widest:
            continue
        most = {"edge": _LARGEST if extent else 0, "wrap": extent, "reflect": extent - 1}[mode]
        node.require(widest <= most, f"takes {widest} elements of {extent} on axis {axis} by {mode!r}")
