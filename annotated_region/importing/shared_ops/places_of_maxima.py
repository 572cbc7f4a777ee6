"""The maxima in windows, and where they are, as `max_pool2d(return_indices=True)` and ``MaxPool`` give them.

Relax has no such op. The elements at one place of every window are a strided slice of the data, so all
windows are searched at once, place by place. The first of equal elements is the maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from tvm import relax

from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["WindowAxis", "are_searchable", "maxima_with_places"]

MOST_ELEMENTS = 1 << 10  # of a window
MOST_NUMBERS = 1 << 26  # of the windows of an image, and of its elements


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

    @property
    def coordinates(self) -> np.ndarray:
        """Of the begin of each window; negative in the padding."""
        return np.arange(self.count) * self.stride - self.before

    @property
    def first_coordinates(self) -> np.ndarray:
        """Of the first element of each window that is no padding."""
        begins = self.coordinates
        first: np.ndarray = (
            begins + np.maximum(self.dilation - 1 - begins, 0) // self.dilation * self.dilation
        )
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
    begins = _numbers([axis.coordinates for axis in axes], axes)
    firsts = _numbers([axis.first_coordinates for axis in axes], axes)
    best: relax.Expr = relax.const(np.full([axis.count for axis in axes], lowest), dtype)
    place: relax.Expr = relax.const(firsts - begins, "int64")  # from the begin of its window
    for offsets in product(*(range(axis.size) for axis in axes)):
        found = emit(_elements(padded, axes, offsets))
        is_better = emit(relax.op.greater(found, best))
        if "float" in dtype:  # NaN is the maximum of its window
            is_better = emit(relax.op.logical_or(is_better, emit(relax.op.isnan(found))))
        steps = [offset * axis.dilation for offset, axis in zip(offsets, axes, strict=True)]
        best = emit(relax.op.where(is_better, found, best))
        place = emit(relax.op.where(is_better, relax.const(_distance(steps, axes), "int64"), place))
    return best, emit(relax.op.add(place, relax.const(begins, "int64")))


def are_searchable(axes: Sequence[WindowAxis]) -> bool:
    """Whether windows are few and small enough: there are some ops for each of their elements."""
    return prod(axis.size for axis in axes) <= MOST_ELEMENTS and all(
        prod(counts) <= MOST_NUMBERS
        for counts in ([axis.count for axis in axes], [axis.extent for axis in axes])
    )


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


def _distance(steps: Sequence[int], axes: Sequence[WindowAxis]) -> int:
    """The difference of the numbers of two elements that are so many steps apart along each axis."""
    distance = 0
    for step, axis in zip(steps, axes, strict=True):
        distance = distance * axis.extent + step
    return distance
