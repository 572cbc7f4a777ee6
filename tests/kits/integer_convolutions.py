"""Convolutions of bytes whose scale and zero point are measured in each call, of many forms."""

from __future__ import annotations

import numpy as np
import onnx

from kits.onnx_nodes import Node, model_of_nodes

__all__ = ["integer_convolutions"]

STRIDED: dict[str, object] = {"strides": [2, 1], "dilations": [1, 2], "pads": [2, 1, 0, 3]}
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "plain": ((3, 7, 9), (5, 3, 3, 2), STRIDED),
    "groups": ((4, 7, 9), (6, 2, 3, 3), {**STRIDED, "group": 2}),
    "depthwise": ((4, 6, 5), (4, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 4}),
    "line": ((3, 11), (2, 3, 4), {"strides": [3], "pads": [5, 0]}),
    "volume": ((2, 4, 5, 6), (3, 2, 2, 3, 2), {"strides": [1, 2, 1], "pads": [0, 1, 1, 1, 0, 2]}),
}
"""The extents of an image and of a kernel, and the attributes of ``ConvInteger``."""


def integer_convolutions(middle: int, scaled: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Integer convolutions of kernels with this zero point, as integers or times the scale of their image."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    images, constants = {}, {"wz": np.array(middle, "uint8")}
    for name, (image, kernel, attributes) in CONVOLUTIONS.items():
        images[name] = rng.standard_normal((2, *image)).astype("float32")
        constants[f"w_{name}"] = rng.integers(0, 256, kernel).astype("uint8")
        parts = " ".join(f"{part}_{name}" for part in ("q", "s", "z"))
        sums = f"c_{name}"
        nodes.append(Node("DynamicQuantizeLinear", name, parts))
        nodes.append(Node("ConvInteger", f"q_{name} w_{name} z_{name} wz", sums, "", **attributes))
        nodes.append(Node("Cast", sums, f"f_{name}", to=onnx.TensorProto.FLOAT))
        nodes.append(Node("Mul", f"f_{name} s_{name}", f"y_{name}"))
    results = " ".join(f"{'y' if scaled else 'c'}_{name}" for name in CONVOLUTIONS)
    return model_of_nodes(nodes, images, constants, results), images
