"""Models of pairs of operators in float32, many beside each other, for any number of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kits.importing.float_tails import GROUPS, TAILS, Extents
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes

__all__ = ["EXTENTS", "GROUPS", "IN_FRONT", "Calls", "calls_of", "pairs_model"]

EXTENTS: Mapping[str, tuple[int, int, int]] = {
    "images": (8, 4, 4),
    "planes": (1, 4, 6),
    "pixels": (3, 1, 1),
    "columns": (16, 7, 1),
}
"""Channels, rows and columns of an image."""

NUMBERS = (1, 3, 1)
"""Of images, in the calls of a model."""

Calls = list[tuple[int, dict[str, np.ndarray], list[np.ndarray]]]
"""The number of images, inputs, and results."""

IN_FRONT: Mapping[str, Sequence[onnx.NodeProto]] = {
    "nothing": [Node("Identity", "x", "p")],
    "convolution": [Node("Conv", "x dense", "p")],
    "windows": [Node("Conv", "x dense3 biases", "p", pads=[1] * 4)],
    "depthwise": [Node("Conv", "x planes", "p", group="channels", pads=[1] * 4)],
    "transposed": [Node("ConvTranspose", "x square2", "p", strides=[2, 2])],
    "transposed_depthwise": [Node("ConvTranspose", "x planes", "p", group="channels")],
    "lines": [Node("Reshape", "x flat_images", "lines"), Node("Conv", "lines dense1", "p")],
    "line_planes": [
        Node("Reshape", "x flat_images", "lines"), Node("Conv", "lines planes1", "p", group="channels"),
    ],
    "transposed_lines": [
        Node("Reshape", "x flat_images", "lines"), Node("ConvTranspose", "lines square1", "p", strides=[2]),
    ],
    "line_means": [
        Node("Reshape", "x flat_images", "lines"), Node("AveragePool", "lines", "p", kernel_shape=[1]),
    ],
    "line_mean": [Node("Reshape", "x flat_images", "lines"), Node("GlobalAveragePool", "lines", "p")],
    "line_norm": [Node("Reshape", "x flat_images", "lines"), Node("Softmax", "lines", "p", axis=1)],
    "line_sum": [Node("Reshape", "x flat_images", "lines"), Node("ReduceSum", "lines last", "p", keepdims=0)],
    "line_largest": [Node("Reshape", "x flat_images", "lines"), Node("ReduceMax", "lines last", "p")],
    "line_channels": [Node("Reshape", "x flat_images", "lines"), Node("ReduceMean", "lines first", "p")],
    "volumes": [Node("Unsqueeze", "x two1", "volume"), Node("Conv", "volume dense2", "p", pads=[1] * 6)],
    "transposed_volumes": [
        Node("Unsqueeze", "x two1", "volume"), Node("ConvTranspose", "volume square3", "p"),
    ],
    "volume_largest": [
        Node("Unsqueeze", "x two1", "volume"),
        Node("MaxPool", "volume", "p", kernel_shape=[1, 2, 1], pads=[0, 1, 0] * 2),
    ],
    "strides": [Node("Conv", "x dense3 biases", "p", pads=[1] * 4, strides=[2, 3])],
    "activated": [Node("Conv", "x dense", "image"), Node("Relu", "image", "p")],
    "normed": [
        Node("Conv", "x channels", "image"), Node("InstanceNormalization", "image scales biases8", "p"),
    ],
    "product": [Node("MatMul", "x matrix", "p")],
    "products": [Node("MatMul", "x right", "p")],
    "left_product": [Node("MatMul", "left x", "p")],
    "gemm": [Node("Flatten", "x", "flat"), Node("Gemm", "flat flat_matrix six_biases", "p", transB=1)],
    "row_product": [Node("Reshape", "x flat_images", "lines"), Node("MatMul", "lines pixel_matrix", "p")],
    "largest": [Node("MaxPool", "x", "p", kernel_shape=[2, 2], pads=[0, 0, 1, 1])],
    "means": [Node("AveragePool", "x", "p", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)],
    "global_mean": [Node("GlobalAveragePool", "x", "p")],
    "global_largest": [Node("GlobalMaxPool", "x", "p")],
    "softmax_channels": [Node("Softmax", "x", "p", axis=1)],
    "softmax": [Node("Softmax", "x", "p", axis=3)],
    "layer_norm": [Node("LayerNormalization", "x line_scales line_biases", "p")],
    "instance_norm": [Node("InstanceNormalization", "x scales biases8", "p")],
    "batch_norm": [Node("BatchNormalization", "x scales biases8 biases8 scales", "p")],
    "local_norm": [Node("LRN", "x", "p", size=3, alpha=0.5)],
    "sum_line": [Node("ReduceSum", "x last", "p", keepdims=0)],
    "mean_pixels": [Node("ReduceMean", "x pixels", "p", keepdims=0)],
    "mean_kept": [Node("ReduceMean", "x pixels", "p")],
    "max_channels": [Node("ReduceMax", "x first", "p", keepdims=0)],
    "min_kept": [Node("ReduceMin", "x first", "p")],
    "product_rows": [Node("ReduceProd", "x rows", "p", keepdims=0)],
    "norm_line": [Node("ReduceL2", "x last", "p")],
    "sum_images": [Node("ReduceSum", "x images", "p")],
    "nearest": [Node("Resize", "x - factors", "p", mode="nearest")],
    "linear": [Node("Resize", "x - factors", "p", mode="linear")],
    "concat_channels": [Node("Concat", "x same", "p", axis=1)],
    "concat_columns": [Node("Concat", "same x", "p", axis=3)],
    "concat_images": [Node("Concat", "same x", "p", axis=0)],
    "gather": [Node("Gather", "x order", "p", axis=1)],
    "gather_one": [Node("Gather", "x zero", "p", axis=2)],
    "slice": [Node("Slice", "x zeros1 ends1 first", "p")],
    "strided": [Node("Slice", "x zeros1 ends9 last two1", "p")],
    "pad": [Node("Pad", "x widths", "p")],
    "pad_channels": [Node("Pad", "x widths_channels", "p", mode="constant")],
    "cumsum": [Node("CumSum", "x two", "p")],
    "channels_last": [Node("Transpose", "x", "p", perm=[0, 2, 3, 1])],
    "images_second": [Node("Transpose", "x", "p", perm=[1, 0, 2, 3])],
    "swapped": [Node("Transpose", "x", "p", perm=[0, 1, 3, 2])],
    "reshape": [Node("Reshape", "x flat_images", "p")],
    "flat": [Node("Flatten", "x", "p")],
    "squeeze": [Node("Squeeze", "row two1", "p")],
    "expand": [Node("Expand", "row counts", "p")],
    "tile": [Node("Tile", "x repeats", "p")],
    "split": [Node("Split", "x", "p remainder", axis=2, num_outputs=2)],
    "lstm": [
        Node("Reshape", "x sequences", "steps"), Node("Transpose", "steps", "turned", perm=[1, 0, 2]),
        Node("LSTM", "turned lstm_w lstm_r", "p", hidden_size=4),
    ],
    "gru": [
        Node("Reshape", "x sequences", "steps"), Node("Transpose", "steps", "turned", perm=[1, 0, 2]),
        Node("GRU", "turned gru_w gru_r", "- p", hidden_size=4),
    ],
    "sum": [Node("Add", "x same", "p")],
    "times_mean": [Node("GlobalAveragePool", "x", "means"), Node("Mul", "x means", "p")],
    "choice": [Node("Greater", "x same", "mask"), Node("Where", "mask x same", "p")],
    "gelu": [Node("Gelu", "x", "p")],
    "absolute": [Node("Abs", "x", "p")],
    "attention": [
        Node("Transpose", "x", "turned", perm=[0, 1, 3, 2]), Node("MatMul", "x turned", "scores"),
        Node("Softmax", "scores", "weights", axis=3), Node("MatMul", "weights x", "p"),
    ],
}  # fmt: skip
"""An image is `x`, its result `p`."""


def pairs_model(front: str, group: str, extents: str, leaves: bool) -> tuple[onnx.ModelProto, list[str]]:
    """A model of an operator in front and each of a group of others behind, each with inputs of its own.

    Returns it with the names of its results; with `leaves` what is in front is a result as well.
    """
    image = EXTENTS[extents]
    constants = _constants(image)
    shape = _shape(front, image, constants)
    parts = [tail for tail in TAILS if tail.group == group and tail.fits(shape)]
    graph = helper.make_graph([], "pairs", [], [])
    for place, tail in enumerate(parts):
        made = [*IN_FRONT[front], *tail.nodes]
        held = constants | tail.constants(shape)
        given = _inputs(image) | tail.inputs(shape)
        renamed = [_renamed(node, f"_{place}", image[0]) for node in made]
        graph.node.extend(renamed)
        read = dict.fromkeys(name for node in made for name in node.input if name)
        for name in read:
            if name in given:
                info = helper.make_tensor_value_info(f"{name}_{place}", TensorProto.FLOAT, given[name])
                graph.input.append(info)
            elif name in held:
                array = numpy_helper.from_array(held[name], f"{name}_{place}")
                graph.initializer.append(array)
    names = [f"y_{place}" for place in range(len(parts))]
    names += [f"p_{place}" for place in range(len(parts))] if leaves else []
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    labels = [each.name for each in parts]
    labels += [f"{front} in front of {each.name}" for each in parts] if leaves else []
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), labels


def calls_of(model: onnx.ModelProto) -> Calls:
    """Inputs for some numbers of images, and the results of ONNX Runtime without its optimizer."""
    draw = np.random.default_rng(0)
    found = []
    for number in NUMBERS:
        inputs = {}
        for info in model.graph.input:
            extents = [each.dim_value or number for each in info.type.tensor_type.shape.dim]
            drawn = draw.standard_normal(extents, "float32")
            is_divisor = info.name.startswith("d_")
            inputs[info.name] = np.asarray(np.abs(drawn) + 0.5 if is_divisor else drawn, "float32")
        found.append((number, inputs, by_onnx_runtime(model, inputs)))
    return found


def _shape(front: str, image: tuple[int, int, int], constants: Mapping[str, np.ndarray]) -> Extents:
    """The extents of what is in front, by two calls of it alone."""
    read = dict.fromkeys(name for node in IN_FRONT[front] for name in node.input if name)
    nodes = [_renamed(node, "", image[0]) for node in IN_FRONT[front]]
    used = {name: array for name, array in constants.items() if name in read}
    shapes = []
    for number in (5, 7):
        inputs = {
            name: np.ones([number if each == "n" else each for each in extents], "float32")
            for name, extents in _inputs(image).items()
            if name in read
        }
        (result,) = by_onnx_runtime(model_of_nodes(nodes, inputs, used, "p", opset=20), inputs)
        shapes.append(result.shape)
    return tuple(
        left if left == right else ("n" if (left, right) == (5, 7) else "m")
        for left, right in zip(*shapes, strict=True)
    )


def _renamed(node: onnx.NodeProto, place: str, channels: int) -> onnx.NodeProto:
    """A copy of a node whose names end in a place, and whose groups are the channels."""
    found = onnx.NodeProto()
    found.CopyFrom(node)
    found.name += place
    for names in (found.input, found.output):
        for index, name in enumerate(names):
            names[index] = f"{name}{place}" if name else ""
    for attribute in found.attribute:
        if attribute.name == "group":
            attribute.CopyFrom(helper.make_attribute("group", channels))
    return found


def _inputs(image: tuple[int, int, int]) -> dict[str, Extents]:
    channels, rows, columns = image
    return {
        "x": ("n", *image),
        "same": ("n", *image),
        "right": ("n", channels, columns, 3),
        "left": ("n", channels, 3, rows),
        "row": ("n", channels, 1, columns),
    }


def _constants(image: tuple[int, int, int]) -> dict[str, np.ndarray]:
    channels, rows, columns = image
    draw = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray:
        return draw.standard_normal(shape, "float32") / np.float32(np.sqrt(np.prod(shape[1:])))

    pixels = rows * columns
    steps = 3 if channels * pixels % 3 == 0 else 4
    inner = channels * pixels // steps
    lists = {
        "flat_images": [0, channels, pixels], "last": [-1], "pixels": [2, 3], "first": [1], "rows": [2],
        "images": [0], "order": [channels - 1, 0, channels // 2], "zeros1": [0], "end1": [1],
        "ends1": [(channels + 1) // 2], "ends9": [9], "two1": [2], "widths": [0, 0, 1, 0, 0, 0, 0, 2],
        "widths_channels": [0, 1, 0, 0, 0, 0, 0, 0], "counts": [1, channels, 3, columns],
        "repeats": [1, 2, 1, 2], "sequences": [-1, steps, inner], "least": [-(2**31)],
    }  # fmt: skip
    numbers = {"zero": 0, "one": 1, "two": 2}
    values = {"half": 0.5, "low": -0.75, "high": 1.25, "six": 6.0, "none": 0.0, "scale": 0.0517}
    bytes_ = {"middle": ("uint8", 117), "nil": ("int8", 0), "nil8": ("uint8", 0)}
    return {
        **{name: np.array(each, "int64") for name, each in (lists | numbers).items()},
        **{name: np.array(each, "float32") for name, each in values.items()},
        **{name: np.array(each, dtype) for name, (dtype, each) in bytes_.items()},
        "factors": np.array([1, 1, 2, 2], "float32"),
        "dense": floats(6, channels, 1, 1),
        "dense1": floats(6, channels, 1),
        "dense2": floats(6, channels, 1, 3, 3),
        "dense3": floats(6, channels, 3, 3),
        "biases": floats(6),
        "planes": floats(channels, 1, 3, 3),
        "planes1": floats(channels, 1, 1),
        "channels": floats(channels, channels, 1, 1),
        "square1": floats(channels, 5, 2),
        "square3": floats(channels, 5, 1, 2, 2),
        "square2": floats(channels, 5, 2, 2),
        "matrix": floats(columns, 5),
        "flat_matrix": floats(6, channels * pixels),
        "pixel_matrix": floats(pixels, 4),
        "six_biases": floats(6),
        "line_scales": 1 + floats(columns) / 2,
        "line_biases": floats(columns),
        "scales": np.abs(1 + floats(channels) / 2) + np.float32(0.2),
        "biases8": floats(channels),
        "lstm_w": floats(1, 16, inner),
        "lstm_r": floats(1, 16, 4),
        "gru_w": floats(1, 12, inner),
        "gru_r": floats(1, 12, 4),
    }
