"""Elements that are assigned by index tensors or truth values.

TVM 0.27's importer refuses fewer indices than the tensor has axes, and truth values. The op that it makes

*   reads value ``i`` for place ``i``. PyTorch repeats values where there are fewer (``x[:, [0, 3]] = row``),
    and TVM reads memory behind them;
*   adds in parallel, so that sums at a place that is given twice depend on the threads.

Here the indexed axes come first, each place gets its values, and ``scatter_nd`` takes the places one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.importing.torch_programs.converters.indexing import (
    IndexTensors,
    indices_of,
    resolved_indices,
)
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
    is_tensor,
)
from annotated_region.tvm_adapter.arithmetic import Extent


@converts("index_put.default")
def put(node: TorchNode) -> relax.Expr | None:
    """A tensor with other elements at the places that index tensors give."""
    data = node.tensor(0)
    values = node.cast(node.tensor(2, "values"), dtype_of_tensor(data))
    accumulates = bool(node.argument(3, "accumulate", default=False))
    indices = indices_of(node)
    if indices is None:
        return None if accumulates else _put_where_true(node, data, values)
    extents = extents_of_tensor(data)
    tensors = IndexTensors(indices, extents)
    places = resolved_indices(node, tensors)
    shape = common_shape([extents_of_tensor(each) for each in places])
    rows = [node.cast(_repeated(node, each, shape), "int64") for each in places]
    joined = node.emit(relax.op.stack(rows, -1))
    order = [*tensors.axes, *(axis for axis, each in enumerate(indices) if each is None)]
    updates = _updates(node, values, tensors, shape)
    moved = _permuted(node, data, order)
    result = node.emit(relax.op.scatter_nd(moved, joined, updates, "add" if accumulates else "update"))
    return _permuted(node, result, [order.index(axis) for axis in range(len(order))])


def _updates(
    node: TorchNode, values: relax.Expr, tensors: IndexTensors, shape: Sequence[Extent]
) -> relax.Expr:
    """A value for each element of each place; the axes of the places come first."""
    whole = [axis for axis, each in enumerate(tensors.indices) if each is None]
    before = [tensors.extents[axis] for axis in whole if axis < tensors.begin]
    behind = [tensors.extents[axis] for axis in whole if axis >= tensors.begin]
    wide = _repeated(node, values, [*before, *shape, *behind])
    places = range(len(before), len(before) + len(shape))
    rest = range(len(before) + len(shape), len(before) + len(shape) + len(behind))
    return _permuted(node, wide, [*places, *range(len(before)), *rest])


def common_shape(shapes: Sequence[Sequence[Extent]]) -> list[Extent]:
    """The extents to which tensors of these extents are repeated."""
    rank = max(map(len, shapes))
    aligned = [[*[1] * (rank - len(shape)), *shape] for shape in shapes]
    return [next((each for each in column if not _is_one(each)), 1) for column in zip(*aligned, strict=True)]


def _is_one(extent: Extent) -> bool:
    return isinstance(extent, int) and extent == 1


def _repeated(node: TorchNode, value: relax.Expr, shape: Sequence[Extent]) -> relax.Expr:
    return node.emit(relax.op.broadcast_to(value, relax.ShapeExpr(list(shape))))


def _permuted(node: TorchNode, value: relax.Expr, axes: Sequence[int]) -> relax.Expr:
    return value if list(axes) == sorted(axes) else node.emit(relax.op.permute_dims(value, list(axes)))


def _put_where_true(node: TorchNode, data: relax.Expr, values: relax.Expr) -> relax.Expr | None:
    """The values where a mask of some axes is true: the same in each place, or one row after another.

    Where there are more such places than rows, which PyTorch refuses, the last row is repeated.
    """
    given = node.argument(1, "indices")
    assert isinstance(given, list)
    masks = [(axis, each) for axis, each in enumerate(given) if each is not None]
    (axis, mask), *others = masks
    if others or not isinstance(mask, relax.Expr) or not is_tensor(mask) or dtype_of_tensor(mask) != "bool":
        return None
    extents, known = extents_of_tensor(mask), extents_of_tensor(values)
    behind = len(extents_of_tensor(data)) - axis - len(extents)
    if len(known) > behind + 1 or (axis and len(known) == behind + 1 and not _is_one(known[0])):
        return None
    if len(known) == behind + 1 and not _is_one(known[0]):
        rows = node.emit(relax.op.take(values, counted_trues(node, mask), 0, mode="clip"))
        values = node.emit(relax.op.reshape(rows, [*extents, *known[1:]]))
    elif len(known) > behind:
        values = node.emit(relax.op.squeeze(values, [0]))
    wide = node.emit(relax.op.reshape(mask, [*extents, *[1] * behind])) if behind else mask
    return node.emit(relax.op.where(wide, values, data))


def counted_trues(node: TorchNode, mask: relax.Expr) -> relax.Expr:
    """For each element of a mask, which of the true ones in the order of rows it is, or follows."""
    trues = node.cast(node.emit(relax.op.flatten(mask)), "int64")
    before = node.emit(relax.op.subtract(node.emit(relax.op.cumsum(trues, 0)), relax.const(1, "int64")))
    return node.emit(relax.op.maximum(before, relax.const(0, "int64")))
