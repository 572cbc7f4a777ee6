"""`Tile` by counts that are extents, as a broadcast; TVM's importer makes a result of unknown extents of it.

PyTorch exports queries that each image of a batch gets, ``queries.repeat(batch, 1, 1)``, in this way.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_converters.node import OnnxNode
from annotated_region.importing.onnx_converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []


@converts("", "Tile", (2, 2))
def _tiled(node: OnnxNode) -> relax.Expr:
    """An axis of one element is broadcast; another one gets an axis of repetitions in front of it."""
    counts = None if node.inputs[1] is None else numbers_of(node.builder, node.inputs[1])
    if counts is None or all(isinstance(count, int) for count in counts):
        return node.by_tvm()
    data = node.tensor(0)
    extents = node.shape(data)
    node.require(len(counts) == len(extents), f"has {len(counts)} counts for {len(extents)} axes")
    narrow: list[Extent] = []
    wide: list[Extent] = []
    for count, extent in zip(counts, extents, strict=True):
        front = [] if _is_one(count) or _is_one(extent) else [1]
        narrow += [*front, extent]
        wide += [count, extent] if front else [count if _is_one(extent) else extent]
    apart = node.emit(relax.op.reshape(data, narrow)) if len(narrow) > len(extents) else data
    repeated = node.emit(relax.op.broadcast_to(apart, wide))
    products = [count * extent for count, extent in zip(counts, extents, strict=True)]
    return relax.op.reshape(repeated, products) if len(narrow) > len(extents) else repeated


def _is_one(number: Extent) -> bool:
    return isinstance(number, int) and number == 1
