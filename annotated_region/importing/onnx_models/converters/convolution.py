"""`Conv` of an unknown number of channels, and with ``auto_pad`` along symbolic axes.

Optimum exports images with a named number of channels. No target claims a convolution of these; the kernel
states how many there are. TVM's importer fails for the padding, which models of Keras have.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, has_shape
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.same_padding import extended, is_same, same_padding
from annotated_region.importing.onnx_models.converters.windows import WINDOWS, window_attributes

__all__: list[str] = []


@converts("", "Conv", (2, 3), f"{WINDOWS} group")
def _convolution(given: OnnxNode) -> relax.Expr:
    """Paddings that are numbers are attributes, others are joined to the data."""
    node = _of_known_channels(given)
    if not is_same(node) or all(isinstance(each, int) for each in node.shape(node.tensor(0))[2:]):
        return node.by_tvm()
    window_attributes(node)  # validates them
    kernel = node.fixed_shape(1, node.tensor(1, FLOATS, (3, 4, 5)))[2:]
    node.require(
        all(each == 1 for each in node.integers("dilations")),
        "has dilations with SAME padding, which ONNX Runtime does not support",
    )
    begins, ends = same_padding(node, kernel)
    known = [each for each in (*begins, *ends) if isinstance(each, int)]
    if len(known) == 2 * len(begins):
        return node.by_tvm(auto_pad=b"NOTSET", pads=tuple(known))
    wider = extended(node, node.tensor(0, FLOATS), begins, ends, 0.0)
    changed = replace(node, inputs=(wider, *node.inputs[1:]))
    return changed.by_tvm(auto_pad=b"NOTSET", pads=(0,) * 2 * len(begins))


def _of_known_channels(node: OnnxNode) -> OnnxNode:
    """The node with as many channels as its kernel reads; each call is checked where that is not known."""
    if not all(each is not None and has_shape(each) for each in node.inputs[:2]):
        return node
    data, kernel = node.tensor(0), node.tensor(1)
    extents, taps = node.shape(data), node.shape(kernel)
    if (
        len(extents) != len(taps)
        or len(extents) < 3
        or isinstance(extents[1], int)
        or not isinstance(taps[1], int)
    ):
        return node
    channels = taps[1] * node.integer("group", 1, 1)
    return node.with_input(0, node.with_extents(data, (extents[0], channels, *extents[2:])))
