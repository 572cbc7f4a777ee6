"""Image ops that TVM 0.27's importer converts wrongly.

*   ``grid_sample`` has the coordinates on the last axis; TVM's op expects them on the second axis.
*   ``interpolate(mode="nearest")`` reads ``floor(i * before / after)``; the importer uses pixel centres.
*   ``interpolate(mode="bilinear", scale_factor=f)`` reads at ``(i + 0.5) / f - 0.5``; the importer replaces
    the factor by the quotient of the extents, which differs unless ``f`` times the extent is a whole number.
*   ``interpolate(antialias=True)`` averages skipped elements; the importer ignores it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.axis_products import product_along
from annotated_region.importing.interpolation import AxisScale, Interpolation, weights
from annotated_region.importing.torch_converters.poolings import largest_without_places
from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)
from annotated_region.tvm_adapter.types import expect

_METHODS: Mapping[object, str] = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_PADDINGS: Mapping[object, str] = {0: "zeros", 1: "border", 2: "reflection"}


@converts("grid_sampler_2d.default")
def sampled(node: TorchNode) -> relax.Expr:
    """The image, sampled at computed positions."""
    grid = node.emit(relax.op.permute_dims(node.tensor(1), [0, 3, 1, 2]))
    return node.emit(
        relax.op.image.grid_sample(
            node.tensor(0),
            grid,
            method=_METHODS[node.argument(2, "interpolation_mode", 0)],
            layout="NCHW",
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
    if len(known) == len(size) and any(after % before for before, after in known):
        return _picked(node, data, [(before, after, before / after) for before, after in known])
    if node.argument(1, "output_size") is not None and len(known) < len(size):
        return _picked_in_run(node, data, size)
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
    pairs = _by_axis(data, factors)
    return _picked(node, data, [(extent, int(extent * factor), 1 / factor) for extent, factor in pairs])


def _picked(node: TorchNode, data: relax.Expr, steps: list[tuple[int, int, float]]) -> relax.Expr:
    """The nearest elements: for each axis the extents before and after, and the step, rounded to float32."""
    for axis, (before, after, step) in enumerate(steps, 2):
        places = np.floor(np.arange(after, dtype="float32") * np.float32(step)).astype("int64")
        data = node.emit(relax.op.take(data, relax.const(np.minimum(places, before - 1)), axis))
    return data


def _picked_in_run(node: TorchNode, data: relax.Expr, size: list[object]) -> relax.Expr:
    """The nearest elements where an extent before or after is symbolic; the steps are computed in float32."""
    for axis, (before, after) in enumerate(zip(extents_of_tensor(data)[2:], size, strict=True), 2):
        extents = [node.number_as_tensor(each, "float32") for each in (before, after)]
        old, new = (expect(relax.Expr, each) for each in extents)
        step = node.emit(relax.op.divide(old, new))
        rows = node.cast(node.emit(relax.op.arange(0, after, 1, "int64")), "float32")
        last = node.emit(relax.op.subtract(old, relax.const(1.0, "float32")))
        nearest_row = node.emit(relax.op.minimum(node.emit(relax.op.multiply(rows, step)), last))
        places = node.cast(nearest_row, "int64")  # rounds down
        data = node.emit(relax.op.take(data, places, axis))
    return data


def _by_axis(data: relax.Expr, factors: list[object]) -> list[tuple[int, float]]:
    """The extents of an image, which must be static, and their factors."""
    pairs = []
    for extent, factor in zip(extents_of_tensor(data)[2:], factors, strict=True):
        if not isinstance(extent, int):
            raise ModelError(f"the factor {factor} of the symbolic extent {extent} is not supported")
        pairs.append((extent, float(str(factor))))
    return pairs


@converts("upsample_bilinear2d.vec")
def bilinear(node: TorchNode) -> relax.Expr | None:
    """A mean of the nearest elements, by given factors; to a given size, TVM converts it."""
    factors = node.argument(3, "scale_factors")
    if node.argument(1, "output_size") is not None or bool(node.argument(2, "align_corners")):
        return None
    assert isinstance(factors, list)
    data = node.tensor(0)
    if all(float(factor).is_integer() for factor in factors):
        extents = extents_of_tensor(data)[2:]
        size = [extent * int(factor) for extent, factor in zip(extents, factors, strict=True)]
        method = {"method": "linear", "coordinate_transformation_mode": "half_pixel"}
        return node.emit(relax.op.image.resize2d(data, relax.ShapeExpr(size), layout="NCHW", **method))
    for axis, (extent, factor) in enumerate(_by_axis(data, factors), 2):
        data = _blended(node, data, axis, extent, factor)
    return data


def _blended(node: TorchNode, data: relax.Expr, axis: int, extent: int, factor: float) -> relax.Expr:
    """The weighted means of pairs of rows along an axis."""
    places = np.maximum((np.arange(int(extent * factor)) + 0.5) / factor - 0.5, 0)
    first = np.minimum(np.floor(places).astype("int64"), extent - 1)
    shape = [-1 if each == axis else 1 for each in range(len(extents_of_tensor(data)))]
    weights = relax.const((places - first).reshape(shape), dtype_of_tensor(data))
    one, other = (
        node.emit(relax.op.take(data, relax.const(each), axis))
        for each in (first, np.minimum(first + 1, extent - 1))
    )
    step = node.emit(relax.op.multiply(node.emit(relax.op.subtract(other, one)), weights))
    return node.emit(relax.op.add(one, step))


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
        matrix = relax.const(_shares(extent, count).T.astype(dtype_of_tensor(data)))
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


@converts("adaptive_max_pool2d.default")
def largest_of_parts(node: TorchNode) -> relax.Expr:
    """The maxima of parts of an image, as many as given; rejected if their places are read."""
    largest_without_places(node)
    data, counts = node.tensor(0), node.argument(1, "output_size")
    assert isinstance(counts, list)
    for axis, count in enumerate(counts, len(extents_of_tensor(data)) - 2):
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
        matrix = relax.const(weights(how, scale).T.astype(dtype_of_tensor(data)))
        data = product_along(node.emit, data, axis, matrix)
    return data
