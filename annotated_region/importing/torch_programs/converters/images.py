"""Image ops that TVM 0.27's importer converts wrongly.

*   ``grid_sample`` has the coordinates on the last axis; TVM's op expects them on the second axis. The
    importer does not know that of volumes.
*   ``interpolate(mode="nearest")`` reads ``floor(i * before / after)``; the importer uses pixel centres.
*   ``interpolate(antialias=True)`` averages skipped elements; the importer ignores it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.shared_ops.axis_products import product_along
from annotated_region.importing.shared_ops.interpolation import AxisScale, Interpolation, weights
from annotated_region.importing.torch_programs.converters.poolings import require_no_places
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

_METHODS: Mapping[object, str] = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_PADDINGS: Mapping[object, str] = {0: "zeros", 1: "border", 2: "reflection"}


@converts("grid_sampler_2d.default", "grid_sampler_3d.default")
def sampled(node: TorchNode) -> relax.Expr:
    """The image or volume, sampled at computed positions."""
    data = node.tensor(0)
    rank = len(extents_of_tensor(data))
    grid = node.emit(relax.op.permute_dims(node.tensor(1), [0, rank - 1, *range(1, rank - 1)]))
    return node.emit(
        relax.op.image.grid_sample(
            data,
            grid,
            method=_METHODS[node.argument(2, "interpolation_mode", 0)],
            layout="NCHW" if rank == 4 else "NCDHW",
            padding_mode=_PADDINGS[node.argument(3, "padding_mode", 0)],
            align_corners=bool(node.argument(4, "align_corners", default=False)),
        )
    )


@converts("upsample_nearest2d.vec")
def nearest(node: TorchNode) -> relax.Expr | None:
    """The nearest elements, by integer factors or to a given size."""
    data, size, factors = node.tensor(0), node.argument(1, "output_size"), node.argument(2, "scale_factors")
    extents = extents_of_tensor(data)[2:]
    if size is None:
        assert isinstance(factors, list)
        if not all(float(factor).is_integer() for factor in factors):
            return _picked_by_factors(node, data, factors)
        size = [extent * int(factor) for extent, factor in zip(extents, factors, strict=True)]
    assert isinstance(size, list)
    known = [(before, after) for before, after in zip(extents, size, strict=True) if isinstance(before, int)]
    is_picked = len(known) == len(size) and any(after % before for before, after in known)
    if is_picked or (node.argument(1, "output_size") is not None and len(known) < len(size)):
        for axis, scale in enumerate(map(RowScale, extents, size), 2):
            pick = _picked if is_picked else _picked_in_run
            data = pick(node, data, axis, scale)
        return data
    return node.emit(
        relax.op.image.resize2d(
            data,
            relax.ShapeExpr(size),
            layout="NCHW",
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        )
    )


def _picked_by_factors(node: TorchNode, data: relax.Expr, factors: list[object]) -> relax.Expr:
    """The nearest elements by any factors."""
    for axis, scale in enumerate(scales_by_factors(data, factors), 2):
        data = (
            _picked(node, data, axis, scale) if scale.is_static else _picked_in_run(node, data, axis, scale)
        )
    return data


def _picked(node: TorchNode, data: relax.Expr, axis: int, scale: RowScale) -> relax.Expr:
    """The nearest elements along an axis whose extents before and after are numbers."""
    return node.emit(relax.op.take(data, relax.const(scale.nearest()), axis))


def _picked_in_run(node: TorchNode, data: relax.Expr, axis: int, scale: RowScale) -> relax.Expr:
    """The nearest elements where an extent before or after is symbolic; the steps are computed in float32."""
    last = node.emit(relax.op.subtract(scale.extent(node), relax.const(1.0, "float32")))
    nearest_row = node.emit(relax.op.multiply(scale.rows(node), scale.step_in_run(node)))
    places = node.cast(node.emit(relax.op.minimum(nearest_row, last)), "int64")  # rounds down
    return node.emit(relax.op.take(data, places, axis))


@converts("_adaptive_avg_pool2d.default")
def averaged_by_parts(node: TorchNode) -> relax.Expr | None:
    """The means of parts of different lengths: a product along each axis, which targets claim."""
    data, counts = node.tensor(0), node.argument(1, "output_size")
    assert isinstance(counts, list)
    rank = len(extents_of_tensor(data))
    extents = [extent for extent in extents_of_tensor(data)[-2:] if isinstance(extent, int)]
    if len(extents) < 2 or all(extent % count == 0 for extent, count in zip(extents, counts, strict=True)):
        return None
    for extent, count, axis in zip(extents, counts, range(rank - 2, rank), strict=True):
        matrix = relax.const(_shares(extent, count).T, dtype_of_tensor(data))
        data = product_along(node.emit, data, axis, matrix)
    return data


def _shares(extent: int, count: int) -> np.ndarray:
    """For each part of an axis the share of each element in its mean; neighbouring parts may overlap."""
    places = np.arange(extent)
    matrix = np.zeros((count, extent))
    for part, (first, last) in enumerate(_parts(extent, count)):
        matrix[part] = ((places >= first) & (places < last)) / (last - first)
    return matrix


def _parts(extent: int, count: int) -> list[tuple[int, int]]:
    """Where the parts of an axis begin and end."""
    return [(part * extent // count, -(-(part + 1) * extent // count)) for part in range(count)]


@converts("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def largest_of_parts(node: TorchNode) -> relax.Expr:
    """The maxima of parts of an image or a volume, as many as given; rejected if their places are read."""
    require_no_places(node)
    data, counts = node.tensor(0), node.argument(1, "output_size")
    assert isinstance(counts, list)
    for axis, count in enumerate(counts, len(extents_of_tensor(data)) - len(counts)):
        data = _largest_of_rows(node, data, axis, int(count))
    return node.emit(relax.Tuple([data]))


def _largest_of_rows(node: TorchNode, data: relax.Expr, axis: int, count: int) -> relax.Expr:
    extent = extents_of_tensor(data)[axis]
    if count == 1:
        return node.emit(relax.op.max(data, axis, keepdims=True))
    if not isinstance(extent, int):
        raise ModelError(f"the symbolic extent {extent} divided into {count} parts is not supported")
    bounds = _parts(extent, count)
    parts = [node.emit(relax.op.strided_slice(data, [axis], [first], [last])) for first, last in bounds]
    return node.emit(
        relax.op.concat([node.emit(relax.op.max(part, axis, keepdims=True)) for part in parts], axis)
    )


@converts("_upsample_bilinear2d_aa.default", "_upsample_bicubic2d_aa.default")
def smoothed(node: TorchNode) -> relax.Expr:
    """An antialiased resize: along each axis a product with the weights of the elements."""
    data, size = node.tensor(0), node.argument(1, "output_size")
    assert isinstance(size, list)
    require_floats(data)
    if bool(node.argument(2, "align_corners")):
        raise ModelError("antialias=True with align_corners=True is not supported")
    # PyTorch's cubic kernel is that of Pillow, which has another factor than the one without antialiasing.
    mode = "linear" if "bilinear" in node.name else "cubic"
    how = Interpolation(mode, "half_pixel", "floor", -0.5, antialias=True, exclude_outside=True)
    for axis, extent in enumerate(extents_of_tensor(data)[2:], 2):
        after, factor = size[axis - 2], node.argument(axis + 1, "scales_h" if axis == 2 else "scales_w")
        if not isinstance(extent, int) or not isinstance(after, int):
            raise ModelError(f"antialias=True from the extent {extent} to {after} needs numbers")
        scale = AxisScale(extent, after, after / extent if factor is None else float(str(factor)))
        matrix = relax.const(weights(how, scale).T, dtype_of_tensor(data))
        data = product_along(node.emit, data, axis, matrix)
    return data
