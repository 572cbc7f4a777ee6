"""`OneHot` in the type of its values; TVM's importer makes floats float64, and integers int64."""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []


@converts("", "OneHot", (3, 3), "axis")
def _one_hot(node: OnnxNode) -> relax.Expr:
    """Negative places count from the end; others that are not among the places give no hit."""
    places, values = node.tensor(0), node.tensor(2, ranks=(1,))
    node.require_shape(2, values, (2,))
    given = node.inputs[1]
    depth = None if given is None else known_numbers(given)
    if depth is None or depth.size != 1:
        raise node.declined("has a depth that is not constant")
    count, rank = int(depth.item()), rank_of(places)
    node.require(count > 0, f"has a depth of {count}")
    axis = node.integer("axis", -1, -rank - 1, rank) % (rank + 1)
    whole = places if dtype_of(places) == "int64" else node.emit(relax.op.astype(places, "int64"))
    is_negative = node.emit(relax.op.less(whole, relax.const(0, "int64")))
    from_end = node.emit(relax.op.add(whole, relax.const(count, "int64")))
    at = node.emit(relax.op.expand_dims(node.emit(relax.op.where(is_negative, from_end, whole)), [axis]))
    every = np.arange(count).reshape(-1, *[1] * (rank - axis))
    is_hit = node.emit(relax.op.equal(at, relax.const(every, "int64")))
    off, on = (_value(node, values, place) for place in range(2))
    return relax.op.where(is_hit, on, off)


def _value(node: OnnxNode, values: relax.Expr, place: int) -> relax.Expr:
    known = node.constant(values)
    if known is not None:
        return relax.const(known[place], dtype_of(values))
    return node.emit(relax.op.take(values, relax.const(place, "int64"), 0))
