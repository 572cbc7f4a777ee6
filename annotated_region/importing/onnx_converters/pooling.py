"""Pooling with ``auto_pad`` of ``SAME_UPPER`` and ``SAME_LOWER``, converted to explicit paddings.

TVM 0.27.0 rounds the extents of ``MaxPool`` down where ONNX rounds up (``SAME_LOWER``), and computes
negative paddings for windows smaller than their stride.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_converters.node import OnnxNode
from annotated_region.importing.onnx_converters.registry import converts
from annotated_region.importing.onnx_converters.windows import WINDOWS, window_attributes

__all__: list[str] = []


@converts("", "MaxPool", (1, 1), f"{WINDOWS} ceil_mode storage_order", outputs=1)
@converts("", "AveragePool", (1, 1), f"{WINDOWS} ceil_mode count_include_pad")
def _pooled(node: OnnxNode) -> relax.Expr:
    window_attributes(node)  # validates them
    if node.text("auto_pad", "NOTSET") not in ("SAME_UPPER", "SAME_LOWER"):
        return node.by_tvm()
    return node.by_tvm(auto_pad=b"NOTSET", pads=_same_padding(node), ceil_mode=0)  # all windows fit


@converts("", "LpPool", (1, 1), f"{WINDOWS} ceil_mode p")
def _norms_of_windows(node: OnnxNode) -> relax.Expr:
    """TVM multiplies averages by the window size, even for a smaller last window."""
    is_same = node.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    is_exact = is_same or not node.integer("ceil_mode", 0, 0, 1)
    node.require(is_exact, "has the attribute 'ceil_mode' of 1, which is not supported")
    return _pooled(node)


def _same_padding(node: OnnxNode) -> tuple[int, ...]:
    """The zeros that make each extent ``ceil(extent / stride)``, by ONNX's formula."""
    extents = node.fixed_shape(0, node.tensor(0, (), (3, 4, 5)))[2:]
    kernel = node.integers("kernel_shape")
    strides = node.integers("strides") or (1,) * len(extents)
    node.require(len(kernel) == len(strides) == len(extents), "has windows of other axes than its data")
    node.require(
        all(each == 1 for each in node.integers("dilations")),
        "has dilations with SAME padding, where ONNX Runtime differs from ONNX's definition",
    )
    totals = [
        max((-(-extent // stride) - 1) * stride + window - extent, 0)
        for extent, stride, window in zip(extents, strides, kernel, strict=True)
    ]
    is_upper = node.text("auto_pad", "NOTSET") == "SAME_UPPER"
    begins = [total // 2 if is_upper else total - total // 2 for total in totals]
    return (*begins, *(total - begin for total, begin in zip(totals, begins, strict=True)))
