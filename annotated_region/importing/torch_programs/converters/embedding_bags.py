"""Sums, means and maxima of bags of embeddings, as recommenders take; TVM 0.27's importer lacks them."""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)
from annotated_region.tvm_adapter.arithmetic import Extent

_MEAN, _MAXIMUM = 1, 2  # the modes behind the sum


@converts("_embedding_bag_forward_only.default", "_embedding_bag.default")
def embedding_bag(node: TorchNode) -> relax.Expr:
    """The rows of a table at indices, reduced in bags, each of which begins at an offset.

    The reduced rows alone: the results beside them serve the gradient.
    """
    if node.are_read(1, 2, 3):
        raise ModelError("of an embedding bag only the first result is supported")
    table, indices, mode = node.tensor(0), node.cast(node.tensor(1), "int64"), node.argument(4, "mode", 0)
    dtype = dtype_of_tensor(table)
    length = extents_of_tensor(indices)[0]
    padding = node.argument(8, "padding_idx", -1)
    assert isinstance(padding, int)
    counted: relax.Expr = node.emit(relax.op.ones(relax.ShapeExpr([length]), dtype))
    if padding >= 0:
        counted = node.cast(node.emit(relax.op.not_equal(indices, relax.const(padding, "int64"))), dtype)
    rows = node.emit(relax.op.take(table, indices, 0))
    factors = node.argument(6, "per_sample_weights")
    if isinstance(factors, relax.Expr):
        rows = node.emit(relax.op.multiply(rows, _column(node, factors)))
    bags = _bags(node, length)
    first = float("-inf") if mode == _MAXIMUM else 0.0
    if padding >= 0:
        is_counted = node.cast(_column(node, counted), "bool")
        rows = node.emit(relax.op.where(is_counted, rows, relax.const(first, dtype)))
    shape = [_count_of_bags(node), extents_of_tensor(table)[1]]
    before = node.emit(relax.op.broadcast_to(relax.const(first, dtype), relax.ShapeExpr(shape)))
    found = node.emit(relax.op.scatter_nd(before, bags, rows, "max" if mode == _MAXIMUM else "add"))
    if mode not in (_MEAN, _MAXIMUM):
        return node.emit(relax.Tuple([found]))
    none = node.emit(relax.op.zeros(relax.ShapeExpr(shape[:1]), dtype))
    counts = _column(node, node.emit(relax.op.scatter_nd(none, bags, counted, "add")))
    if mode == _MAXIMUM:  # of an empty bag 0
        is_empty = node.emit(relax.op.equal(counts, relax.const(0, dtype)))
        return node.emit(relax.Tuple([node.emit(relax.op.where(is_empty, relax.const(0, dtype), found))]))
    divisor = node.emit(relax.op.maximum(counts, relax.const(1, dtype)))
    return node.emit(relax.Tuple([node.emit(relax.op.divide(found, divisor))]))


def _column(node: TorchNode, row: relax.Expr) -> relax.Expr:
    return node.emit(relax.op.expand_dims(row, 1))


def _count_of_bags(node: TorchNode) -> Extent:
    count = extents_of_tensor(node.tensor(2))[0]
    return count - 1 if bool(node.argument(7, "include_last_offset", default=False)) else count


def _bags(node: TorchNode, length: Extent) -> relax.Expr:
    """The bag of each index, as a column: how many bags begin at or before it, less one."""
    offsets = node.cast(node.tensor(2), "int64")
    if bool(node.argument(7, "include_last_offset", default=False)):
        ends = [_count_of_bags(node)]
        offsets = node.emit(relax.op.strided_slice(offsets, [0], [0], ends, assume_inbound=True))
    # Bags behind the last index are empty.
    none = node.emit(relax.op.zeros(relax.ShapeExpr([length + 1]), "int64"))
    ones = node.emit(relax.op.ones_like(offsets))
    begins = node.emit(relax.op.scatter_elements(none, offsets, ones, 0, "add"))
    counted = node.emit(relax.op.cumsum(begins, 0))
    inside = node.emit(relax.op.strided_slice(counted, [0], [0], [length], assume_inbound=True))
    return _column(node, node.emit(relax.op.subtract(inside, relax.const(1, "int64"))))
