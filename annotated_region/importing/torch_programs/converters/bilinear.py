"""Bilinear resizing as in PyTorch: means of pairs of rows, along one axis after the other.

TVM 0.27's importer replaces a given factor by the quotient of the extents, which differs unless the factor
times the extent is a whole number, and rejects symbolic sizes. Few targets claim its op with corners that
stay, so this is written as rows that are taken and blended.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.row_scales import (
    RowScale,
    require_floats,
    scales_by_factors,
)
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("upsample_bilinear2d.vec")
def bilinear(node: TorchNode) -> relax.Expr | None:
    """A mean of the nearest elements; to a size in numbers, without corners that stay, TVM converts it."""
    data, size, factors = node.tensor(0), node.argument(1, "output_size"), node.argument(3, "scale_factors")
    require_floats(data)
    reaches_corners = bool(node.argument(2, "align_corners"))
    if size is None:
        assert isinstance(factors, list)
        if not reaches_corners and all(float(factor).is_integer() for factor in factors):
            return _enlarged(node, data, [int(factor) for factor in factors])
        scales = list(scales_by_factors(data, factors, reaches_corners=reaches_corners))
    else:
        assert isinstance(size, list)
        if not reaches_corners and all(isinstance(extent, int) for extent in size):
            return None
        extents = extents_of_tensor(data)[2:]
        scales = [
            RowScale(before, after, reaches_corners=reaches_corners)
            for before, after in zip(extents, size, strict=True)
        ]
    for axis, scale in enumerate(scales, 2):
        blend = _blended if scale.is_static else _blended_in_run
        data = blend(node, data, axis, scale)
    return data


def _enlarged(node: TorchNode, data: relax.Expr, factors: list[int]) -> relax.Expr:
    """An image enlarged by whole factors."""
    extents = extents_of_tensor(data)[2:]
    size = [extent * factor for extent, factor in zip(extents, factors, strict=True)]
    method = {"method": "linear", "coordinate_transformation_mode": "half_pixel"}
    return node.emit(relax.op.image.resize2d(data, relax.ShapeExpr(size), layout="NCHW", **method))


def _blended(node: TorchNode, data: relax.Expr, axis: int, scale: RowScale) -> relax.Expr:
    """The weighted means of pairs of rows along an axis of static extents."""
    places, last = scale.places(), cast(int, scale.before) - 1
    first = np.minimum(np.floor(places).astype("int64"), last)
    shape = [-1 if each == axis else 1 for each in range(len(extents_of_tensor(data)))]
    weights = relax.const((places - first).reshape(shape), dtype_of_tensor(data))
    return _between(node, data, axis, (relax.const(first), relax.const(np.minimum(first + 1, last))), weights)


def _blended_in_run(node: TorchNode, data: relax.Expr, axis: int, scale: RowScale) -> relax.Expr:
    """The same where an extent is symbolic."""
    places = scale.places_in_run(node)
    one = relax.const(1, "int64")
    last = node.emit(relax.op.subtract(node.cast(scale.extent(node), "int64"), one))
    first = node.emit(relax.op.minimum(node.cast(places, "int64"), last))  # rounds down
    second = node.emit(relax.op.minimum(node.emit(relax.op.add(first, one)), last))
    rest = node.cast(node.emit(relax.op.subtract(places, node.cast(first, "float32"))), dtype_of_tensor(data))
    behind = len(extents_of_tensor(data)) - 1 - axis
    weights = node.emit(relax.op.expand_dims(rest, [*range(1, behind + 1)])) if behind else rest
    return _between(node, data, axis, (first, second), weights)


def _between(
    node: TorchNode, data: relax.Expr, axis: int, places: tuple[relax.Expr, relax.Expr], weights: relax.Expr
) -> relax.Expr:
    """The rows at the first places plus the weighted differences of those at the second ones."""
    one, other = (node.emit(relax.op.take(data, each, axis)) for each in places)
    step = node.emit(relax.op.multiply(node.emit(relax.op.subtract(other, one)), weights))
    return node.emit(relax.op.add(one, step))
