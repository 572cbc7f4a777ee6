"""Stable sorts, largest elements in any order, and places in sorted rows, which TVM 0.27's importer lacks.

TVM's own sort is stable on the host.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
    is_tensor,
)
from annotated_region.tvm_adapter.types import expect

_FEW = 512
"""Bounds of buckets, with each of which a number is compared."""


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


@converts("kthvalue.default")
def one_in_order(node: TorchNode) -> relax.Expr:
    """The element that is the ``k``-th smallest along an axis, and its index."""
    data, count, axis = node.tensor(0), node.argument(1, "k"), node.argument(2, "dim", -1)
    rank = len(extents_of_tensor(data))
    if not rank:
        return node.emit(relax.Tuple([data, relax.const(0, "int64")]))
    assert isinstance(count, int)
    assert isinstance(axis, int)
    axis %= rank
    first = node.emit(relax.op.topk(data, count, axis, "both", largest=False, dtype="int64"))
    keeps = bool(node.argument(3, "keepdim", default=False))
    place = relax.const([count - 1] if keeps else count - 1, "int64")
    found = [
        node.emit(relax.op.take(node.emit(relax.TupleGetItem(first, part)), place, axis)) for part in (0, 1)
    ]
    return node.emit(relax.Tuple(found))


@converts("searchsorted.Tensor", "searchsorted.Scalar")
def places_in_order(node: TorchNode) -> relax.Expr:
    """Where numbers belong in sorted rows: how many elements of a row stand before them.

    A row is compared as a whole, which targets do at once where a search by halves takes step by step.
    """
    row, given = node.tensor(0), node.argument(1, "self")
    options = node.node.kwargs
    if options.get("sorter") is not None:
        raise ModelError("a sorter is not supported; sort the rows")
    dtype = node.promoted(0, 1)
    is_right = bool(options.get("right")) or options.get("side") == "right"
    return _count_before(node, node.cast(row, dtype), _numbers(node, given, dtype), is_right)


@converts("bucketize.Tensor", "bucketize.Scalar")
def places_among_few(node: TorchNode) -> relax.Expr | None:
    """The same of one row; a long one is left to TVM, which few targets claim."""
    given, row = node.argument(0, "self"), node.tensor(1)
    count = extents_of_tensor(row)[0]
    if not isinstance(count, int) or count > _FEW:
        return None
    dtype = node.promoted(1, 0)
    is_right = bool(node.node.kwargs.get("right"))
    return _count_before(node, node.cast(row, dtype), _numbers(node, given, dtype), is_right)


def _numbers(node: TorchNode, given: object, dtype: str) -> relax.Expr:
    if isinstance(given, relax.Expr) and is_tensor(given):
        return node.cast(given, dtype)
    return expect(relax.Expr, node.number_as_tensor(given, dtype))


def _count_before(node: TorchNode, row: relax.Expr, numbers: relax.Expr, is_right: bool) -> relax.Expr:
    """How many elements of rows stand before numbers; in front of equal ones unless `is_right`."""
    rank = len(extents_of_tensor(numbers))
    is_shared = len(extents_of_tensor(row)) == 1
    rows = row if is_shared else node.emit(relax.op.expand_dims(row, rank - 1))
    behind = relax.op.greater if is_right else relax.op.greater_equal
    is_behind = node.emit(behind(rows, node.emit(relax.op.expand_dims(numbers, rank))))
    is_before = node.cast(node.emit(relax.op.logical_not(is_behind)), "int64")
    return node.cast(node.emit(relax.op.sum(is_before, -1)), node.dtype)
