"""Padding of bytes with a zero point, which OpenVINO 2026.4 has wrong inside of a convolution."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.openvino_convolutions import drawn, in_bytes, require_right
from kits.backends.openvino_kit import needs_openvino
from kits.onnx_nodes import Node, model_of_nodes
from onnx import numpy_helper

CONVOLUTIONS = (
    ((1, 4, 33, 96), (48, 4, 3, 1), (2, 0), 2),
    ((2, 4, 64, 112), (8, 4, 5, 1), (1, 0), 1),
    ((1, 9, 1, 9, 9), (8, 9, 3, 7, 4), (1, 4, 0), 2),
    ((1, 9, 1, 12, 3), (8, 9, 2, 9, 3), (1, 6, 0), 1),
    ((1, 3, 40, 40), (8, 3, 3, 3), (1, 1), 2),
)
BETWEEN = {
    "nothing": [],
    "a factor": [Node("Mul", "d half", "m")],
    "a pool": [Node("MaxPool", "d", "m", kernel_shape=[1, 1])],
    "a view": [Node("Concat", "d d", "two", axis=0), Node("Slice", "two zero one zero", "m")],
}


@needs_openvino
@pytest.mark.parametrize(("extents", "kernel", "pads", "stride"), CONVOLUTIONS)
def test_padding_has_the_zero_point(extents, kernel, pads, stride):
    data, weight = drawn(extents, kernel)
    strides = [stride] * len(pads)
    require_right(in_bytes(data, weight, 128, pads=[*pads, *pads], strides=strides), data)


@needs_openvino
@pytest.mark.parametrize("between", BETWEEN)
def test_what_stands_between_bytes_and_a_convolution_may_be_anything(between):
    data, weight = drawn((1, 4, 33, 96), (48, 4, 3, 1))
    model = in_bytes(data, weight, 128, pads=[2, 0, 2, 0], strides=[2, 2])
    steps = BETWEEN[between]
    if steps:
        convolution = model.graph.node.pop()
        convolution.input[0] = "m"
        model.graph.node.extend([*steps, convolution])
        held = {"half": np.float32(0.5), "zero": np.zeros(1, "int64"), "one": np.ones(1, "int64")}
        model.graph.initializer.extend(numpy_helper.from_array(each, name) for name, each in held.items())
    require_right(model, data)


@needs_openvino
@pytest.mark.parametrize(("extents", "kernel", "pads", "stride"), CONVOLUTIONS)
def test_a_zero_point_that_a_call_computes_is_in_the_padding(extents, kernel, pads, stride):
    data, weight = drawn(extents, kernel)
    nodes = [
        Node("DynamicQuantizeLinear", "x", "q s z"),
        Node("ConvInteger", "q w z", "i", pads=[*pads, *pads], strides=[stride] * len(pads)),
        Node("Cast", "i", "f", to=1),
        Node("Mul", "f s"),
    ]
    require_right(model_of_nodes(nodes, {"x": data}, {"w": weight}), data)
