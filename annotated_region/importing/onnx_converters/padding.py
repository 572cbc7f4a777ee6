"""`Pad` as a Relax op, which targets support; TVM's importer emits an opaque function."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.importing.onnx_converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_converters.registry import converts

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
    widths = _widths(node, rank_of(data))
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


def _widths(node: OnnxNode, rank: int) -> list[int]:
    """The paddings before and after each axis, as a flat list."""
    given = _integers(node, 1, "paddings")
    axes = _integers(node, 3, "axes") if node.has(3) else list(range(rank))
    node.require(len(given) == 2 * len(axes), f"has {len(given)} paddings for {len(axes)} axes; each has two")
    node.require(
        all(-rank <= axis < rank for axis in axes) and len({axis % rank for axis in axes}) == len(axes),
        f"has the axes {axes} for an input of rank {rank}",
    )
    node.require(all(abs(width) <= _LARGEST for width in given), "has paddings beyond any size")
    widths = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        widths[2 * (axis % rank) : 2 * (axis % rank) + 2] = given[place], given[len(axes) + place]
    return widths


def _integers(node: OnnxNode, position: int, name: str) -> list[int]:
    numbers = node.constant(node.tensor(position, _INDICES, (1,)))
    if numbers is None:
        raise node.declined(f"has {name} that are not constant")
    return [int(number) for number in numbers]


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
