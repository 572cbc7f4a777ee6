"""The maxima in windows, and where they are, as `max_pool2d(return_indices=True)` and ``MaxPool`` give them.

Relax has no such op. The elements at one place of every window are a strided slice of the data, so all
windows are searched at once, place by place. The first of equal elements is the maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from tvm import relax

from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["WindowAxis", "maxima_with_places"]


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """The windows along one axis.

    Attributes
    ----------
    extent
        The elements of the data.
    count
        The number of windows.
    size, stride, dilation
        The elements of a window, and the distances of windows and of their elements.
    before
        The padding in front of the data, where no window has its maximum.
    """

    extent: int
    count: int
    size: int
    stride: int
    dilation: int
    before: int

    @property
    def behind(self) -> int:
        """The padding behind the data that the last window needs."""
        last = (self.count - 1) * self.stride + (self.size - 1) * self.dilation
        return max(last + 1 - self.before - self.extent, 0)

    def coordinates(self, place: int) -> np.ndarray:
        """Of the elements at one place of each window."""
        return np.arange(self.count) * self.stride + place * self.dilation - self.before

    @property
    def first_coordinates(self) -> np.ndarray:
        """Of the first element of each window that is no padding."""
        first = self.coordinates(0)
        first += np.maximum(-first + self.dilation - 1, 0) // self.dilation * self.dilation
        return first


def maxima_with_places(
    data: relax.Expr, axes: Sequence[WindowAxis], dtype: str, emit: Callable[[relax.Expr], relax.Expr]
) -> tuple[relax.Expr, relax.Expr]:
    """The maxima in windows along the last axes, and the number of each in its image, in row-major order.

    Parameters
    ----------
    data
        A tensor with these extents along its last axes.
    axes
        The windows along each of them.
    dtype
        The data type of the tensor.
    emit
        Binds a value; returns its variable.
    """
    lowest = -np.inf if "float" in dtype else np.iinfo(dtype).min
    padded = _padded(data, axes, float(lowest), emit)
    best: relax.Expr = relax.const(np.full([axis.count for axis in axes], lowest), dtype)
    place: relax.Expr = relax.const(_numbers([axis.first_coordinates for axis in axes], axes), "int64")
    for offsets in product(*(range(axis.size) for axis in axes)):
        found = emit(_elements(padded, axes, offsets))
        is_better = emit(relax.op.greater(found, best))
        if "float" in dtype:  # NaN is the maximum of its window
            is_better = emit(relax.op.logical_or(is_better, emit(relax.op.isnan(found))))
        numbers = _numbers(
            [axis.coordinates(offset) for axis, offset in zip(axes, offsets, strict=True)], axes
        )
        best = emit(relax.op.where(is_better, found, best))
        place = emit(relax.op.where(is_better, relax.const(numbers, "int64"), place))
    return best, place


def _padded(
    data: relax.Expr, axes: Sequence[WindowAxis], value: float, emit: Callable[[relax.Expr], relax.Expr]
) -> relax.Expr:
    widths = [0, 0] * (tensor_type(data).ndim - len(axes)) + [
        width for axis in axes for width in (axis.before, axis.behind)
    ]
    return emit(relax.op.nn.pad(data, widths, "constant", value)) if any(widths) else data


def _elements(padded: relax.Expr, axes: Sequence[WindowAxis], offsets: Sequence[int]) -> relax.Expr:
    """The elements at one place of each window."""
    begins = [offset * axis.dilation for offset, axis in zip(offsets, axes, strict=True)]
    ends = [begin + (axis.count - 1) * axis.stride + 1 for begin, axis in zip(begins, axes, strict=True)]
    steps = [axis.stride for axis in axes]
    rank = tensor_type(padded).ndim
    return relax.op.strided_slice(padded, [*range(rank - len(axes), rank)], begins, ends, steps)


def _numbers(coordinates: Sequence[np.ndarray], axes: Sequence[WindowAxis]) -> np.ndarray:
    """The numbers of elements, given their coordinates along each axis."""
    numbers = np.zeros([], "int64")
    for along, axis in zip(coordinates, axes, strict=True):
        numbers = numbers[..., None] * axis.extent + along
    return numbers
