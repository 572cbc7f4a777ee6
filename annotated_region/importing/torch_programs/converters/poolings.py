"""Poolings with arguments that TVM 0.27's importer ignores.

*   ``avg_pool2d`` and ``avg_pool3d`` may have an explicit divisor: the sum of each window, divided by it.
*   ``max_pool2d(return_indices=True)`` gets zeros as indices. Images of known size are searched here.

Poolings of images of any size with ``ceil_mode=True`` round down here, with more padding behind the axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.shared_ops.last_windows import padding_behind
from annotated_region.importing.shared_ops.places_of_maxima import (
    WindowAxis,
    are_searchable,
    maxima_with_places,
)
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("avg_pool2d.default")
def averaged_2d(node: TorchNode) -> relax.Expr | None:
    """Pooling of images with a divisor or of any size that rounds up; others are left to TVM's importer."""
    return _averaged(node, 2)


@converts("avg_pool3d.default")
def averaged_3d(node: TorchNode) -> relax.Expr | None:
    """Pooling of volumes with a divisor or of any size that rounds up; others are left to TVM's importer."""
    return _averaged(node, 3)


@converts("max_pool2d_with_indices.default")
def largest_2d(node: TorchNode) -> relax.Expr | None:
    """The maxima in windows of images, and their places if they are read."""
    return _largest(node, 2)


@converts("max_pool3d_with_indices.default")
def largest_3d(node: TorchNode) -> relax.Expr | None:
    """The maxima in windows of volumes, and their places if they are read."""
    return _largest(node, 3)


def require_no_places(node: TorchNode) -> None:
    """Reject the node if the places of its maxima are read."""
    if node.are_read(1):
        raise ModelError(
            "return_indices=True is not supported here; places of maxima are found in images of known size, "
            "by windows of moderate size"
        )


def _largest_with_places(node: TorchNode, axes: int) -> relax.Expr | None:
    """The maxima and their places; None if the extents are not known, or windows too large."""
    data, counts = node.tensor(0), node.node.meta["val"][0].shape[-axes:]
    extents = extents_of_tensor(data)[-axes:]
    if not all(isinstance(each, int) for each in (*extents, *counts)):
        return None
    windows = _Windows.of(node, axes, _per_axis(node.argument(4, "dilation", 1), axes))
    settings = zip(
        extents, counts, windows.extents, windows.strides, windows.dilations, windows.before, strict=True
    )
    along = [WindowAxis(*map(int, each)) for each in settings]
    if not are_searchable(along):
        return None
    return node.emit(relax.Tuple(maxima_with_places(data, along, dtype_of_tensor(data), node.emit)))


def _largest(node: TorchNode, axes: int) -> relax.Expr | None:
    found = _largest_with_places(node, axes) if node.are_read(1) else None
    return _largest_rounded_up(node, axes) if found is None else found


def _largest_rounded_up(node: TorchNode, axes: int) -> relax.Expr | None:
    require_no_places(node)
    if not _is_rounded_up(node, 5, axes):
        return None
    windows = _Windows.of(node, axes, _per_axis(node.argument(4, "dilation", 1), axes))
    pool = relax.op.nn.max_pool2d if axes == 2 else relax.op.nn.max_pool3d
    found = windows.pooled(node, node.tensor(0), partial(pool, dilation=windows.dilations), windows.behind)
    return node.emit(relax.Tuple([found]))


def _averaged(node: TorchNode, axes: int) -> relax.Expr | None:
    has_divisor = node.argument(6, "divisor_override") is not None
    return _averaged_by_divisor(node, axes) if has_divisor else _averaged_rounded_up(node, axes)


def _averaged_rounded_up(node: TorchNode, axes: int) -> relax.Expr | None:
    """Without padding, what is behind an axis counts in no average; with padding, it does up to its end."""
    counts = bool(node.argument(5, "count_include_pad", default=True))
    if not _is_rounded_up(node, 4, axes):
        return None
    windows = _Windows.of(node, axes, [1] * axes)
    if counts and any(windows.before):
        return None
    pool = relax.op.nn.avg_pool2d if axes == 2 else relax.op.nn.avg_pool3d
    return windows.pooled(node, node.tensor(0), partial(pool, count_include_pad=False), windows.behind)


def _is_rounded_up(node: TorchNode, place: int, axes: int) -> bool:
    """Whether a pooling of axes whose extents are not all known rounds up."""
    is_known = all(isinstance(extent, int) for extent in extents_of_tensor(node.tensor(0))[-axes:])
    return not is_known and bool(node.argument(place, "ceil_mode", default=False))


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of a pooling that rounds up, and the padding before them."""

    extents: list[int]
    strides: list[int]
    before: list[int]
    dilations: list[int]

    @classmethod
    def of(cls, node: TorchNode, axes: int, dilations: list[int]) -> _Windows:
        """The windows that a node describes."""
        extents = _per_axis(node.argument(1, "kernel_size"), axes)
        strides = _per_axis(node.argument(2, "stride") or extents, axes)
        return cls(extents, strides, _per_axis(node.argument(3, "padding", 0), axes), dilations)

    @property
    def behind(self) -> list[int]:
        """The padding behind the axes."""
        whole = [(extent - 1) * step + 1 for extent, step in zip(self.extents, self.dilations, strict=True)]
        return list(map(padding_behind, whole, self.strides, self.before))

    def pooled(
        self, node: TorchNode, data: relax.Expr, pool: Callable[..., relax.Expr], behind: list[int]
    ) -> relax.Expr:
        """The data in these windows; what is no batch becomes one for the time of the pooling."""
        is_single = len(extents_of_tensor(data)) < len(self.extents) + 2
        data = node.emit(relax.op.expand_dims(data, 0)) if is_single else data
        padding = [*self.before, *behind]
        found = node.emit(pool(data, pool_size=self.extents, strides=self.strides, padding=padding))
        return node.emit(relax.op.squeeze(found, [0])) if is_single else found


def _averaged_by_divisor(node: TorchNode, axes: int) -> relax.Expr:
    """The averages of whole windows, in which padding counts, times their volume over the divisor."""
    divisor = node.argument(6, "divisor_override")
    assert isinstance(divisor, int)
    windows = _Windows.of(node, axes, [1] * axes)
    is_rounded_up = bool(node.argument(4, "ceil_mode", default=False))
    data, dtype = node.tensor(0), dtype_of_tensor(node.tensor(0))
    is_whole = "int" in dtype
    # Sums of integers are exact in float64, which the host computes.
    data = node.cast(data, "float64") if is_whole else data
    pool = partial(relax.op.nn.avg_pool2d if axes == 2 else relax.op.nn.avg_pool3d, count_include_pad=True)
    found = windows.pooled(node, data, pool, windows.behind if is_rounded_up else windows.before)
    volume = prod(windows.extents)
    if not is_whole:
        return node.emit(relax.op.multiply(found, relax.const(volume / divisor, dtype)))
    sums = node.emit(relax.op.round(relax.op.multiply(found, relax.const(float(volume), "float64"))))
    quotients = node.emit(relax.op.trunc(relax.op.divide(sums, relax.const(float(divisor), "float64"))))
    return node.cast(quotients, dtype)


def _per_axis(given: object, axes: int) -> list[int]:
    """A number for each axis of a window; PyTorch takes one for all."""
    numbers = [int(str(each)) for each in given] if isinstance(given, list) else [int(str(given))]
    return numbers if len(numbers) == axes else numbers * axes
