"""Stable sorts, and largest elements in any order, which TVM 0.27's importer lacks.

TVM's own sort is stable on the host.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("sort.stable")
def sorted_stably(node: TorchNode) -> relax.Expr:
    """The elements along an axis in order, and their indices; equal ones keep their order."""
    data, given = node.tensor(0), node.node.kwargs
    axis, descends = given.get("dim", -1), bool(given.get("descending", False))
    if not extents_of_tensor(data):
        return node.emit(relax.Tuple([data, relax.const(0, "int64")]))
    # TVM sorts no booleans.
    dtype = dtype_of_tensor(data)
    numbers = node.cast(data, "int8") if dtype == "bool" else data
    places = node.emit(relax.op.argsort(numbers, axis, descends, dtype="int64"))
    values = node.emit(relax.op.gather_elements(numbers, places, axis=axis))
    return node.emit(relax.Tuple([node.cast(values, dtype), places]))


@converts("topk.default")
def first_in_order(node: TorchNode) -> relax.Expr | None:
    """The largest or smallest elements, and their indices; sorted where PyTorch leaves the order open."""
    data, count, axis = node.tensor(0), node.argument(1, "k"), node.argument(2, "dim", -1)
    if not extents_of_tensor(data):
        return node.emit(relax.Tuple([data, relax.const(0, "int64")]))
    if not isinstance(count, int):
        return None
    largest = bool(node.argument(3, "largest", default=True))
    return node.emit(relax.op.topk(data, count, axis, "both", largest, "int64"))
