"""Scatters and assignments to slices.

TVM 0.27's importer lacks ``scatter_add``, and requires as many indices as elements for ``scatter``, where
PyTorch uses the first elements. TVM compiles its form of an assignment to a slice only for static extents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tvm import relax, tirx

from annotated_region.importing.torch_programs.converters.bounds import END, bound_in
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.rows import rows_at
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor

OF_BOOLEANS: Mapping[str, str] = {"add": "max", "mul": "min"}
"""The reductions of booleans as numbers for those that TVM computes of numbers only."""


@converts("scatter.src")
def scattered(node: TorchNode) -> relax.Expr | None:
    """Writes elements to positions along an axis."""
    return _scattered(node, "update")


@converts("scatter_add.default")
def scattered_sums(node: TorchNode) -> relax.Expr | None:
    """Adds elements to those at positions along an axis."""
    return _scattered(node, "add")


@converts("scatter.reduce")
def scattered_sums_or_products(node: TorchNode) -> relax.Expr | None:
    """Adds elements to those at positions along an axis, or multiplies them."""
    return _scattered(node, "mul" if node.node.kwargs.get("reduce") == "multiply" else "add")


def _scattered(node: TorchNode, reduction: str) -> relax.Expr | None:
    places = node.tensor(2)
    if not extents_of_tensor(places):
        return None  # a scalar has no axis
    elements = first_elements(node, node.tensor(3), extents_of_tensor(places))
    # TVM adds and multiplies no booleans.
    is_bool = node.dtype == "bool" and reduction != "update"
    dtype = "int8" if is_bool else node.dtype
    if is_bool:
        reduction = OF_BOOLEANS[reduction]
    data, elements = node.cast(node.tensor(0), dtype), node.cast(elements, dtype)
    found = node.emit(relax.op.scatter_elements(data, places, elements, node.argument(1), reduction))
    return node.cast(found, node.dtype)


def first_elements(node: TorchNode, elements: relax.Expr, extents: Sequence[int | relax.Expr]) -> relax.Expr:
    """The first elements along each axis, as many as there are indices."""
    known = extents_of_tensor(elements)
    axes = [axis for axis, extent in enumerate(extents) if _differ(known[axis], extent)]
    if not axes:
        return elements
    ends = [extents[axis] for axis in axes]
    return node.emit(relax.op.strided_slice(elements, axes, [0] * len(axes), ends, assume_inbound=True))


def _differ(one: int | relax.Expr, other: int | relax.Expr) -> bool:
    return one != other if isinstance(one, int) and isinstance(other, int) else str(one) != str(other)


@converts("slice_scatter.default")
def assigned_slice(node: TorchNode) -> relax.Expr | None:
    """A tensor with a slice replaced: the concatenation of the parts before, in and after it.

    One with a stride, whose places are known, is taken from the concatenation of both tensors.
    """
    data, source = node.tensor(0), node.tensor(1)
    begin, end = node.argument(3, "start"), node.argument(4, "end")
    axis, step = node.argument(2, "dim", 0), node.argument(5, "step", 1)
    assert isinstance(axis, int)
    extents = extents_of_tensor(data)
    axis %= len(extents)
    first, behind = _bound(begin, extents[axis], 0), _bound(end, extents[axis], extents[axis])
    if step != 1:
        return _assigned_by_steps(node, data, source, (axis, first, behind, step))
    if first is None or behind is None:
        given = node.given(3, "start")
        start = 0 if given is None else bound_in(extents[axis], begin, given)
        return rows_at(node, data, source, axis, start)
    parts = [source]
    if first != 0:
        parts.insert(0, node.emit(relax.op.strided_slice(data, [axis], [0], [first], assume_inbound=True)))
    if _differ(behind, extents[axis]):
        parts.append(
            node.emit(relax.op.strided_slice(data, [axis], [behind], [extents[axis]], assume_inbound=True))
        )
    return source if len(parts) == 1 else node.emit(relax.op.concat(parts, axis))


def _assigned_by_steps(
    node: TorchNode, data: relax.Expr, source: relax.Expr, places: tuple[object, ...]
) -> relax.Expr | None:
    """A tensor with the elements at these steps along an axis replaced; None if the places are not known."""
    axis, *bounds = (each for each in places if isinstance(each, int))
    extent = extents_of_tensor(data)[axis]
    if len(bounds) < 3 or not isinstance(extent, int):
        return None
    order, changed = np.arange(extent), slice(*bounds)
    order[changed] = extent + np.arange(len(order[changed]))
    both = node.emit(relax.op.concat([data, source], axis))
    return node.emit(relax.op.take(both, relax.const(order, "int64"), axis))


def _bound(value: object, extent: int | relax.Expr, missing: int | relax.Expr) -> int | relax.Expr | None:
    """A bound of a slice as a nonnegative index; None if it may be out of range."""
    if value is None:
        return missing
    if isinstance(value, int) and value >= END:
        return extent
    if not isinstance(value, int):
        return value if isinstance(value, relax.Expr) and not _differ(value, extent) else None
    if isinstance(extent, int):
        return max(value + extent, 0) if value < 0 else min(value, extent)
    if value == -1:
        return tirx.Sub(extent, tirx.IntImm("int64", 1))
    return value if value in (0, 1) else None  # a symbolic axis has at least one row
