"""Ten small models, of about a tenth of a millisecond to one, as ONNX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from kits.family_models import FAMILIES, family_model
from kits.onnx_network import Network

__all__ = ["SMALL_MODELS", "small_model"]


def _mlp(net: Network) -> onnx.ModelProto:
    value = net.input("x", (32, 256))
    for _ in range(3):
        value = net.op("Relu", net.dense(value, 256, 256))
    return net.model(net.dense(value, 256, 10), (32, 10))


def _gru(net: Network, steps: int = 8, width: int = 128) -> onnx.ModelProto:
    """A gated recurrent unit, unrolled."""
    sequence = net.input("x", (4, steps, width))
    state = net.constant(np.zeros((4, width), "float32"))
    weights = [net.weight((2 * width, width), width**-0.5) for _ in range(3)]
    for step in range(steps):
        bounds = [net.shape(step), net.shape(step + 1), net.shape(1)]
        entry = net.op("Squeeze", net.op("Slice", sequence, *bounds), net.shape(1))
        both = net.op("Concat", entry, state, axis=1)
        update, reset = (net.op("Sigmoid", net.op("MatMul", both, weight)) for weight in weights[:2])
        kept = net.op("Concat", entry, net.op("Mul", reset, state), axis=1)
        new = net.op("Tanh", net.op("MatMul", kept, weights[2]))
        state = net.op("Add", state, net.op("Mul", update, net.op("Sub", new, state)))
    return net.model(state, (4, width))


def _digits(net: Network) -> onnx.ModelProto:
    """A small convolutional network on images of 28 by 28."""
    value = net.input("x", (1, 1, 28, 28))
    value = net.op("Relu", net.conv(value, (16, 1, 5, 5)))
    value = net.op("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
    value = net.op("Relu", net.conv(value, (32, 16, 5, 5)))
    value = net.op("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
    value = net.op("Relu", net.dense(net.op("Flatten", value), 1568, 128))
    return net.model(net.dense(value, 128, 10), (1, 10))


def _residual(net: Network) -> onnx.ModelProto:
    """Four residual blocks on an image of 16 by 16."""
    value = net.op("Relu", net.conv(net.input("x", (1, 3, 16, 16)), (32, 3, 3, 3)))
    for _ in range(4):
        inner = net.conv(net.op("Relu", net.conv(value, (32, 32, 3, 3))), (32, 32, 3, 3))
        value = net.op("Relu", net.op("Add", value, inner))
    return net.model(net.dense(net.op("Flatten", net.op("GlobalAveragePool", value)), 32, 10), (1, 10))


_OWN: dict[str, Callable[[Network], onnx.ModelProto]] = {
    "mlp": _mlp, "gru": _gru, "digits": _digits, "residual": _residual,
}  # fmt: skip

SMALL_MODELS: tuple[str, ...] = (*(f"small_{name}" for name in FAMILIES), *_OWN)


def small_model(name: str) -> onnx.ModelProto:
    """One of `SMALL_MODELS`; the families in their small size."""
    if name in _OWN:
        return _OWN[name](Network(name))
    return family_model(name.removeprefix("small_"), "small")
