"""Poolings with arguments that TVM 0.27's importer ignores.

*   ``avg_pool2d`` and ``avg_pool3d`` may have an explicit divisor: the sum of each window, divided by it.
*   ``max_pool2d(return_indices=True)`` gets zeros as indices. It is rejected if they are read.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)

_BATCHED = {2: 4, 3: 5}  # the rank of a batch of images, by the number of axes of a window


@converts("avg_pool2d.default")
def averaged_by_divisor_2d(node: TorchNode) -> relax.Expr | None:
    """Pooling in two dimensions with an explicit divisor; others are left to TVM's importer."""
    return _averaged_by_divisor(node, 2)


@converts("avg_pool3d.default")
def averaged_by_divisor_3d(node: TorchNode) -> relax.Expr | None:
    """Pooling in three dimensions with an explicit divisor; others are left to TVM's importer."""
    return _averaged_by_divisor(node, 3)


@converts("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def largest_without_places(node: TorchNode) -> relax.Expr | None:
    """The maxima; rejected if their places are read."""
    if node.are_read(1):
        raise ModelError("return_indices=True is not supported: Relax has no places of maxima in windows")
    return None


def _averaged_by_divisor(node: TorchNode, axes: int) -> relax.Expr | None:
    """The averages of whole windows, in which padding counts, times their volume over the divisor."""
    divisor = node.argument(6, "divisor_override")
    if divisor is None:
        return None
    assert isinstance(divisor, int)
    window = _per_axis(node.argument(1, "kernel_size"), axes)
    strides = _per_axis(node.argument(2, "stride") or window, axes)
    before = _per_axis(node.argument(3, "padding", 0), axes)
    behind = before
    if bool(node.argument(4, "ceil_mode", default=False)):
        behind = [
            _behind_last(extent, *each)
            for extent, *each in zip(
                extents_of_tensor(node.tensor(0))[-axes:], window, strides, before, strict=True
            )
        ]
    data, dtype = node.tensor(0), dtype_of_tensor(node.tensor(0))
    is_whole = "int" in dtype
    # Sums of integers are exact in float64, which the host computes.
    data = node.cast(data, "float64") if is_whole else data
    is_single = len(extents_of_tensor(data)) < _BATCHED[axes]
    data = node.emit(relax.op.expand_dims(data, 0)) if is_single else data
    pool = relax.op.nn.avg_pool2d if axes == 2 else relax.op.nn.avg_pool3d
    found: relax.Expr = node.emit(
        pool(data, pool_size=window, strides=strides, padding=[*before, *behind], count_include_pad=True)
    )
    volume = 1
    for each in window:
        volume *= each
    if is_whole:
        sums = node.emit(relax.op.round(relax.op.multiply(found, relax.const(float(volume), "float64"))))
        found = node.emit(relax.op.trunc(relax.op.divide(sums, relax.const(float(divisor), "float64"))))
        found = node.cast(found, dtype)
    else:
        found = node.emit(relax.op.multiply(found, relax.const(volume / divisor, dtype)))
    return node.emit(relax.op.squeeze(found, [0])) if is_single else found


def _per_axis(given: object, axes: int) -> list[int]:
    """A number for each axis of a window; PyTorch takes one for all."""
    numbers = [int(str(each)) for each in given] if isinstance(given, list) else [int(str(given))]
    return numbers if len(numbers) == axes else numbers * axes


def _behind_last(extent: int | relax.Expr, window: int, stride: int, padding: int) -> int:
    """The padding behind an axis for its last window, which begins before the padding behind the axis."""
    if not isinstance(extent, int):
        raise ModelError(
            "divisor_override with ceil_mode=True needs images of known extents; export the model with them"
        )
    count = -(-(extent + 2 * padding - window) // stride) + 1
    count -= (count - 1) * stride >= extent + padding
    return max(padding, (count - 1) * stride + window - extent - padding)
