"""`TopK` of as many elements as extents or data say; TVM's importer takes a constant number.

Detectors keep at most as many boxes as there are: ``TopK(scores, Min(n, 1000))`` is the first part of all
scores in order.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import relax

from annotated_region.importing.onnx_models.converters.expand import extents_of_input
from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.slicing import require_order

__all__: list[str] = []


@converts("", "TopK", (2, 2), "axis largest sorted")
def _largest(node: OnnxNode) -> relax.Expr:
    given = node.inputs[1]
    numbers = None if given is None else numbers_of(node.builder, given)
    node.require(numbers is None or len(numbers) == 1, "has several numbers of elements")
    (count,) = extents_of_input(node, 1, 1) if numbers is None else numbers
    if not isinstance(count, int):
        return _first(node, count)
    return replace(node, inputs=(node.inputs[0], relax.const([count], "int64"))).by_tvm()


def _first(node: OnnxNode, count: relax.Expr) -> relax.Expr:
    """The first elements of all in order, of which there must be as many."""
    data = node.tensor(0)
    axis = node.integer("axis", -1, -rank_of(data), rank_of(data) - 1) % rank_of(data)
    require_order(node, count, node.shape(data)[axis])
    every = node.emit(relax.op.topk(data, -1, axis, "both", bool(node.integer("largest", 1, 0, 1)), "int64"))
    parts = [node.emit(relax.TupleGetItem(every, position)) for position in range(2)]
    return relax.Tuple(
        [node.emit(relax.op.strided_slice(each, [axis], [0], [count], assume_inbound=True)) for each in parts]
    )
