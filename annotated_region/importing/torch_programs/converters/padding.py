"""Padding by widths that are computed from extents or negative.

TVM 0.27's importer rejects computed widths. Here the data is joined with parts that hold the value; a part
may be empty in a run. A negative width crops; here it becomes a slice, which more targets claim.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.importing.torch_programs.converters.bounds import is_below_zero
from annotated_region.importing.torch_programs.converters.plain_extents import is_symbolic
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("constant_pad_nd.default")
def padded(node: TorchNode) -> relax.Expr | None:
    """Padding with one value; widths are pairs, of the last axis first."""
    widths, given = node.argument(1, "pad"), node.given(1, "pad")
    assert isinstance(widths, list)
    assert isinstance(given, list | tuple)
    if all(isinstance(width, int) for width in widths):
        return _cropped(node, widths) if min(widths) < 0 else None
    data = node.tensor(0)
    for place in range(0, len(widths), 2):
        pairs = zip(widths[place : place + 2], given[place : place + 2], strict=True)
        if not all(_is_at_least_zero(*pair) for pair in pairs):
            raise ModelError("whether it crops or pads is known in a run only")
        axis = len(extents_of_tensor(data)) - 1 - place // 2
        data = _widened(node, data, axis, widths[place], widths[place + 1])
    return data


def _is_at_least_zero(width: object, given: object) -> bool:
    """Whether a width is never negative, as PyTorch knows, or as its parts show: ``ceil(n / 4) * 4 - n``."""
    if is_below_zero(given) is False:
        return True
    return is_symbolic(width) and bounds_of(width)[0] >= 0


def _cropped(node: TorchNode, widths: list[int]) -> relax.Expr:
    """A slice of the data, padded by the widths above 0."""
    data = node.tensor(0)
    extents = extents_of_tensor(data)
    lacking = [(0, 0)] * (len(extents) - len(widths) // 2)
    pairs = [*lacking, *list(zip(widths[::2], widths[1::2], strict=True))[::-1]]
    axes = [axis for axis, pair in enumerate(pairs) if min(pair) < 0]
    begins = [max(-pairs[axis][0], 0) for axis in axes]
    ends = [extents[axis] + min(pairs[axis][1], 0) for axis in axes]
    part = node.emit(relax.op.strided_slice(data, axes, begins, ends, assume_inbound=True))
    rest = [max(width, 0) for pair in pairs for width in pair]
    if not any(rest):
        return part
    return node.emit(relax.op.nn.pad(part, rest, "constant", float(str(node.argument(2, "value", 0.0)))))


def _widened(node: TorchNode, data: relax.Expr, axis: int, before: object, after: object) -> relax.Expr:
    parts = [*_part(node, data, axis, before), data, *_part(node, data, axis, after)]
    return data if len(parts) == 1 else node.emit(relax.op.concat(parts, axis))


def _part(node: TorchNode, data: relax.Expr, axis: int, width: object) -> list[relax.Expr]:
    """What is joined at one end of an axis; nothing where the width is 0."""
    assert isinstance(width, int | relax.Expr)
    if isinstance(width, int) and width == 0:
        return []
    dtype, extents = dtype_of_tensor(data), extents_of_tensor(data)
    value = relax.const(float(str(node.argument(2, "value", 0.0))), dtype)
    shape = relax.ShapeExpr([*extents[:axis], width, *extents[axis + 1 :]])
    return [node.emit(relax.op.full(shape, value, dtype))]
