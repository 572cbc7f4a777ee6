"""Positions that scores see, as ONNX graphs: linear biases, relative shifts, rotary turns in a Conformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import (
    attention,
    causal_bias,
    convolution,
    cosines_and_sines,
    heads,
    joined,
    project,
    rotated,
    sigmoid_linear,
    sliced,
    with_past,
)
from kits.zoo.onnx_families.decode import DECODE_FORMS
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, Kind, forms_of

__all__ = ["MODELS"]

WIDTH, HEADS, PART, HIDDEN, WORDS = 32, 4, 8, 48, 32
LENGTH = 10


def _linear_bias(net: Network) -> str:
    """A slope a head, times how far each key stands from the first word: (batch, head, 1, total)."""
    one = net.constant(np.asarray(1, "int64"))
    places = net.op("Mul", net.op("Sub", net.op("CumSum", "seen", one), one), "seen")
    floats = net.op("Cast", net.op("Unsqueeze", places, net.shape(1, 2)), to=1)
    slopes = 2.0 ** -np.arange(2.0, 2.0 * HEADS + 1, 2.0)
    return net.op("Mul", floats, net.constant(slopes.astype("float32").reshape(1, HEADS, 1, 1)))


def _bloom(net: Network) -> Sequence[str]:
    x = net.layer_norm(net.op("Gather", net.weight((WORDS, WIDTH), 1.0), "ids"), WIDTH)
    three = net.dense(net.layer_norm(x, WIDTH), WIDTH, 3 * WIDTH)
    parts = net.op("Reshape", three, net.shape(0, 0, HEADS, 3, PART))
    numbers = (net.constant(np.asarray(part, "int64")) for part in range(3))
    split = (net.op("Gather", parts, number, axis=3) for number in numbers)
    q, k, v = (net.op("Transpose", part, perm=(0, 2, 1, 3)) for part in split)
    keys, values = with_past(net, "past_k", k), with_past(net, "past_v", v)
    bias = net.op("Add", _linear_bias(net), causal_bias(net, "seen", "positions"))
    mixed = joined(net, attention(net, q, keys, values, PART, bias), WIDTH)
    x = net.op("Add", net.dense(mixed, WIDTH, WIDTH), x)
    hidden = net.gelu_tanh(net.dense(net.layer_norm(x, WIDTH), WIDTH, HIDDEN))
    x = net.op("Add", net.dense(hidden, HIDDEN, WIDTH), x)
    return [project(net, net.layer_norm(x, WIDTH), WIDTH, WORDS), keys, values]


def _shifted(net: Network, scores: str) -> str:
    """From (batch, head, query, 2 x LENGTH - 1) by relative place to (batch, head, query, key)."""
    padded = net.op("Pad", scores, net.shape(0, 0, 0, 1, 0, 0, 0, 0), net.number(0.0))
    turned = net.op("Reshape", padded, net.shape(0, HEADS, 2 * LENGTH, LENGTH))
    rest = net.op(
        "Reshape", sliced(net, turned, 1, 2 * LENGTH, 2), net.shape(0, HEADS, LENGTH, 2 * LENGTH - 1)
    )
    return sliced(net, rest, 0, LENGTH, 3)


def _relative_attention(net: Network, n: str) -> str:
    q, k, v = (net.op("Reshape", net.dense(n, WIDTH, WIDTH), net.shape(0, 0, HEADS, PART)) for _ in range(3))
    k, v = (net.op("Transpose", each, perm=order) for each, order in ((k, (0, 2, 3, 1)), (v, (0, 2, 1, 3))))
    by_content, by_place = (
        net.op("Transpose", net.op("Add", q, net.weight((HEADS, PART), 0.5)), perm=(0, 2, 1, 3))
        for _ in range(2)
    )
    places = project(net, net.weight((1, 2 * LENGTH - 1, WIDTH), 1.0), WIDTH, WIDTH)
    places = net.op("Reshape", places, net.shape(1, 2 * LENGTH - 1, HEADS, PART))
    relative = net.op("MatMul", by_place, net.op("Transpose", places, perm=(0, 2, 3, 1)))
    scores = net.op("Add", net.op("MatMul", by_content, k), _shifted(net, relative))
    weights = net.op("Softmax", net.op("Div", scores, net.number((2 * PART) ** 0.5)), axis=-1)
    return net.dense(joined(net, net.op("MatMul", weights, v), WIDTH), WIDTH, WIDTH)


def _rotary_attention(net: Network, n: str) -> str:
    turns = cosines_and_sines(net, "positions", PART)
    turned = rotated_heads(net, n, turns)
    q, k = (heads(net, net.dense(turned, WIDTH, WIDTH), HEADS, PART) for _ in range(2))
    v = heads(net, net.dense(n, WIDTH, WIDTH), HEADS, PART)
    return net.dense(joined(net, attention(net, q, k, v, PART), WIDTH), WIDTH, WIDTH)


def rotated_heads(net: Network, value: str, turns: tuple[str, str]) -> str:
    """Rotary positions in front of the projections, as Wav2Vec2's Conformer has them."""
    apart = heads(net, value, HEADS, PART)
    return joined(net, rotated(net, apart, PART, turns), WIDTH)


def _feed_forward(net: Network, x: str) -> str:
    hidden = sigmoid_linear(net, net.dense(net.layer_norm(x, WIDTH), WIDTH, HIDDEN))
    half = net.op("Mul", net.dense(hidden, HIDDEN, WIDTH), net.number(0.5))
    return net.op("Add", half, x)


def _convolved(net: Network, x: str) -> str:
    """A gated pointwise, a depthwise and a pointwise convolution over time, with a batch norm between."""
    time = net.op("Transpose", net.layer_norm(x, WIDTH), perm=(0, 2, 1))
    value, gate = net.ops(
        "Split", 2, convolution(net, time, (2 * WIDTH, WIDTH, 1)), net.shape(WIDTH, WIDTH), axis=1
    )
    deep = convolution(net, net.op("Mul", value, net.op("Sigmoid", gate)), (WIDTH, 1, 5), groups=WIDTH)
    statistics = [net.weight((WIDTH,), 0.1, mean) for mean in (1.0, 0.0, 0.0)]
    variance = net.constant(np.linspace(0.5, 1.5, WIDTH, dtype="float32"))
    normal = sigmoid_linear(net, net.op("BatchNormalization", deep, *statistics, variance, epsilon=1e-5))
    back = net.op("Transpose", convolution(net, normal, (WIDTH, WIDTH, 1)), perm=(0, 2, 1))
    return net.op("Add", x, back)


def _conformer(net: Network, attend: Callable[[Network, str], str]) -> Sequence[str]:
    x = net.dense("sound", 16, WIDTH)
    x = _feed_forward(net, x)
    x = net.op("Add", x, attend(net, net.layer_norm(x, WIDTH)))
    x = _feed_forward(net, _convolved(net, x))
    return [net.dense(net.layer_norm(x, WIDTH), WIDTH, WORDS)]


def _batch_and_length(batch: int, length: int) -> dict[str, int]:
    return {"batch": batch, "length": length}


MODELS = (
    OnnxModel(
        "bloom_decode",
        (
            Input("ids", ("batch", "length"), Kind.WORDS),
            Input("positions", ("batch", "length"), Kind.POSITIONS),
            Input("seen", ("batch", "past + length"), Kind.SEEN),
            Input("past_k", ("batch", HEADS, "past", PART)),
            Input("past_v", ("batch", HEADS, "past", PART)),
        ),
        _bloom,
        DECODE_FORMS,
    ),
    OnnxModel(
        "conformer_rotary",
        (Input("sound", ("batch", "length", 16)), Input("positions", (1, "length"), Kind.POSITIONS)),
        lambda net: _conformer(net, _rotary_attention),
        forms_of(_batch_and_length(1, 12), _batch_and_length(3, 7), _batch_and_length(2, 1)),
    ),
    OnnxModel(
        "conformer_relative",
        (Input("sound", ("batch", LENGTH, 16)),),
        lambda net: _conformer(net, _relative_attention),
        forms_of({"batch": 1}, {"batch": 3}),
    ),
)
