"""Pooling with ``auto_pad`` of ``SAME_UPPER`` and ``SAME_LOWER``, converted to explicit paddings.

So is pooling of images of any size that rounds their extents up.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode
from annotated_region.importing.onnx_models.converters.places_of_maxima import maxima_and_places
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.same_padding import extended, is_same, same_padding
from annotated_region.importing.onnx_models.converters.windows import WINDOWS, window_attributes
from annotated_region.importing.shared_ops.last_windows import padding_behind
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []


@converts("", "MaxPool", (1, 1), f"{WINDOWS} ceil_mode storage_order")
@converts("", "AveragePool", (1, 1), f"{WINDOWS} ceil_mode count_include_pad")
def _pooled(node: OnnxNode) -> relax.Expr:
    window_attributes(node)  # validates them
    if node.makes(1):
        return maxima_and_places(node)
    if not is_same(node):
        rounded_down = _ends_of_last_windows(node)
        return node.by_tvm(**rounded_down) if rounded_down else node.by_tvm()
    begins, ends = _same_padding(node)
    known = [each for each in (*begins, *ends) if isinstance(each, int)]
    if len(known) == 2 * len(begins):
        return node.by_tvm(auto_pad=b"NOTSET", pads=tuple(known), ceil_mode=0)  # all windows fit
    data = node.tensor(0, FLOATS)
    node.require(
        node.proto.op_type == "MaxPool",
        "has SAME padding of symbolic extents, which depends on them; "
        "give them numbers (shape_dict, --shape)",
    )
    wider = extended(node, data, begins, ends, -math.inf)
    return replace(node, inputs=(wider,)).by_tvm(auto_pad=b"NOTSET", pads=(0,) * 2 * len(begins), ceil_mode=0)


def _ends_of_last_windows(node: OnnxNode) -> dict[str, object] | None:
    """The attributes of a pooling that rounds down instead of up; None if it need not be changed.

    What is behind an axis counts in no average without padding; with padding, it does up to its end.
    """
    extents, kernel = node.shape(node.tensor(0, (), (3, 4, 5)))[2:], node.integers("kernel_shape")
    count = len(kernel)
    pads = (node.text("auto_pad", "NOTSET") != "VALID" and node.integers("pads")) or (0,) * 2 * count
    is_known = all(isinstance(extent, int) for extent in extents)
    counts = bool(node.integer("count_include_pad", 0, 0, 1)) and any(pads)
    if is_known or counts or not node.integer("ceil_mode", 0, 0, 1):
        return None
    ones = (1,) * count
    strides, dilations = node.integers("strides") or ones, node.integers("dilations") or ones
    node.require(
        len({len(extents), count, len(strides), len(dilations), len(pads) // 2}) == 1,
        "has windows of other axes than its data",
    )
    windows = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    ends = map(padding_behind, windows, strides, pads[count:])
    settings = {"auto_pad": b"NOTSET", "pads": (*pads[:count], *ends), "ceil_mode": 0}
    return settings if node.proto.op_type == "MaxPool" else {**settings, "count_include_pad": 0}


@converts("", "LpPool", (1, 1), f"{WINDOWS} ceil_mode p")
def _norms_of_windows(node: OnnxNode) -> relax.Expr:
    """TVM multiplies averages by the window size, even for a smaller last window."""
    is_exact = is_same(node) or not node.integer("ceil_mode", 0, 0, 1)
    node.require(is_exact, "has the attribute 'ceil_mode' of 1, which is not supported")
    return _pooled(node)


def _same_padding(node: OnnxNode) -> tuple[list[Extent], list[Extent]]:
    node.require(
        all(each == 1 for each in node.integers("dilations")),
        "has dilations with SAME padding, where ONNX Runtime differs from ONNX's definition",
    )
    return same_padding(node, node.integers("kernel_shape"))
