"""Networks for images, as ONNX graphs: squeeze and excitation, responses, shuffles, dilation, upscaling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import convolution, sigmoid_linear
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, forms_of

__all__ = ["MODELS"]


def _hard_swish(net: Network, x: str) -> str:
    """Hard swish in its parts."""
    shifted = net.op("Clip", net.op("Add", x, net.number(3.0)), net.number(0.0), net.number(6.0))
    return net.op("Div", net.op("Mul", x, shifted), net.number(6.0))


def _excited(net: Network, x: str, width: int, *, is_hard: bool) -> str:
    """Channels weighted by what their means say."""
    mean = net.op("GlobalAveragePool", x)
    low = convolution(net, mean, (width // 4, width, 1, 1))
    low = net.op("Relu", low) if is_hard else sigmoid_linear(net, low)
    gate = convolution(net, low, (width, width // 4, 1, 1))
    gate = net.op("HardSigmoid", gate, alpha=1 / 6, beta=0.5) if is_hard else net.op("Sigmoid", gate)
    return net.op("Mul", x, gate)


def _inverted(net: Network, x: str, width: int, *, window: int, is_hard: bool) -> str:
    """An inverted residual with squeeze and excitation."""
    inner = 4 * width
    activation = _hard_swish if is_hard else sigmoid_linear
    y = activation(net, convolution(net, x, (inner, width, 1, 1)))
    y = activation(net, convolution(net, y, (inner, 1, window, window), groups=inner))
    y = _excited(net, y, inner, is_hard=is_hard)
    return net.op("Add", x, convolution(net, y, (width, inner, 1, 1)))


def _mobile(net: Network, *, is_hard: bool) -> Sequence[str]:
    x = convolution(net, "image", (8, 3, 3, 3), stride=2)
    x = _hard_swish(net, x) if is_hard else sigmoid_linear(net, x)
    for window in (3, 5):
        x = _inverted(net, x, 8, window=window, is_hard=is_hard)
    flat = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return [net.dense(flat, 8, 10)]


def _convnext(net: Network) -> Sequence[str]:
    """A block of ConvNeXt V2, whose responses are normalized over the image."""
    width = 16
    x = net.op("Conv", "image", net.weight((width, 3, 4, 4)), kernel_shape=[4, 4], strides=[4, 4])
    y = net.op("Transpose", convolution(net, x, (width, 1, 7, 7), groups=width), perm=(0, 2, 3, 1))
    y = net.gelu(net.dense(net.layer_norm(y, width), width, 4 * width))
    strength = net.op("ReduceL2", y, axes=[1, 2], keepdims=1)
    mean = net.op("Add", net.op("ReduceMean", strength, axes=[-1], keepdims=1), net.number(1e-6))
    relative = net.op("Mul", y, net.op("Div", strength, mean))
    y = net.op("Add", net.op("Mul", net.weight((4 * width,), 0.5), relative), y)
    back = net.op("Transpose", net.dense(y, 4 * width, width), perm=(0, 3, 1, 2))
    return [net.op("Add", x, back)]


def _shuffled(net: Network) -> Sequence[str]:
    """A unit of ShuffleNet V2: half of the channels pass, then both halves are interleaved."""
    x = net.op("Relu", convolution(net, "image", (16, 3, 3, 3), stride=2))
    for _ in range(2):
        left, right = net.ops("Split", 2, x, net.shape(8, 8), axis=1)
        right = net.op("Relu", convolution(net, right, (8, 8, 1, 1)))
        right = convolution(net, right, (8, 1, 3, 3), groups=8)
        right = net.op("Relu", convolution(net, right, (8, 8, 1, 1)))
        joined = net.op("Concat", left, right, axis=1)
        apart = net.op("Reshape", joined, net.shape(0, 2, 8, 8, 8))
        x = net.op("Reshape", net.op("Transpose", apart, perm=(0, 2, 1, 3, 4)), net.shape(0, 16, 8, 8))
    return [x]


def _upscaled(net: Network) -> Sequence[str]:
    """Super-resolution by residual blocks and a pixel shuffle."""
    first = x = convolution(net, "image", (16, 3, 3, 3))
    for _ in range(2):
        inner = net.op("PRelu", convolution(net, x, (16, 16, 3, 3)), net.weight((16, 1, 1), 0.1, 0.25))
        scaled = net.op("Mul", convolution(net, inner, (16, 16, 3, 3)), net.number(0.2))
        x = net.op("Add", x, scaled)
    wide = convolution(net, net.op("Add", x, first), (12, 16, 3, 3))
    return [net.op("DepthToSpace", wide, blocksize=2, mode="CRD")]


def _segmented(net: Network) -> Sequence[str]:
    """Pyramid pooling with dilation, image pooling, bilinear resizing and a transposed convolution."""
    x = net.op("Relu", convolution(net, "image", (16, 3, 3, 3), stride=2))
    branches = [net.op("Relu", convolution(net, x, (8, 16, 3, 3), dilation=rate)) for rate in (1, 2, 3)]
    pooled = net.op("Relu", convolution(net, net.op("GlobalAveragePool", x), (8, 16, 1, 1)))
    scales = net.constant(np.asarray([1, 1, 8, 8], "float32"))
    branches.append(
        net.op("Resize", pooled, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    )
    y = net.op("Relu", convolution(net, net.op("Concat", *branches, axis=1), (8, 32, 1, 1)))
    twice = net.op("ConvTranspose", y, net.weight((8, 4, 2, 2), 0.35), kernel_shape=[2, 2], strides=[2, 2])
    return [net.op("Softmax", twice, axis=1)]


IMAGE = Input("image", ("batch", 3, 16, 16))
BATCHES = forms_of({"batch": 1}, {"batch": 3})

MODELS = (
    OnnxModel("efficientnet", (IMAGE,), lambda net: _mobile(net, is_hard=False), BATCHES),
    OnnxModel("mobilenet_v3", (IMAGE,), lambda net: _mobile(net, is_hard=True), BATCHES),
    OnnxModel("convnext_v2", (IMAGE,), _convnext, BATCHES),
    OnnxModel("shufflenet_v2", (IMAGE,), _shuffled, BATCHES),
    OnnxModel(
        "super_resolution", (Input("image", ("batch", 3, "rows", "columns")),), _upscaled,
        forms_of({"batch": 1, "rows": 8, "columns": 6}, {"batch": 2, "rows": 5, "columns": 9}),
    ),
    OnnxModel("segmentation", (IMAGE,), _segmented, BATCHES),
)  # fmt: skip
