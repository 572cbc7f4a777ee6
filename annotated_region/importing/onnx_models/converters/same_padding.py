"""``auto_pad`` of ``SAME_UPPER`` and ``SAME_LOWER`` as explicit paddings.

TVM 0.27.0 rounds the extents of ``MaxPool`` down where ONNX rounds up (``SAME_LOWER``), computes negative
paddings for windows smaller than their stride, and none for symbolic extents, whose paddings depend on the
remainder of the division by the stride.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax, tirx

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["extended", "filled", "is_same", "same_padding"]


def is_same(node: OnnxNode) -> bool:
    """Whether the result has as many windows as fit with their strides."""
    return node.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")


def same_padding(node: OnnxNode, kernel: Sequence[int]) -> tuple[list[Extent], list[Extent]]:
    """The elements before and behind each axis that make its extent ``ceil(extent / stride)``.

    Parameters
    ----------
    node
        A convolution or a pooling, whose first two axes are those of the batch and the channels.
    kernel
        The extents of the window, dilated.
    """
    extents = node.shape(node.tensor(0, (), (3, 4, 5)))[2:]
    strides = node.integers("strides") or (1,) * len(extents)
    node.require(len(kernel) == len(strides) == len(extents), "has windows of other axes than its data")
    totals = list(map(_total, extents, strides, kernel))
    halves = [total // 2 for total in totals]
    rests = [total - half for total, half in zip(totals, halves, strict=True)]
    return (halves, rests) if node.text("auto_pad", "NOTSET") == "SAME_UPPER" else (rests, halves)


def _total(extent: Extent, stride: int, window: int) -> Extent:
    """The last window begins at the last multiple of the stride; it ends so far behind the axis."""
    if stride == 1:
        return window - 1
    if isinstance(extent, int):
        return max(window - 1 - (extent - 1) % stride, 0)
    last = (extent - 1) % stride
    if window >= stride:
        return window - 1 - last
    return tirx.Max(window - 1 - last, tirx.IntImm("int64", 0))


def extended(
    node: OnnxNode, data: relax.Expr, begins: Sequence[Extent], ends: Sequence[Extent], value: float
) -> relax.Expr:
    """The data with a number before and behind each axis that is neither batch nor channels."""
    for axis, pair in enumerate(zip(begins, ends, strict=True), 2):
        front, back = (_block(node, data, axis, extent, value) for extent in pair)
        parts = [part for part in (front, data, back) if part is not None]
        data = node.emit(relax.op.concat(parts, axis)) if len(parts) > 1 else data
    return data


def _block(node: OnnxNode, data: relax.Expr, axis: int, extent: Extent, value: float) -> relax.Expr | None:
    is_nothing = isinstance(extent, int) and extent == 0
    return None if is_nothing else filled(node, data, axis, extent, value)


def filled(node: OnnxNode, data: relax.Expr, axis: int, extent: Extent, value: float) -> relax.Expr:
    """A tensor of one number, of the shape of the data but for one axis."""
    shape: list[Extent] = list(node.shape(data))
    shape[axis] = extent
    dtype = dtype_of(data)
    if math.isinf(value):
        # TVM 0.27 cannot compile `full` of infinity.
        one = relax.const(np.full([1] * len(shape), value), dtype)
        return node.emit(relax.op.broadcast_to(one, relax.ShapeExpr(shape)))
    return node.emit(relax.op.full(relax.ShapeExpr(shape), relax.const(value, dtype), dtype))
