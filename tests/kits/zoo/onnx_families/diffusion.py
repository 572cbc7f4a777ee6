"""Diffusion as ONNX graphs: a block of a U-Net with time and text, a VAE's decoder, a DiT block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import (
    attention,
    convolution,
    group_norm,
    heads,
    joined,
    sigmoid_linear,
)
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, Kind, forms_of

__all__ = ["MODELS"]

WIDTH, GROUPS, HEADS, PART = 32, 4, 4, 8
SIDE, TEXT = 8, 12


def _time(net: Network) -> str:
    """Sines and cosines of the time, then two layers: (batch, WIDTH)."""
    half = WIDTH // 2
    frequencies = net.constant((10000.0 ** (-np.arange(half) / half)).astype("float32")[None])
    scaled = net.op("Mul", net.op("Unsqueeze", "time", net.shape(1)), net.number(100.0))
    angles = net.op("Mul", scaled, frequencies)
    waves = net.op("Concat", net.op("Cos", angles), net.op("Sin", angles), axis=-1)
    return net.dense(sigmoid_linear(net, net.dense(waves, WIDTH, WIDTH)), WIDTH, WIDTH)


def _residual(net: Network, x: str, inputs: int, outputs: int, time: str = "") -> str:
    """Two convolutions behind group norms, with the time in between, around a shortcut."""
    y = sigmoid_linear(net, group_norm(net, x, GROUPS, inputs))
    y = convolution(net, y, (outputs, inputs, 3, 3))
    if time:
        shift = net.dense(sigmoid_linear(net, time), WIDTH, outputs)
        y = net.op("Add", y, net.op("Unsqueeze", shift, net.shape(2, 3)))
    y = convolution(net, sigmoid_linear(net, group_norm(net, y, GROUPS, outputs)), (outputs, outputs, 3, 3))
    return net.op("Add", convolution(net, x, (outputs, inputs, 1, 1)) if inputs != outputs else x, y)


def _attended(net: Network, n: str, memory: str, width: int) -> str:
    q = heads(net, net.dense(n, WIDTH, WIDTH), HEADS, PART)
    k, v = (heads(net, net.dense(memory, width, WIDTH), HEADS, PART) for _ in range(2))
    return net.dense(joined(net, attention(net, q, k, v, PART), WIDTH), WIDTH, WIDTH)


def _gated(net: Network, n: str) -> str:
    wide = net.dense(n, WIDTH, 4 * WIDTH)
    value, gate = net.ops("Split", 2, wide, net.shape(2 * WIDTH, 2 * WIDTH), axis=2)
    return net.dense(net.op("Mul", value, net.gelu(gate)), 2 * WIDTH, WIDTH)


def _texted(net: Network, image: str, side: int) -> str:
    """A transformer block over the places of an image: attention to itself, to the text, a gated layer."""
    n = convolution(net, group_norm(net, image, GROUPS, WIDTH), (WIDTH, WIDTH, 1, 1))
    x = net.op("Reshape", net.op("Transpose", n, perm=(0, 2, 3, 1)), net.shape(0, side * side, WIDTH))
    n = net.layer_norm(x, WIDTH)
    x = net.op("Add", _attended(net, n, n, WIDTH), x)
    x = net.op("Add", _attended(net, net.layer_norm(x, WIDTH), "text", TEXT), x)
    x = net.op("Add", _gated(net, net.layer_norm(x, WIDTH)), x)
    back = net.op("Transpose", net.op("Reshape", x, net.shape(0, side, side, WIDTH)), perm=(0, 3, 1, 2))
    return net.op("Add", convolution(net, back, (WIDTH, WIDTH, 1, 1)), image)


def _doubled(net: Network, x: str, width: int) -> str:
    scales = net.constant(np.asarray([1, 1, 2, 2], "float32"))
    large = net.op(
        "Resize",
        x,
        "",
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return convolution(net, large, (width, width, 3, 3))


def _unet(net: Network) -> Sequence[str]:
    time = _time(net)
    first = convolution(net, "image", (16, 4, 3, 3))
    fine = _residual(net, first, 16, WIDTH, time)
    coarse = convolution(net, fine, (WIDTH, WIDTH, 3, 3), stride=2)
    coarse = _texted(net, _residual(net, coarse, WIDTH, WIDTH, time), SIDE // 2)
    up = net.op("Concat", _doubled(net, coarse, WIDTH), fine, axis=1)
    x = _residual(net, up, 2 * WIDTH, 16, time)
    return [convolution(net, sigmoid_linear(net, group_norm(net, x, GROUPS, 16)), (4, 16, 3, 3))]


def _vae_decoder(net: Network) -> Sequence[str]:
    x = convolution(net, "latent", (WIDTH, 4, 3, 3))
    x = _residual(net, x, WIDTH, WIDTH)
    n = group_norm(net, x, GROUPS, WIDTH)
    places = net.op("Transpose", net.op("Reshape", n, net.shape(0, WIDTH, -1)), perm=(0, 2, 1))
    q, k, v = (net.op("Unsqueeze", net.dense(places, WIDTH, WIDTH), net.shape(1)) for _ in range(3))
    mixed = net.op("Squeeze", attention(net, q, k, v, WIDTH), net.shape(1))
    back = net.op("Transpose", net.dense(mixed, WIDTH, WIDTH), perm=(0, 2, 1))
    x = net.op("Add", x, net.op("Reshape", back, net.op("Shape", x)))
    x = _residual(net, _doubled(net, _residual(net, x, WIDTH, WIDTH), WIDTH), WIDTH, 16)
    return [convolution(net, sigmoid_linear(net, group_norm(net, x, GROUPS, 16)), (3, 16, 3, 3))]


def _modulated(net: Network, x: str, scale: str, shift: str) -> str:
    """A norm without weights, scaled and shifted by what the time says."""
    ones, zeros = net.constant(np.ones(WIDTH, "float32")), net.constant(np.zeros(WIDTH, "float32"))
    normal = net.op("LayerNormalization", x, ones, zeros, axis=-1, epsilon=1e-6)
    grown = net.op("Add", net.op("Unsqueeze", scale, net.shape(1)), net.number(1.0))
    return net.op("Add", net.op("Mul", normal, grown), net.op("Unsqueeze", shift, net.shape(1)))


def _dit(net: Network) -> Sequence[str]:
    patches = net.op("Conv", "image", net.weight((WIDTH, 4, 2, 2)), kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Transpose", net.op("Reshape", patches, net.shape(0, WIDTH, -1)), perm=(0, 2, 1))
    x = net.op("Add", x, net.weight((1, SIDE * SIDE // 4, WIDTH), 0.5))
    six = net.dense(sigmoid_linear(net, _time(net)), WIDTH, 6 * WIDTH)
    parts = net.ops("Split", 6, six, net.shape(*[WIDTH] * 6), axis=1)
    n = _modulated(net, x, parts[0], parts[1])
    mixed = _attended(net, n, n, WIDTH)
    x = net.op("Add", x, net.op("Mul", net.op("Unsqueeze", parts[2], net.shape(1)), mixed))
    hidden = net.gelu_tanh(net.dense(_modulated(net, x, parts[3], parts[4]), WIDTH, 2 * WIDTH))
    gate = net.op("Unsqueeze", parts[5], net.shape(1))
    x = net.op("Add", x, net.op("Mul", gate, net.dense(hidden, 2 * WIDTH, WIDTH)))
    four = net.op("Reshape", net.dense(x, WIDTH, 16), net.shape(0, SIDE // 2, SIDE // 2, 2, 2, 4))
    return [
        net.op("Reshape", net.op("Transpose", four, perm=(0, 5, 1, 3, 2, 4)), net.shape(0, 4, SIDE, SIDE))
    ]


IMAGE = Input("image", ("batch", 4, SIDE, SIDE))
TIME = Input("time", ("batch",), Kind.UNIT)
BATCHES = forms_of({"batch": 1}, {"batch": 3})

MODELS = (
    OnnxModel(
        "unet", (IMAGE, TIME, Input("text", ("batch", "words", TEXT))), _unet,
        forms_of({"batch": 1, "words": 5}, {"batch": 3, "words": 1}, {"batch": 2, "words": 9}),
    ),
    OnnxModel(
        "vae_decoder", (Input("latent", ("batch", 4, "rows", "columns")),), _vae_decoder,
        forms_of({"batch": 1, "rows": 6, "columns": 8}, {"batch": 2, "rows": 4, "columns": 4}),
    ),
    OnnxModel("dit", (IMAGE, TIME), _dit, BATCHES),
)  # fmt: skip
