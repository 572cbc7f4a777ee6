"""A quantized block of a Llama as ONNX graphs: products of int8 between Q and DQ, and with dynamic scales.

Products round to 8 bits, and what stands on the edge of two steps may round either way: the tolerance is a
few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import (
    attention,
    cosines_and_sines,
    heads,
    joined,
    repeated,
    rms_norm,
    rotated,
    sigmoid_linear,
)
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, Kind, forms_of

__all__ = ["MODELS"]

WIDTH, HEADS, PAIRS, PART, HIDDEN = 32, 4, 2, 8, 48
STEP = 4.0 / 127
"""The scale of what is no weight: four deviations fill the range."""

Product = Callable[[Network, str, int, int, int], str]
"""A product of a value with the weight of a number, given the extents of that weight."""


def _whole_weight(number: int, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """A weight of int8 and its scale for each output."""
    generator = np.random.default_rng(number)
    weight = generator.standard_normal((inputs, outputs)) * inputs**-0.5
    scale = np.abs(weight).max(axis=0) / 127
    return np.rint(weight / scale).astype("int8"), scale.astype("float32")


def _static(net: Network, value: str, number: int, inputs: int, outputs: int) -> str:
    """A product between Q and DQ; the scale of its left side was measured before."""
    step, zero = net.number(STEP), net.constant(np.asarray(0, "int8"))
    left = net.op("DequantizeLinear", net.op("QuantizeLinear", value, step, zero), step, zero)
    whole, scale = _whole_weight(number, inputs, outputs)
    zeros = net.constant(np.zeros(outputs, "int8"))
    right = net.op("DequantizeLinear", net.constant(whole), net.constant(scale), zeros, axis=1)
    return net.op("MatMul", left, right)


def _dynamic(net: Network, value: str, number: int, inputs: int, outputs: int) -> str:
    """A product of whole numbers; the scale of its left side is measured when it runs."""
    left, step, zero = net.ops("DynamicQuantizeLinear", 3, value)
    whole, scale = _whole_weight(number, inputs, outputs)
    zeros = net.constant(np.asarray(0, "int8"))
    summed = net.op("Cast", net.op("MatMulInteger", left, net.constant(whole), zero, zeros), to=1)
    return net.op("Mul", summed, net.op("Mul", step, net.constant(scale)))


def _llama(net: Network, product: Product) -> Sequence[str]:
    turns = cosines_and_sines(net, "positions", PART)
    n = rms_norm(net, "x", WIDTH)
    q = rotated(net, heads(net, product(net, n, 0, WIDTH, WIDTH), HEADS, PART), PART, turns)
    k = rotated(net, heads(net, product(net, n, 1, WIDTH, PAIRS * PART), PAIRS, PART), PART, turns)
    v = heads(net, product(net, n, 2, WIDTH, PAIRS * PART), PAIRS, PART)
    k, v = (repeated(net, each, PAIRS, HEADS // PAIRS, PART) for each in (k, v))
    mixed = joined(net, attention(net, q, k, v, PART), WIDTH)
    x = net.op("Add", "x", product(net, mixed, 3, WIDTH, WIDTH))
    n = rms_norm(net, x, WIDTH)
    gate = sigmoid_linear(net, product(net, n, 4, WIDTH, HIDDEN))
    inner = net.op("Mul", gate, product(net, n, 5, WIDTH, HIDDEN))
    return [net.op("Add", x, product(net, inner, 6, HIDDEN, WIDTH))]


def _model(name: str, product: Product) -> OnnxModel:
    inputs = (Input("x", ("batch", "length", WIDTH)), Input("positions", ("batch", "length"), Kind.POSITIONS))
    sizes = ({"batch": 1, "length": 7}, {"batch": 3, "length": 4}, {"batch": 1, "length": 1})
    return OnnxModel(name, inputs, lambda net: _llama(net, product), forms_of(*sizes), tolerance=0.02)


MODELS = (_model("quantized_llama", _static), _model("dynamically_quantized_llama", _dynamic))
