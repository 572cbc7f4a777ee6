"""Models of one quantization between two operators: one in front of it, and one behind its inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from kits.onnx_nodes import Node, model_of_nodes

__all__ = ["BEHIND", "IN_FRONT", "TYPES", "pair_model"]

TYPES = {"int8": 0, "int8_5": 5, "uint8": 0, "uint8_128": 128}
"""The type of the bytes and their zero point."""

EXTENTS = (2, 8, 4, 4)
INPUTS: Mapping[str, Sequence[int]] = {
    "x": EXTENTS,
    "other": EXTENTS,
    "wide": (2, 8, 4, 8),
    "narrow": (2, 8, 4, 2),
    "low": (2, 8, 2, 4),
    "small": (2, 8, 2, 2),
    "deep": (2, 32, 2, 2),
    "first": (2, 4, 4, 4),
    "second": (2, 4, 4, 4),
    "line": (2, 8, 1, 4),
}

IN_FRONT: Mapping[str, Sequence[onnx.NodeProto]] = {
    "nothing": [Node("Identity", "x", "p")],
    "relu": [Node("Relu", "x", "p")],
    "sigmoid": [Node("Sigmoid", "x", "p")],
    "gelu": [Node("Gelu", "x", "p")],
    "hardswish": [Node("HardSwish", "x", "p")],
    "clip": [Node("Clip", "x low_bound high_bound", "p")],
    "convolution": [Node("Conv", "x dense", "p")],
    "activated": [Node("Conv", "x dense", "c"), Node("Relu", "c", "p")],
    "depthwise": [Node("Conv", "x planes", "p", group=8, pads=[1] * 4)],
    "transposed": [Node("ConvTranspose", "x dense", "p")],
    "product": [Node("MatMul", "x square", "p")],
    "largest": [Node("MaxPool", "x", "p", kernel_shape=[2, 2], pads=[0, 0, 1, 1])],
    "means": [Node("AveragePool", "x", "p", kernel_shape=[2, 2], pads=[0, 0, 1, 1])],
    "reshape": [Node("Reshape", "x extents", "p")],
    "transpose": [Node("Transpose", "x", "p", perm=[0, 1, 3, 2])],
    "slice": [Node("Slice", "wide one five three", "p")],
    "split": [Node("Split", "wide", "p rest", axis=3, num_outputs=2)],
    "pad": [Node("Pad", "narrow widths", "p")],
    "tile": [Node("Tile", "low counts", "p")],
    "gather": [Node("Gather", "x order", "p", axis=3)],
    "linear": [Node("Resize", "small - factors", "p", mode="linear")],
    "nearest": [Node("Resize", "small - factors", "p", mode="nearest")],
    "expand": [Node("Expand", "line extents", "p")],
    "depth_to_space": [Node("DepthToSpace", "deep", "p", blocksize=2)],
    "concat": [Node("Concat", "first second", "p", axis=1)],
    "sum": [Node("Add", "x other", "p")],
    "difference": [Node("Sub", "x other", "p")],
    "times": [Node("Mul", "x other", "p")],
    "extreme": [Node("Max", "x other", "p")],
    "factor": [Node("Mul", "x number", "p")],
    "factors": [Node("Mul", "x signed", "p")],
    "bias": [Node("Add", "x signed", "p")],
    "quotients": [Node("Div", "x signed", "p")],
    "softmax": [Node("Softmax", "x", "p", axis=1)],
    "layer_norm": [Node("LayerNormalization", "x ones4 zeros4", "p")],
    "instance_norm": [Node("InstanceNormalization", "x ones8 zeros8", "p")],
    "again": [Node("QuantizeLinear", "x scale zero", "b"), Node("DequantizeLinear", "b scale zero", "p")],
    "coarser": [Node("QuantizeLinear", "x coarse zero", "b"), Node("DequantizeLinear", "b coarse zero", "p")],
}

_OTHER = [Node("QuantizeLinear", "other coarse zero", "b2"), Node("DequantizeLinear", "b2 coarse zero", "d2")]
_KERNEL = Node("DequantizeLinear", "kernel fine nil", "w")


def _convolved(name: str) -> list[onnx.NodeProto]:
    return [_KERNEL, Node("Conv", f"{name} w")]


BEHIND: Mapping[str, Sequence[onnx.NodeProto]] = {
    "nothing": [Node("Identity", "d")],
    "convolution": _convolved("d"),
    "by_channels": [Node("DequantizeLinear", "kernel fines nils", "w", axis=0), Node("Conv", "d w")],
    "windows": [Node("DequantizeLinear", "kernel3 fine nil", "w"), Node("Conv", "d w", pads=[1] * 4)],
    "depthwise": [
        Node("DequantizeLinear", "planes8 fine nil", "w"), Node("Conv", "d w", group=8, pads=[1] * 4),
    ],
    "transposed": [Node("DequantizeLinear", "dense8 fine nil", "w"), Node("ConvTranspose", "d w")],
    "product": [Node("DequantizeLinear", "matrix fine nil", "w"), Node("MatMul", "d w")],
    "sum": [Node("Add", "d other")],
    "sums": [*_OTHER, Node("Add", "d d2")],
    "times": [*_OTHER, Node("Mul", "d d2")],
    "square": [Node("Mul", "d d")],
    "products": [*_OTHER, Node("MatMul", "d d2")],
    "joined": [*_OTHER, Node("Concat", "d d2", axis=1)],
    "joined_convolution": [*_OTHER, Node("Concat", "d d2", "c2", axis=2), *_convolved("c2")],
    "joined_product": [
        *_OTHER, Node("Concat", "d d2", "c2", axis=2), Node("DequantizeLinear", "matrix fine nil", "w"),
        Node("MatMul", "c2 w"),
    ],
    "residual": [
        Node("DequantizeLinear", "dense8 fine nil", "w"), Node("Conv", "d w", "c2"), Node("Add", "c2 d"),
    ],
    "activated": [_KERNEL, Node("Conv", "d w", "c2"), Node("Relu", "c2")],
    "quantized": [
        _KERNEL, Node("Conv", "d w", "c2"), Node("QuantizeLinear", "c2 large zero", "b3"),
        Node("DequantizeLinear", "b3 large zero"),
    ],
    "largest": [Node("MaxPool", "d", kernel_shape=[2, 2])],
    "largest_convolution": [Node("MaxPool", "d", "c2", kernel_shape=[2, 2]), *_convolved("c2")],
    "means": [Node("AveragePool", "d", kernel_shape=[2, 2])],
    "means_factor": [Node("AveragePool", "d", "c2", kernel_shape=[2, 2]), Node("Mul", "c2 number")],
    "global_mean": [Node("GlobalAveragePool", "d")],
    "softmax": [Node("Softmax", "d", axis=1)],
    "sigmoid": [Node("Sigmoid", "d")],
    "clip": [Node("Clip", "d low_bound high_bound")],
    "clip_convolution": [Node("Clip", "d low_bound high_bound", "c2"), *_convolved("c2")],
    "relu_convolution": [Node("Relu", "d", "c2"), *_convolved("c2")],
    "factor_convolution": [Node("Mul", "d number", "c2"), *_convolved("c2")],
    "slice": [Node("Slice", "d one three three")],
    "slice_convolution": [Node("Slice", "d one three three", "c2"), *_convolved("c2")],
    "pad_convolution": [Node("Pad", "d widths", "c2"), *_convolved("c2")],
    "reshape_convolution": [Node("Reshape", "d long", "c2"), *_convolved("c2")],
    "linear": [Node("Resize", "d - factors", mode="linear")],
    "nearest_convolution": [Node("Resize", "d - factors", "c2", mode="nearest"), *_convolved("c2")],
}  # fmt: skip


def pair_model(front: str, behind: str, type_name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of a pair, and inputs for it; the same each time.

    Scales have no common measure, so that no number that was bytes is a tie of another quantization.
    """
    draw = np.random.default_rng(0)
    constants = _constants(draw) | {"zero": np.array(TYPES[type_name], type_name.partition("_")[0])}
    nodes = [
        *IN_FRONT[front],
        Node("QuantizeLinear", "p scale zero", "q"),
        Node("DequantizeLinear", "q scale zero", "d"),
        *BEHIND[behind],
    ]
    read = {name for node in nodes for name in node.input}
    inputs = {
        name: draw.standard_normal(extents, "float32") for name, extents in INPUTS.items() if name in read
    }
    used = {name: array for name, array in constants.items() if name in read}
    return model_of_nodes(nodes, inputs, used, opset=20), inputs


def _constants(draw: np.random.Generator) -> dict[str, np.ndarray]:
    def floats(*shape: int) -> np.ndarray:
        return draw.standard_normal(shape, "float32") / np.float32(np.sqrt(np.prod(shape[1:])))

    def whole(*shape: int) -> np.ndarray:
        return draw.integers(-60, 60, shape, "int8")

    numbers = {"scale": 0.0517, "coarse": 0.0713, "fine": 0.0621, "large": 0.83, "number": 0.7}
    numbers |= {"low_bound": -1.0, "high_bound": 1.5}
    axes = {"one": [1], "three": [3], "five": [5], "order": [2, 0, 1, 3], "counts": [1, 1, 2, 1]}
    axes |= {"extents": list(EXTENTS), "long": [2, 8, 16, 1], "widths": [0, 0, 0, 1, 0, 0, 0, 1]}
    return {
        **{name: np.array(value, "float32") for name, value in numbers.items()},
        **{name: np.array(values) for name, values in axes.items()},
        "factors": np.array([1, 1, 2, 2], "float32"),
        "nil": np.array(0, "int8"),
        "nils": np.zeros(6, "int8"),
        "fines": np.linspace(0.031, 0.092, 6).astype("float32"),
        "signed": 1 + draw.standard_normal((8, 1, 1), "float32"),
        "dense": floats(8, 8, 1, 1),
        "planes": floats(8, 1, 3, 3),
        "square": floats(4, 4),
        "kernel": whole(6, 8, 1, 1),
        "kernel3": whole(6, 8, 3, 3),
        "planes8": whole(8, 1, 3, 3),
        "dense8": whole(8, 8, 1, 1),
        "matrix": whole(4, 5),
        **{f"ones{size}": np.ones(size, "float32") for size in (4, 8)},
        **{f"zeros{size}": np.zeros(size, "float32") for size in (4, 8)},
    }
