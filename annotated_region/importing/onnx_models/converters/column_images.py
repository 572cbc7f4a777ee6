"""`Col2Im`: images of blocks that overlap, each pixel the sum of the elements that the blocks have there.

PyTorch's exporter writes it for ``torch.nn.Fold``, as in VOLO.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_LARGEST = 2**31 - 1
_MOST_PLACES = 2**26


@dataclass(frozen=True, slots=True)
class _BlockAxis:
    """One axis of an image, and how blocks lie along it."""

    extent: int
    block: int
    dilation: int
    stride: int
    before: int
    after: int

    @property
    def blocks(self) -> int:
        """How many blocks begin along the axis; less than one if none fits."""
        padded = self.before + self.extent + self.after
        return (padded - self.dilation * (self.block - 1) - 1) // self.stride + 1

    def places(self) -> np.ndarray:
        """The pixel of each element of each block, by element and block; beyond the image in the padding."""
        elements = self.dilation * np.arange(self.block, dtype="int64")[:, None]
        places: np.ndarray = elements + self.stride * np.arange(self.blocks, dtype="int64") - self.before
        return places


@converts("", "Col2Im", (3, 3), "dilations pads strides")
def _image_of_blocks(node: OnnxNode) -> relax.Expr:
    """Elements in the padding are added to a row behind the pixels, which is left out at the end."""
    data = node.tensor(0, FLOATS, (3,))
    axes = _axes(node)
    batch, rows, count = node.shape(data)
    elements, blocks = math.prod(axis.block for axis in axes), math.prod(axis.blocks for axis in axes)
    if not isinstance(rows, int) or rows % elements:
        raise node.declined(f"has {rows} rows for blocks of {elements} elements")
    node.require(
        isinstance(count, int) and count == blocks,
        f"has {count} blocks; in an image of these extents there are {blocks}",
    )
    node.require(elements * blocks <= _MOST_PLACES, f"has more than {_MOST_PLACES} elements of blocks")
    places = _pixels(axes)
    pixels, channels = math.prod(axis.extent for axis in axes), rows // elements
    apart = node.emit(relax.op.reshape(data, [batch, channels, places.size]))
    updates = node.emit(relax.op.permute_dims(apart, [2, 0, 1]))
    nothing = node.emit(relax.op.zeros(relax.ShapeExpr([pixels + 1, batch, channels]), dtype_of(data)))
    indices = relax.const(np.where(places < 0, pixels, places)[:, None])
    sums = node.emit(relax.op.scatter_nd(nothing, indices, updates, "add"))
    inner = node.emit(relax.op.strided_slice(sums, [0], [0], [pixels]))
    image = node.emit(relax.op.permute_dims(inner, [1, 2, 0]))
    return relax.op.reshape(image, [batch, channels, *(axis.extent for axis in axes)])


def _axes(node: OnnxNode) -> tuple[_BlockAxis, ...]:
    extents, blocks = _numbers(node, 1, "image_shape"), _numbers(node, 2, "block_shape")
    rank = len(extents)
    dilations = node.integers("dilations") or (1,) * rank
    strides = node.integers("strides") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    are_as_many = len(blocks) == len(dilations) == len(strides) == rank and len(pads) == 2 * rank
    node.require(are_as_many, f"has other numbers of blocks, dilations, strides or pads than {rank} axes")
    for name, numbers, least in (("dilations", dilations, 1), ("strides", strides, 1), ("pads", pads, 0)):
        node.require(
            all(least <= number <= _LARGEST for number in numbers),
            f"has the attribute {name!r} of {numbers}, which is not supported",
        )
    axes = tuple(
        _BlockAxis(*numbers)
        for numbers in zip(extents, blocks, dilations, strides, pads[:rank], pads[rank:], strict=True)
    )
    node.require(all(axis.blocks > 0 for axis in axes), "has blocks that are larger than the image")
    return axes


def _numbers(node: OnnxNode, position: int, name: str) -> tuple[int, ...]:
    """An input of extents, which must be constant."""
    known = node.constant(node.tensor(position, ("int64",), (1,)))
    if known is None:
        raise node.declined(f"has an input {name!r} that is not constant")
    numbers = tuple(map(int, known))
    node.require(
        bool(numbers) and all(0 < number <= _LARGEST for number in numbers),
        f"has the input {name!r} of {numbers}, which is not supported",
    )
    return numbers


def _pixels(axes: tuple[_BlockAxis, ...]) -> np.ndarray:
    """The pixel of each element of each block, elements first, counted along all axes; -1 in the padding."""
    pixels = np.zeros((1,) * (2 * len(axes)), "int64")
    for place, axis in enumerate(axes):
        here = np.expand_dims(
            axis.places(), [each for each in range(2 * len(axes)) if each % len(axes) != place]
        )
        is_inside = (here >= 0) & (here < axis.extent)
        pixels = np.where(is_inside & (pixels >= 0), pixels * axis.extent + here, -1)
    return pixels.reshape(-1)
