"""Products of groups of rows, each with a matrix of its own, as mixtures of experts compute them.

::

    rows 0 .. ends[0] - 1          times matrix 0
    rows ends[0] .. ends[1] - 1    times matrix 1
    ...                                              rows behind the last end: zeros

How many rows each group has is known in a call only. So all rows are multiplied by each matrix, the products
of other groups are replaced by zeros, and the sum over the matrices has one product for each row, which the
other terms do not change. TVM 0.27's importer has no such op.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)

__all__: list[str] = []


@converts("_grouped_mm.default", "grouped_mm_fallback.default")
def grouped_products(node: TorchNode) -> relax.Expr:
    """Products of two stacks of matrices, of which one or both may instead be a matrix cut into groups.

    The groups are those of the rows of a first matrix, of the columns of a second one, or, between two
    matrices, of the axis along which they are multiplied. transformers exports ``grouped_mm_fallback``.
    """
    left, right, ends = node.tensor(0), node.tensor(1), node.argument(2, "offs")
    is_cut = tuple(len(extents_of_tensor(each)) == 2 for each in (left, right))
    if not any(is_cut):
        return node.emit(relax.op.matmul(left, right))
    assert isinstance(ends, relax.Expr)
    if is_cut == (True, False):
        return _of_rows(node, left, right, ends)
    if is_cut == (False, True):
        # (A B)^T = B^T A^T
        return _transposed(node, _of_rows(node, _transposed(node, right), _transposed(node, left), ends))
    count = extents_of_tensor(left)[1]
    columns = _chosen(node, _members(node, ends, count), 1, left)
    rows = _chosen(node, _members(node, ends, count), 2, right)
    return node.emit(relax.op.matmul(columns, rows))


def _of_rows(node: TorchNode, rows: relax.Expr, matrices: relax.Expr, ends: relax.Expr) -> relax.Expr:
    """Each row times the matrix of its group."""
    products = node.emit(relax.op.matmul(rows, matrices))
    members = _members(node, ends, extents_of_tensor(rows)[0])
    return node.emit(relax.op.sum(_chosen(node, members, 2, products), 0))


def _chosen(node: TorchNode, members: relax.Expr, axis: int, values: relax.Expr) -> relax.Expr:
    """Values for each group, and zeros for what is not in the group; `axis` is new in `members`."""
    zero = relax.const(0, dtype_of_tensor(values))
    return node.emit(relax.op.where(node.emit(relax.op.expand_dims(members, axis)), values, zero))


def _members(node: TorchNode, ends: relax.Expr, count: int | relax.Expr) -> relax.Expr:
    """Whether a position, of `count`, is in a group: a row for each group."""
    places = node.emit(relax.op.arange(0, count, 1, "int64"))
    column = node.emit(relax.op.expand_dims(node.cast(ends, "int64"), 1))
    is_before_end = node.emit(relax.op.less(places, column))
    groups = extents_of_tensor(ends)[0]
    assert isinstance(groups, int)
    if groups == 1:
        return is_before_end
    ends_before = node.emit(relax.op.strided_slice(column, [0], [0], [groups - 1], assume_inbound=True))
    begins = node.emit(relax.op.concat([relax.const([[0]], "int64"), ends_before], 0))
    is_behind_begin = node.emit(relax.op.greater_equal(places, begins))
    return node.emit(relax.op.logical_and(is_before_end, is_behind_begin))


def _transposed(node: TorchNode, value: relax.Expr) -> relax.Expr:
    rank = len(extents_of_tensor(value))
    return node.emit(relax.op.permute_dims(value, [*range(rank - 2), rank - 1, rank - 2]))
