"""`Tile` as Relax ops, which targets support: by numbers as one, by extents as a broadcast.

TVM's importer emits an opaque function, of a result of unknown extents if counts are extents. PyTorch exports
queries that each image of a batch gets, ``queries.repeat(batch, 1, 1)``, in this way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import OnnxNode, is_one, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []

_LARGEST = 2**31 - 1


@converts("", "Tile", (2, 2))
def _tiled(node: OnnxNode) -> relax.Expr:
    """Counts that are computed from data are left to TVM."""
    data, counts = node.tensor(0), node.tensor(1, ("int64",), (1,))
    known = node.constant(counts)
    if known is not None:
        return _by_numbers(node, data, [int(count) for count in np.asarray(known)])
    extents = numbers_of(node.builder, counts)
    return node.standard("Tile", [data, counts], {}) if extents is None else _by_extents(node, data, extents)


def _by_numbers(node: OnnxNode, data: relax.Expr, counts: Sequence[int]) -> relax.Expr:
    node.require(
        len(counts) == rank_of(data) and all(0 <= count <= _LARGEST for count in counts),
        f"has the repetitions {list(counts)} for an input of rank {rank_of(data)}",
    )
    return relax.op.tile(data, counts) if any(count != 1 for count in counts) else data


def _by_extents(node: OnnxNode, data: relax.Expr, counts: Sequence[Extent]) -> relax.Expr:
    """An axis of one element is broadcast; another one gets an axis of repetitions in front of it."""
    extents = node.shape(data)
    node.require(len(counts) == len(extents), f"has {len(counts)} counts for {len(extents)} axes")
    narrow: list[Extent] = []
    wide: list[Extent] = []
    for count, extent in zip(counts, extents, strict=True):
        front = [] if is_one(count) or is_one(extent) else [1]
        narrow += [*front, extent]
        wide += [count, extent] if front else [count if is_one(extent) else extent]
    apart = node.emit(relax.op.reshape(data, narrow)) if len(narrow) > len(extents) else data
    repeated = node.emit(relax.op.broadcast_to(apart, wide))
    products = [count * extent for count, extent in zip(counts, extents, strict=True)]
    return relax.op.reshape(repeated, products) if len(narrow) > len(extents) else repeated
