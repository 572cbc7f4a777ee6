"""Reads of elements by index tensors.

TVM 0.27's importer

*   combines several index tensors like an outer product beside a full axis, where PyTorch broadcasts them
    (``x[:, [0, 2], [3, 4]]`` has 2 elements per row, not 4);
*   reads memory before the tensor if an index is negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.places import from_the_front, known_values
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
    is_tensor,
)

__all__ = ["IndexTensors", "indices_of", "resolved_indices"]

_INTEGERS = ("int64", "int32")
_TRUTHS = ("bool", "uint8")


@dataclass(frozen=True, slots=True)
class IndexTensors:
    """The index tensors of each axis; None for an axis that is read completely."""

    indices: Sequence[relax.Expr | None]
    extents: Sequence[int | relax.Expr]

    @property
    def axes(self) -> list[int]:
        """The indexed axes."""
        return [axis for axis, each in enumerate(self.indices) if each is not None]

    @property
    def rank(self) -> int:
        """The rank to which the index tensors broadcast."""
        return max(len(extents_of_tensor(each)) for each in self.indices if each is not None)

    @property
    def begin(self) -> int:
        """The axis of the result at which those of the index tensors begin.

        They replace the indexed axes if these are adjacent, and come first otherwise.
        """
        given = self.axes
        return given[0] if given == list(range(given[0], given[-1] + 1)) else 0


@converts("index.Tensor")
def indexed(node: TorchNode) -> relax.Expr | None:
    """The elements at broadcast index tensors; a single index tensor becomes a `take`."""
    data = node.tensor(0)
    indices = indices_of(node) or _places_of_masks(node)
    if indices is None:
        _require_known_number(node)
        return None
    given = [axis for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1:
        return _taken(node, data, given[0], indices[given[0]])
    places = IndexTensors(indices, extents_of_tensor(data))
    if given == list(range(len(given))):
        return node.emit(relax.op.index_tensor(data, resolved_indices(node, places)))
    return node.emit(relax.op.index_tensor(data, _full(node, places)))


def _places_of_masks(node: TorchNode) -> list[relax.Expr | None] | None:
    """The index tensors of each axis for masks that the program contains; None if there are other masks.

    A mask of several axes stands for as many tensors, and is the last index.
    """
    given, origins = node.argument(1, "indices"), node.node.args[1]
    assert isinstance(given, list)
    assert isinstance(origins, list | tuple)
    places: list[relax.Expr | None] = []
    for each, origin in zip(given, origins, strict=True):
        numbers = known_values(node, origin)
        if each is None or dtype_of_tensor(each) in _INTEGERS:
            places.append(each)
        elif numbers is None or (numbers.ndim > 1 and origin is not origins[-1]):
            return None
        else:
            places += [relax.const(axis.astype("int64")) for axis in numbers.nonzero()]
    return [*places, *[None] * (len(extents_of_tensor(node.tensor(0))) - len(places))]


def _require_known_number(node: TorchNode) -> None:
    given = node.argument(1, "indices")
    assert isinstance(given, list)
    if any(each is not None and dtype_of_tensor(each) in _TRUTHS for each in given):
        raise ModelError(
            "how many elements truth values select depends on data; keep all, and choose with torch.where"
        )


def indices_of(node: TorchNode) -> list[relax.Expr | None] | None:
    """The index of each axis; None if one of them is not of integers."""
    given = node.argument(1, "indices")
    assert isinstance(given, list)
    if not all(each is None or (is_tensor(each) and dtype_of_tensor(each) in _INTEGERS) for each in given):
        return None
    rank = len(extents_of_tensor(node.tensor(0)))
    return [*given, *[None] * (rank - len(given))]


def _taken(node: TorchNode, data: relax.Expr, axis: int, places: relax.Expr | None) -> relax.Expr:
    assert places is not None
    counted = from_the_front(node, places, extents_of_tensor(data)[axis], _origin(node, axis))
    return node.emit(relax.op.take(data, counted, axis=axis))


def resolved_indices(node: TorchNode, places: IndexTensors) -> list[relax.Expr]:
    """The index tensors, with negative indices resolved."""
    return [
        from_the_front(node, index, places.extents[axis], _origin(node, axis))
        for axis, index in enumerate(places.indices)
        if index is not None
    ]


def _origin(node: TorchNode, axis: int) -> object:
    """The node that computed the index of an axis."""
    given = node.node.args[1]
    assert isinstance(given, list | tuple)
    return given[axis] if axis < len(given) else None


def _full(node: TorchNode, places: IndexTensors) -> list[relax.Expr]:
    """An index tensor for each axis; they broadcast to the shape of the result."""
    before = places.begin
    whole = [axis for axis, each in enumerate(places.indices) if each is None]
    rank = places.rank + len(whole)
    result: list[relax.Expr] = []
    for axis, (index, extent) in enumerate(zip(places.indices, places.extents, strict=True)):
        if index is not None:
            counted = from_the_front(node, index, extent, _origin(node, axis))
            behind = rank - before - places.rank
            shape = [*extents_of_tensor(index), *[1] * behind]
            result.append(_reshaped(node, counted, shape))
            continue
        number = whole.index(axis)
        place = number if number < before else number + places.rank
        count = node.emit(relax.op.arange(0, extent, 1, "int64"))
        result.append(_reshaped(node, count, [extent, *[1] * (rank - 1 - place)]))
    dtypes = {dtype_of_tensor(each) for each in result}
    return result if len(dtypes) == 1 else [node.cast(each, "int64") for each in result]


def _reshaped(node: TorchNode, value: relax.Expr, shape: Sequence[int | relax.Expr]) -> relax.Expr:
    return value if len(shape) == len(extents_of_tensor(value)) else node.emit(relax.op.reshape(value, shape))
