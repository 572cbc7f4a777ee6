"""Repetitions with symbolic counts, which TVM 0.27's importer rejects."""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import TorchNode, extents_of_tensor


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
