"""Deformable convolutions: samples of the image at computed places, and a convolution by one pixel.

Each point of the kernel reads the image at its own place plus an offset, as the weighted sum of the four
pixels around it; pixels outside of the image are zero. One `relax.image.grid_sample` reads all points. In its
result the points of a kernel lie behind the channels, as if each were a channel of its own, so that the sum
over both is a convolution with a kernel of one pixel, which targets claim as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax, tirx

from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.types import fixed_extents, shape_of, tensor_type

__all__ = ["DeformedConvolution"]

_COMPUTED = ("float32", "float64")
"""The types of places. Halves are computed in float32, and the result is rounded: a place in halves is wrong
by a part of a pixel in images of more than some hundred."""

_FAR = 4.0
"""Where samples of any image are zero, in halves of it from its centre. Infinite places would give NaN, and
places beyond the integers a pixel of the image in some engines."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeformedConvolution:
    """How images are convolved.

    Attributes
    ----------
    strides, padding, dilations
        Those of rows and of columns; the padding is that in front of the image.
    groups
        The number of groups of channels.
    offset_groups
        The number of groups of channels with offsets of their own.
    """

    strides: Pair
    padding: Pair
    dilations: Pair
    groups: int
    offset_groups: int

    def of(
        self,
        image: relax.Expr,
        weight: relax.Expr,
        offsets: relax.Expr,
        factors: relax.Expr | None,
        bias: relax.Expr | None,
        emit: Callable[[relax.Expr], relax.Var],
    ) -> relax.Expr:
        """The convolved images.

        Parameters
        ----------
        image
            Images, ``[batch, channels, rows, columns]``, with a known number of channels.
        weight
            The kernels, of a known shape.
        offsets
            By rows and by columns: ``[batch, offset_groups * points * 2, rows, columns]`` of the result.
        factors
            Those of the samples, if there are any: ``[batch, offset_groups * points, rows, columns]``.
        bias
            What is added to each channel, if anything is.
        emit
            Binds an expression to a variable.
        """
        stated = str(tensor_type(image).dtype)
        work = _Emission(stated if stated in _COMPUTED else "float32", emit)
        image, weight, offsets = (work.cast(each) for each in (image, weight, offsets))
        batch, channels, *size = _extents(image)
        outputs, inner, *kernel = fixed_extents(weight)
        *_, rows, columns = _extents(offsets)
        points, parts = kernel[0] * kernel[1], batch * self.offset_groups
        grid = self._grid(work, work.reshaped(offsets, [parts, points, 2, rows, columns]), kernel, size)
        group = channels // self.offset_groups
        samples = emit(
            relax.op.image.grid_sample(
                work.reshaped(image, [parts, group, *size]),
                work.reshaped(grid, [parts, 2, points * rows, columns]),
                method="bilinear",
                layout="NCHW",
                padding_mode="zeros",
                align_corners=False,
            )
        )
        if factors is not None:
            spread = work.reshaped(work.cast(factors), [parts, 1, points * rows, columns])
            samples = emit(relax.op.multiply(samples, spread))
        stacked = work.reshaped(samples, [batch, channels * points, rows, columns])
        pixel = work.reshaped(weight, [outputs, inner * points, 1, 1])
        result = emit(relax.op.nn.conv2d(stacked, pixel, groups=self.groups))
        if bias is not None:
            result = emit(relax.op.add(result, work.reshaped(work.cast(bias), [1, outputs, 1, 1])))
        return result if stated == work.dtype else emit(relax.op.astype(result, stated))

    def _grid(
        self, work: _Emission, offsets: relax.Expr, kernel: Sequence[int], size: Sequence[Extent]
    ) -> relax.Expr:
        """Where to sample, columns first, from -1 to 1 between the outer borders of the image."""
        halves = []
        for axis in (1, 0):
            before = work.emit(relax.op.strided_slice(offsets, [2], [axis], [axis + 1]))
            flat = work.reshaped(before, _without(_extents(before), 2, at=1))
            places = self._places(work, axis, kernel, _extents(offsets)[3 + axis])
            place = work.normalized(flat, places, size[axis])
            halves.append(work.emit(relax.op.clip(place, -_FAR, _FAR)))
        return work.emit(relax.op.concat(halves, axis=1))

    def _places(
        self, work: _Emission, axis: int, kernel: Sequence[int], count: Extent
    ) -> np.ndarray | relax.Expr:
        """The places of the points without offsets, as ``[1, 1, points, rows or 1, columns or 1]``."""
        inside = np.indices(kernel)[axis].reshape(1, 1, -1, 1, 1) * self.dilations[axis] - self.padding[axis]
        if isinstance(count, int):
            before = np.arange(count) * self.strides[axis]
            known: np.ndarray = inside + (before[:, None] if axis == 0 else before)
            return known
        numbers = work.cast(work.emit(relax.op.arange(0, count, 1, "int64")))
        steps = work.emit(relax.op.multiply(numbers, work.constant(self.strides[axis])))
        shape: list[Extent] = [count, 1] if axis == 0 else [count]
        return work.emit(relax.op.add(work.reshaped(steps, shape), work.constant(inside)))


@dataclass(frozen=True, slots=True)
class _Emission:
    """Emits calls in one data type."""

    dtype: str
    emit: Callable[[relax.Expr], relax.Var]

    def constant(self, numbers: np.ndarray | float) -> relax.Expr:
        return relax.const(np.asarray(numbers, self.dtype), self.dtype)

    def cast(self, expr: relax.Expr) -> relax.Expr:
        is_cast = str(tensor_type(expr).dtype) == self.dtype
        return expr if is_cast else self.emit(relax.op.astype(expr, self.dtype))

    def reshaped(self, expr: relax.Expr, extents: Sequence[Extent]) -> relax.Expr:
        return self.emit(relax.op.reshape(expr, relax.ShapeExpr(extents)))

    def normalized(self, offsets: relax.Expr, places: np.ndarray | relax.Expr, extent: Extent) -> relax.Expr:
        """Offsets plus places, both in pixels along an axis of this extent, as parts of the axis.

        The centre of pixel ``p`` is at ``(2 * p + 1) / extent - 1``.
        """
        if isinstance(places, np.ndarray) and isinstance(extent, int):
            scaled = self.emit(relax.op.multiply(offsets, self.constant(2 / extent)))
            return self.emit(relax.op.add(scaled, self.constant((2 * places + 1) / extent - 1)))
        start = self.constant(places) if isinstance(places, np.ndarray) else places
        found = self.emit(relax.op.add(offsets, start))
        centred = self.emit(relax.op.add(found, self.constant(0.5)))
        half = self.emit(relax.op.multiply(self._number(extent), self.constant(0.5)))
        return self.emit(relax.op.subtract(self.emit(relax.op.divide(centred, half)), self.constant(1.0)))

    def _number(self, extent: Extent) -> relax.Expr:
        if isinstance(extent, int):
            return self.constant(extent)
        row = self.emit(relax.op.shape_to_tensor(relax.ShapeExpr([extent])))
        return self.cast(self.reshaped(row, []))


def _extents(expr: relax.Expr) -> list[Extent]:
    return [int(each) if isinstance(each, tirx.IntImm) else each for each in shape_of(expr).values]


def _without(extents: list[Extent], axis: int, at: int) -> list[Extent]:
    """The extents with one of 1 moved to another place."""
    rest = [*extents[:axis], *extents[axis + 1 :]]
    return [*rest[:at], 1, *rest[at:]]
