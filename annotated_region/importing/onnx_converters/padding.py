"""`Pad` as a Relax op, which targets support; TVM's importer emits an opaque function."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.importing.onnx_converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_converters.registry import converts
from annotated_region.importing.onnx_converters.same_padding import filled
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
_INTEGERS = ("int8", "uint8", "int32", "int64")
_INDICES = ("int32", "int64")
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
        raise node.declined("has paddings that are neither constant nor computed from extents")
    axes = _integers(node, 3, "axes") if node.has(3) else list(range(rank))
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


def _integers(node: OnnxNode, position: int, name: str) -> list[int]:
    numbers = node.constant(node.tensor(position, _INDICES, (1,)))
    if numbers is None:
        raise node.declined(f"has {name} that are not constant")
    return [int(number) for number in numbers]


def _by_extents(node: OnnxNode, data: relax.Expr, widths: Sequence[Extent], mode: str) -> relax.Expr:
    """Paddings that are computed from extents: numbers are joined to the data, others are elements of it.

    A padding to a multiple of 8 is such a one, ``(8 - n % 8) % 8``.
    """
    dtype = dtype_of(data)
    is_known = mode != "reflect" and dtype in (*FLOATS, *_INTEGERS)
    node.require(is_known, f"pads {dtype} by as much as extents say, with the mode {mode!r}")
    for axis in range(rank_of(data)):
        before, behind = widths[2 * axis : 2 * axis + 2]
        for width in (before, behind):
            node.require(
                bounds_of(width)[0] >= 0,
                f"has the padding {width} on axis {axis}, which may cut off elements",
            )
        if all(isinstance(width, int) and width == 0 for width in (before, behind)):
            continue
        if mode == "constant":
            value = _value(node, data)
            blocks = [filled(node, data, axis, width, value) for width in (before, behind)]
            data = node.emit(relax.op.concat([blocks[0], data, blocks[1]], axis))
        else:
            data = node.emit(relax.op.take(data, _sources(node, data, axis, (before, behind), mode), axis))
    return data


def _sources(
    node: OnnxNode, data: relax.Expr, axis: int, widths: tuple[Extent, Extent], mode: str
) -> relax.Expr:
    """For each place along the padded axis that of the element of the data."""
    extent = node.shape(data)[axis]
    before, behind = widths
    places = node.emit(relax.op.arange(0, before + extent + behind, 1, "int64"))
    place = node.emit(relax.op.subtract(places, _number(node, before)))
    if mode == "wrap":
        return node.emit(relax.op.floor_mod(place, _number(node, extent)))
    inside = node.emit(relax.op.maximum(place, relax.const(0, "int64")))
    return node.emit(relax.op.minimum(inside, _number(node, extent - 1)))


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
    shape = node.shape(data)
    axes = [axis for axis in range(len(shape)) if min(widths[2 * axis : 2 * axis + 2]) < 0]
    begins = [max(-widths[2 * axis], 0) for axis in axes]
    ends = [shape[axis] - max(-widths[2 * axis + 1], 0) for axis in axes]
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        node.require(not isinstance(end, int) or begin <= end, f"cuts off more than there is on axis {axis}")
    return node.typed(relax.op.strided_slice(data, axes, begins, ends))


def _require_enough(node: OnnxNode, data: relax.Expr, widths: Sequence[int], mode: str) -> None:
    """Decline paddings that would need more elements of the data than it has."""
    for axis, extent in enumerate(node.shape(data)):
        widest = max(widths[2 * axis : 2 * axis + 2])
        if not isinstance(extent, int) or not widest:
            continue
        most = {"edge": _LARGEST if extent else 0, "wrap": extent, "reflect": extent - 1}[mode]
        node.require(widest <= most, f"takes {widest} elements of {extent} on axis {axis} by {mode!r}")
