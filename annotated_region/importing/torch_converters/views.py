"""Repetitions with symbolic counts, windows and joined empty lists, which TVM 0.27's importer rejects."""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("repeat.default")
def repeated(node: TorchNode) -> relax.Expr | None:
    """``repeat`` of a tensor with symbolic counts."""
    data, counts = node.tensor(0), node.argument(1, "repeats")
    assert isinstance(counts, list)
    if all(isinstance(count, int) for count in counts):
        return None
    known = extents_of_tensor(data)
    pairs = list(zip(counts, [1] * (len(counts) - len(known)) + known, strict=True))
    apart = node.emit(relax.op.reshape(data, [each for _, extent in pairs for each in (1, extent)]))
    wide = node.emit(relax.op.broadcast_to(apart, [each for pair in pairs for each in pair]))
    return node.emit(relax.op.reshape(wide, [count * extent for count, extent in pairs]))


@converts("cat.default")
def joined(node: TorchNode) -> relax.Expr | None:
    """A concatenation without the empty lists, which PyTorch accepts beside tensors of any rank."""
    parts, axis = node.argument(0), node.argument(1, "dim", 0)
    assert isinstance(parts, list)
    rest = [each for each in parts if extents_of_tensor(each) != [0]]
    if not rest or len(rest) == len(parts):
        return None
    dtypes = {dtype_of_tensor(each) for each in parts}
    return node.emit(relax.op.concat(rest, axis)) if len(dtypes) == 1 else None


@converts("unfold.default")
def windows(node: TorchNode) -> relax.Expr:
    """The windows along an axis, with their elements along a new last axis."""
    data, (axis, size, step) = node.tensor(0), (node.argument(place) for place in (1, 2, 3))
    assert isinstance(axis, int)
    assert isinstance(size, int)
    assert isinstance(step, int)
    extents = extents_of_tensor(data)
    axis %= len(extents)
    extent = extents[axis]
    if not isinstance(extent, int):
        raise ModelError(f"windows along the symbolic extent {extent} are not supported")
    places = np.arange(0, extent - size + 1, step)[:, None] + np.arange(size)
    parts = node.emit(relax.op.take(data, relax.const(places), axis))
    axes = [place for place in range(len(extents) + 1) if place != axis + 1]
    return node.emit(relax.op.permute_dims(parts, [*axes, axis + 1]))
