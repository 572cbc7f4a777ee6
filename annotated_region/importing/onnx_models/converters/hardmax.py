"""`Hardmax` along an axis of unknown extent; TVM's importer asks for a number."""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []


@converts("", "Hardmax", (1, 1), "axis")
def _hardmax(node: OnnxNode) -> relax.Expr:
    """1 at the place of the first largest number along the axis, 0 elsewhere."""
    data = node.tensor(0, FLOATS)
    axis = node.integer("axis", -1, -rank_of(data), rank_of(data) - 1) % max(rank_of(data), 1)
    extent = node.shape(data)[axis]
    if isinstance(extent, int):
        return node.by_tvm()
    largest = node.emit(relax.op.argmax(data, axis, keepdims=True))
    places = node.emit(relax.op.arange(0, extent, 1, "int64"))
    columns = relax.op.expand_dims(places, list(range(1, rank_of(data) - axis)))
    is_hit = node.emit(relax.op.equal(node.emit(columns), largest))
    return relax.op.astype(is_hit, dtype_of(data))
