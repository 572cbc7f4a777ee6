"""`AffineGrid` as the product of a constant grid with the matrices, which every target claims; `GridSample`.

TVM's importer takes no size of a grid that is computed from a shape, and its op is claimed by few targets.
TVM's ``grid_sample`` of a grid that has another type than the image says that the result has the image's
type, and returns the wider one.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_LARGEST = 2**26


@converts("", "AffineGrid", (2, 2), "align_corners")
def _affine_grid(node: OnnxNode) -> relax.Expr:
    """The places of pixels in an image from -1 to 1, as vectors ``(x, y, 1)`` or ``(x, y, z, 1)``."""
    theta = node.tensor(0, FLOATS, (3,))
    batch, rank, width = node.shape(theta)
    if not isinstance(rank, int) or (rank, width) not in ((2, 3), (3, 4)):
        raise node.declined("has matrices that are neither (2, 3) nor (3, 4)")
    sizes = _sizes(node, rank)
    corners = bool(node.integer("align_corners", 0, 0, 1))
    node.require(not corners or min(sizes) > 1, "aligns the corners of images of one pixel")
    lines = [np.linspace(-1, 1, size) if corners else (2 * np.arange(size) + 1) / size - 1 for size in sizes]
    grid = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(sizes)], -1)
    pixels = relax.const(grid.reshape(1, -1, rank + 1), dtype_of(theta))
    turned = node.emit(relax.op.permute_dims(theta, [0, 2, 1]))
    return relax.op.reshape(
        node.emit(relax.op.matmul(pixels, turned)), relax.ShapeExpr([batch, *sizes, rank])
    )


def _sizes(node: OnnxNode, rank: int) -> list[int]:
    """The extents of the image, without batch and channels."""
    given = node.inputs[1]
    numbers = None if given is None else numbers_of(node.builder, given)
    if numbers is None:
        raise node.declined("has a size that is not computed from extents")
    sizes = [each for each in numbers[2:] if isinstance(each, int)]
    node.require(
        len(sizes) + 2 == len(numbers) and len(sizes) == rank,
        f"has the size {numbers}; the extents of the image must be numbers (shape_dict, --shape)",
    )
    node.require(0 < np.prod(sizes, dtype="float64") <= _LARGEST, f"has an image of the extents {sizes}")
    return sizes


@converts("", "GridSample", (2, 2), "align_corners mode padding_mode")
def _samples(node: OnnxNode) -> relax.Expr:
    """The grid has the image's type, as in PyTorch; exports of Deformable DETR compute it in float64."""
    image, grid = node.tensor(0), node.tensor(1)
    if dtype_of(grid) == dtype_of(image) or not {dtype_of(grid), dtype_of(image)} <= set(FLOATS):
        return node.by_tvm()
    return node.with_input(1, node.emit(relax.op.astype(grid, dtype_of(image)))).by_tvm()
