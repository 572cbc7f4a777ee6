"""``as_strided``: elements at any distances in a tensor's memory; TVM 0.27's importer knows only reshapes.

Overlapping frames of sounds are such views, as in Kaldi's features. The importer also counts elements in the
order of the axes; PyTorch counts them in memory, which a transposition leaves as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode
from annotated_region.tvm_adapter.arithmetic import Extent

if TYPE_CHECKING:
    import torch


@converts("as_strided.default")
def strided_view(node: TorchNode) -> relax.Expr:
    """The elements of a view, taken from the source in the order of its memory."""
    sizes, strides, offset = (
        node.argument(place, name) for place, name in ((1, "size"), (2, "stride"), (3, "storage_offset"))
    )
    assert isinstance(sizes, list)
    assert isinstance(strides, list)
    source: torch.Tensor = node.node.all_input_nodes[0].meta["val"]
    first = 0 if offset is None else _distance(offset) - _distance(source.storage_offset())
    steps = [_distance(stride) for stride in strides]
    flat, count = _in_memory_order(node, source), source.numel()
    if not isinstance(count, int) or not all(isinstance(size, int) for size in sizes):
        _require_whole_memory(source, first)
        return node.emit(relax.op.take(flat, _computed_places(node, sizes, steps), 0))
    places = _places(sizes, steps, first)
    if np.array_equal(places.ravel(), np.arange(count)):
        return node.emit(relax.op.reshape(flat, relax.ShapeExpr(sizes)))
    if places.size and (places.min() < 0 or places.max() >= count):
        raise _beyond()
    return node.emit(relax.op.take(flat, relax.const(places, "int64"), 0))


def _distance(value: object) -> int:
    if not isinstance(value, int):
        raise ModelError("symbolic strides and offsets are not supported; use Tensor.unfold")
    return value


def _in_memory_order(node: TorchNode, source: torch.Tensor) -> relax.Expr:
    """The source as a row of elements."""
    data = node.tensor(0)
    if not source.is_contiguous():
        axes = sorted(range(source.dim()), key=lambda axis: -_distance(source.stride(axis)))
        if not source.permute(axes).is_contiguous():
            raise _beyond()
        data = node.emit(relax.op.permute_dims(data, axes))
    return node.emit(relax.op.flatten(data))


def _require_whole_memory(source: torch.Tensor, first: int) -> None:
    """Check that the source is all of its memory, where extents are not numbers that can be compared."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # noqa: PLC0415 - it is loaded

    is_whole = source.untyped_storage().nbytes() == source.numel() * source.element_size()
    if first != 0 or not statically_known_true(is_whole):
        raise _beyond()


def _beyond() -> ModelError:
    return ModelError(
        "it may read memory beside its operand, which is a part of another tensor; clone that before"
    )


def _places(sizes: Sequence[int], steps: Sequence[int], first: int) -> np.ndarray:
    places = np.full((), first, "int64")
    for size, step in zip(sizes, steps, strict=True):
        places = places[..., None] + np.arange(size) * step
    return places


def _computed_places(node: TorchNode, sizes: Sequence[Extent], steps: Sequence[int]) -> relax.Expr:
    """The places of elements where extents are symbolic."""
    places: relax.Expr = relax.const(0, "int64")
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        row = node.emit(relax.op.arange(0, size, 1, "int64"))
        along = node.emit(relax.op.multiply(row, relax.const(step, "int64")))
        if axis:
            places = node.emit(relax.op.expand_dims(places, axis))
        places = node.emit(relax.op.add(places, along))
    return places
