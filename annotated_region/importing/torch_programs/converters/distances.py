"""Distances of all pairs of rows, which TVM 0.27's importer lacks."""

from __future__ import annotations

from math import inf

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, dtype_of_tensor


@converts("_cdist_forward.default")
def distances(node: TorchNode) -> relax.Expr:
    """The norms of order ``p`` of the differences; the number of different elements for 0."""
    ones = node.emit(relax.op.expand_dims(node.tensor(0), -2))
    others = node.emit(relax.op.expand_dims(node.tensor(1), -3))
    order, dtype = float(str(node.argument(2, "p"))), dtype_of_tensor(node.tensor(0))
    sizes: relax.Expr = node.emit(relax.op.abs(node.emit(relax.op.subtract(ones, others))))
    if order == inf:
        return node.emit(relax.op.max(sizes, -1))
    if order == 0:
        sizes = node.cast(node.emit(relax.op.not_equal(sizes, relax.const(0, dtype))), dtype)
    if order == 2:
        squares = node.emit(relax.op.multiply(sizes, sizes))
        return node.emit(relax.op.sqrt(node.emit(relax.op.sum(squares, -1))))
    if order in (0, 1):
        return node.emit(relax.op.sum(sizes, -1))
    powers = node.emit(relax.op.power(sizes, relax.const(order, dtype)))
    return node.emit(relax.op.power(node.emit(relax.op.sum(powers, -1)), relax.const(1 / order, dtype)))
