"""`Conv` of an unknown number of channels, and with ``auto_pad`` along symbolic axes.

TVM's importer fails for the padding, which models of Keras have.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, has_shape
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.same_padding import extended, is_same, same_padding
from annotated_region.importing.onnx_models.converters.windows import (
    WINDOWS,
    window_attributes,
    with_known_channels,
)

__all__: list[str] = []


@converts("", "Conv", (2, 3), f"{WINDOWS} group")
def _convolution(given: OnnxNode) -> relax.Expr:
    """Paddings that are numbers are attributes, others are joined to the data."""
    node = _of_known_channels(given)
    if not is_same(node) or all(isinstance(each, int) for each in node.shape(node.tensor(0))[2:]):
        return node.by_tvm()
    window_attributes(node)  # validates them
    taps = node.fixed_shape(1, node.tensor(1, FLOATS, (3, 4, 5)))[2:]
    node.require(
        all(each == 1 for each in node.integers("dilations")),
        "has dilations with SAME padding, which ONNX Runtime does not support",
    )
    begins, ends = same_padding(node, taps)
    known = [each for each in (*begins, *ends) if isinstance(each, int)]
    if len(known) == 2 * len(begins):
        return node.by_tvm(auto_pad=b"NOTSET", pads=tuple(known))
    wider = extended(node, node.tensor(0, FLOATS), begins, ends, 0.0)
    changed = replace(node, inputs=(wider, *node.inputs[1:]))
    return changed.by_tvm(auto_pad=b"NOTSET", pads=(0,) * 2 * len(begins))


def _of_known_channels(node: OnnxNode) -> OnnxNode:
    if not all(each is not None and has_shape(each) for each in node.inputs[:2]):
        return node
    return node.with_input(0, with_known_channels(node, node.tensor(0), node.tensor(1)))
