"""The places of maxima: the output ``Indices`` of `MaxPool`, and `MaxUnpool`, which puts values back there.

Places are numbers of elements in the whole tensor. TVM's importer has neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, shape_text
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.same_padding import is_same, same_padding
from annotated_region.importing.onnx_models.converters.windows import window_attributes
from annotated_region.importing.shared_ops.last_windows import padding_behind
from annotated_region.importing.shared_ops.places_of_maxima import (
    WindowAxis,
    are_searchable,
    maxima_with_places,
)
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["maxima_and_places"]

_LARGEST = 2**31


def maxima_and_places(node: OnnxNode) -> relax.Expr:
    """Both outputs of a `MaxPool`; declines images of unknown extents."""
    data = node.tensor(0, (), (3, 4, 5))
    batch, channels, *extents = node.shape(data)
    known = [extent for extent in extents if isinstance(extent, int)]
    node.require(
        len(known) == len(extents),
        "has the output 'Indices', the places of the maxima, and images of unknown extents "
        f"{shape_text(extents)}; give them numbers (shape_dict, --shape)",
    )
    axes = _axes(node, known)
    node.require(are_searchable(axes), "has the output 'Indices' of too many or too large windows")
    maxima, places = maxima_with_places(data, axes, dtype_of(data), node.emit)
    if node.integer("storage_order", 0, 0, 1):
        places = node.emit(relax.op.take(relax.const(_by_columns(known), "int64"), places))
    return relax.Tuple([maxima, _in_whole(node, places, (batch, channels), known)])


def _axes(node: OnnxNode, extents: Sequence[int]) -> list[WindowAxis]:
    kernel, count = node.integers("kernel_shape"), len(extents)
    strides, dilations = (node.integers(name) or (1,) * count for name in ("strides", "dilations"))
    node.require(
        len(kernel) == len(strides) == len(dilations) == count, "has windows of other axes than its data"
    )
    windows = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    before, behind = _padding(node, windows)
    if node.integer("ceil_mode", 0, 0, 1) and not is_same(node):
        behind = list(map(padding_behind, windows, strides, behind))
    settings = zip(extents, windows, kernel, strides, dilations, before, behind, strict=True)
    axes = [
        WindowAxis(extent, (extent + first + last - window) // stride + 1, size, stride, dilation, first)
        for extent, window, size, stride, dilation, first, last in settings
    ]
    node.require(all(axis.count > 0 for axis in axes), "has windows larger than its images")
    return axes


def _padding(node: OnnxNode, windows: Sequence[int]) -> tuple[list[int], list[int]]:
    """The elements in front of each axis and behind it."""
    if is_same(node):
        begins, ends = same_padding(node, windows)
        return [each for each in begins if isinstance(each, int)], [
            each for each in ends if isinstance(each, int)
        ]
    count = len(windows)
    pads = (node.text("auto_pad", "NOTSET") != "VALID" and node.integers("pads")) or (0,) * 2 * count
    node.require(len(pads) == 2 * count, "has windows of other axes than its data")
    return list(pads[:count]), list(pads[count:])


def _by_columns(extents: Sequence[int]) -> np.ndarray:
    """The number of each element in column-major order."""
    return np.arange(prod(extents)).reshape(extents[::-1]).transpose().reshape(-1)


def _in_whole(
    node: OnnxNode, places: relax.Expr, images: tuple[Extent, Extent], extents: Sequence[int]
) -> relax.Expr:
    """Numbers of elements in their images as numbers in the whole tensor."""
    numbers = node.emit(relax.op.arange(0, images[0] * images[1], 1, "int64"))
    firsts = node.emit(relax.op.multiply(numbers, relax.const(prod(extents), "int64")))
    shape = relax.ShapeExpr([*images, *(1 for _ in extents)])
    return node.emit(relax.op.add(places, node.emit(relax.op.reshape(firsts, shape))))


@converts("", "MaxUnpool", (2, 3), "kernel_shape pads strides")
def _put_back(node: OnnxNode) -> relax.Expr:
    """Each value at its place, and zeros. Places refer to the smallest image that has these windows."""
    window_attributes(node)
    data, places = node.tensor(0, (), (3, 4, 5)), node.tensor(1, ("int64",))
    shape = node.fixed_shape(0, data)
    node.require_shape(1, places, shape)
    smallest = (*shape[:2], *_smallest(node, shape[2:]))
    node.require(
        min(smallest) > 0 and prod(smallest) < _LARGEST,
        f"makes images of shape {shape_text(smallest)}, which is not supported",
    )
    count = (prod(shape),)
    values, targets = (node.emit(relax.op.reshape(each, count)) for each in (data, places))
    empty = node.emit(relax.op.zeros((prod(smallest),), dtype_of(data)))
    filled = node.emit(relax.op.scatter_elements(empty, targets, values, 0))
    image = node.emit(relax.op.reshape(filled, smallest))
    wanted = _wanted(node, smallest)
    if wanted == smallest:
        return image
    widths = [width for have, want in zip(smallest, wanted, strict=True) for width in (0, want - have)]
    return relax.op.nn.pad(image, widths, "constant", 0.0)


def _smallest(node: OnnxNode, extents: Sequence[int]) -> list[int]:
    kernel, count = node.integers("kernel_shape"), len(extents)
    strides, pads = node.integers("strides") or (1,) * count, node.integers("pads") or (0,) * 2 * count
    node.require(
        len(kernel) == len(strides) == len(pads) // 2 == count, "has windows of other axes than its data"
    )
    return [
        (extent - 1) * stride + size - pads[axis] - pads[count + axis]
        for axis, (extent, stride, size) in enumerate(zip(extents, strides, kernel, strict=True))
    ]


def _wanted(node: OnnxNode, smallest: tuple[int, ...]) -> tuple[int, ...]:
    """The extents that the node asks for."""
    if not node.has(2):
        return smallest
    given = node.constant(node.vector(2, ("int64",), len(smallest)))
    node.require(given is not None, "has an 'output_shape' that is no constant, which is not supported")
    wanted = smallest if given is None else tuple(given.tolist())
    node.require(
        all(want >= have for want, have in zip(wanted, smallest, strict=True)),
        f"has the 'output_shape' {wanted}, and its windows need {smallest}",
    )
    return wanted
