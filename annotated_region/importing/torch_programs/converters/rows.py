"""Rows of a tensor in another order, or beside other ones, as many as a run has.

A symbolic number of rows may be 0 in a run, and neither TVM nor every target concatenates parts of no rows.
Here the rows of both parts are concatenated, as they are, and taken by computed places.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax, tirx

from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["rows_at"]


def rows_at(node: TorchNode, data: relax.Expr, rows: relax.Expr, axis: int, first: Extent) -> relax.Expr:
    """The tensor with the rows of another one in the place of as many of its own.

    Of ``n`` rows, row ``i`` is row ``n + i - first`` of both tensors one behind the other, if ``i - first``
    is a row of the other one.
    """
    length, count = extents_of_tensor(data)[axis], extents_of_tensor(rows)[axis]
    begins = _compared(node, relax.op.greater_equal, _difference(0, first), length)
    ends = _compared(node, relax.op.less, _difference(_difference(0, first), count), length)
    is_other = node.emit(relax.op.logical_and(begins, ends))
    own, other = (_numbers(node, start, length) for start in (0, _difference(length, first)))
    places = node.emit(relax.op.where(is_other, other, own))
    both = node.emit(relax.op.concat([data, rows], axis))
    return node.emit(relax.op.take(both, places, axis))


def _compared(
    node: TorchNode, compare: Callable[..., relax.Expr], start: Extent, count: Extent
) -> relax.Expr:
    """Whether each of ``count`` numbers from ``start`` on compares so with 0."""
    return node.emit(compare(_numbers(node, start, count), relax.const(0, "int64")))


def _numbers(node: TorchNode, start: Extent, count: Extent) -> relax.Expr:
    return node.emit(relax.op.arange(start, _sum(start, count), 1, "int64"))


def _sum(left: Extent, right: Extent) -> Extent:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return tirx.Add(_as_expression(left), _as_expression(right))


def _difference(left: Extent, right: Extent) -> Extent:
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return tirx.Sub(_as_expression(left), _as_expression(right))


def _as_expression(extent: Extent) -> relax.Expr:
    return tirx.IntImm("int64", extent) if isinstance(extent, int) else extent
