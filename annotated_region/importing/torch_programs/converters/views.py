"""Repetitions with symbolic counts, windows and joins of several types, which TVM 0.27's importer rejects.

It also writes the extent of a -1 as a quotient of products with common factors, and squeezes symbolic axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd
from operator import mul

import numpy as np
from tvm import relax, tirx

from annotated_region.functions.polynomials import are_equal
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
    has_known_shape,
)
from annotated_region.tvm_adapter.arithmetic import Extent


@converts("repeat.default")
def repeated(node: TorchNode) -> relax.Expr | None:
    """``repeat`` of a tensor with symbolic counts."""
    data, counts = node.tensor(0), node.argument(1, "repeats")
    assert isinstance(counts, list)
    if all(isinstance(count, int) for count in counts):
        return None
    known = extents_of_tensor(data)
    pairs = list(zip(counts, [1] * (len(counts) - len(known)) + known, strict=True))
    apart = node.emit(relax.op.reshape(data, [each for _, extent in pairs for each in (1, extent)]))
    wide = node.emit(relax.op.broadcast_to(apart, [each for pair in pairs for each in pair]))
    return node.emit(relax.op.reshape(wide, [count * extent for count, extent in pairs]))


@converts("sym_size.int")
def extent_that_is_known(node: TorchNode) -> relax.Expr | None:
    """An extent that TVM knows and PyTorch does not, as behind a constant mask; TVM makes a tensor of it."""
    axis = node.argument(1, "dim", 0)
    assert isinstance(axis, int)
    extent = extents_of_tensor(node.tensor(0))[axis] if has_known_shape(node.argument(0)) else None
    return tirx.IntImm("int64", extent) if isinstance(extent, int) else None


@converts("view.default", "reshape.default", "_unsafe_view.default")
def reshaped(node: TorchNode) -> relax.Expr | None:
    """A reshape whose -1 is the number that PyTorch knows, or a quotient without common factors.

    TVM's importer divides the products of all extents, of which TVM proves little.
    """
    data, sizes = node.tensor(0), node.argument(1, "size")
    if not isinstance(sizes, list):
        return None
    if not any(isinstance(size, int) and size == -1 for size in sizes):
        # TVM's importer looks for a -1 among symbolic sizes as well, which it cannot compare.
        is_known = all(isinstance(size, int) for size in sizes)
        return None if is_known else node.emit(relax.op.reshape(data, relax.ShapeExpr(sizes)))
    place = next(index for index, size in enumerate(sizes) if isinstance(size, int) and size == -1)
    known = getattr(node.node.meta.get("val"), "shape", sizes)[place]
    others = [size for index, size in enumerate(sizes) if index != place]
    found = known if isinstance(known, int) and known >= 0 else _quotient(extents_of_tensor(data), others)
    if found is None:
        return None
    return node.emit(relax.op.reshape(data, [*others[:place], found, *others[place:]]))


def _quotient(extents: Sequence[Extent], others: Sequence[Extent]) -> Extent | None:
    """The product of extents divided by that of others; None if a symbolic one of these is not among them."""
    left, number = list(extents), 1
    for other in others:
        place = next((index for index, each in enumerate(left) if are_equal(each, other)), None)
        if place is not None:
            del left[place]
        elif isinstance(other, int) and other > 0:
            number *= other
        else:
            return None
    whole = reduce(mul, (each for each in left if isinstance(each, int)), 1)
    symbols: list[Extent] = [each for each in left if not isinstance(each, int)]
    shared = gcd(whole, number)
    product = reduce(mul, symbols, whole // shared)
    return product if number == shared else product // (number // shared)


@converts("cat.default")
def joined(node: TorchNode) -> relax.Expr | None:
    """A concatenation in the type of the result, without empty lists, which may stand beside any rank."""
    parts, axis = node.argument(0), node.argument(1, "dim", 0)
    assert isinstance(parts, list)
    rest = [each for each in parts if extents_of_tensor(each) != [0]]
    is_mixed = any(dtype_of_tensor(each) != node.dtype for each in rest)
    if not rest or (len(rest) == len(parts) and not is_mixed):
        return None
    return node.emit(relax.op.concat([node.cast(each, node.dtype) for each in rest], axis))


@converts("unfold.default")
def windows(node: TorchNode) -> relax.Expr:
    """The windows along an axis, with their elements along a new last axis."""
    data, (axis, size, step) = node.tensor(0), (node.argument(place) for place in (1, 2, 3))
    assert isinstance(axis, int)
    assert isinstance(size, int)
    assert isinstance(step, int)
    extents = extents_of_tensor(data)
    if not extents:
        return node.emit(relax.op.expand_dims(data, 0))
    axis %= len(extents)
    parts = node.emit(relax.op.take(data, _places(node, extents[axis], size, step), axis))
    axes = [place for place in range(len(extents) + 1) if place != axis + 1]
    return node.emit(relax.op.permute_dims(parts, [*axes, axis + 1]))


def _places(node: TorchNode, extent: Extent, size: int, step: int) -> relax.Expr:
    """The indices of the elements of each window."""
    if isinstance(extent, int):
        return relax.const(np.arange(0, extent - size + 1, step)[:, None] + np.arange(size))
    first = node.emit(relax.op.arange(0, extent - (size - 1), step, "int64"))
    return node.emit(
        relax.op.add(node.emit(relax.op.expand_dims(first, 1)), relax.const(np.arange(size), "int64"))
    )


@converts("squeeze.dims")
def squeezed(node: TorchNode) -> relax.Expr:
    """Without those of the given axes that have the extent 1; symbolic extents are not 1, as in PyTorch."""
    data, given = node.tensor(0), node.argument(1, "dim")
    assert isinstance(given, list)
    extents = extents_of_tensor(data)
    axes = [int(axis) % len(extents) for axis in given] if extents else []
    single = [axis for axis in axes if isinstance(extents[axis], int) and extents[axis] == 1]
    return node.emit(relax.op.squeeze(data, single)) if single else data


@converts("diagonal.default")
def diagonal(node: TorchNode) -> relax.Expr | None:
    """A diagonal of matrices of static extents, as elements that are taken; TVM has it as an `einsum`."""
    data, offset = node.tensor(0), node.argument(1, "offset", 0)
    extents = extents_of_tensor(data)
    one, other = (
        int(str(node.argument(place, f"dim{place - 1}", place - 2))) % len(extents) for place in (2, 3)
    )
    rows, columns = extents[one], extents[other]
    if not isinstance(rows, int) or not isinstance(columns, int) or not isinstance(offset, int):
        return None
    rest = [axis for axis in range(len(extents)) if axis not in (one, other)]
    turned = node.emit(relax.op.permute_dims(data, [*rest, one, other]))
    flat = node.emit(relax.op.reshape(turned, [*(extents[axis] for axis in rest), rows * columns]))
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - row, columns - column), 0)
    places = (row + np.arange(count)) * columns + column + np.arange(count)
    return node.emit(relax.op.take(flat, relax.const(places, "int64"), len(rest)))
