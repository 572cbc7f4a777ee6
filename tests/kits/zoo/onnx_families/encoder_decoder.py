"""Encoder-decoders as ONNX graphs: a T5 with buckets of relative positions, a decode step of a Whisper."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import (
    attention,
    causal_bias,
    convolution,
    heads,
    joined,
    project,
    rms_norm,
    with_past,
)
from kits.zoo.onnx_families.decode import DECODE_FORMS
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, Kind, forms_of

__all__ = ["MODELS"]

WIDTH, HEADS, PART, HIDDEN, WORDS = 32, 4, 8, 48, 32
BUCKETS, FARTHEST = 16, 32
FRAMES = 20


def _whole(net: Network, value: int) -> str:
    return net.constant(np.asarray(value, "int64"))


def _bucket(net: Network, distance: str, buckets: int) -> str:
    """Buckets of distances from zero on: one each up to half of them, then logarithmic ones."""
    exact = buckets // 2
    ratio = net.op("Div", net.op("Cast", distance, to=1), net.number(exact))
    above = net.op("Max", ratio, net.number(1.0))
    scaled = net.op("Div", net.op("Log", above), net.number(math.log(FARTHEST / exact)))
    steps = net.op("Cast", net.op("Mul", scaled, net.number(buckets - exact)), to=7)
    far = net.op("Min", net.op("Add", steps, _whole(net, exact)), _whole(net, buckets - 1))
    return net.op("Where", net.op("Less", distance, _whole(net, exact)), distance, far)


def _relative_bias(net: Network, queries: str, keys: str, *, both_sides: bool) -> str:
    """What relative positions add to scores: (batch, head, query, key)."""
    ahead = net.op("Sub", net.op("Unsqueeze", keys, net.shape(1)), net.op("Unsqueeze", queries, net.shape(2)))
    if both_sides:
        behind = net.op("Cast", net.op("Greater", ahead, _whole(net, 0)), to=7)
        side = net.op("Mul", behind, _whole(net, BUCKETS // 2))
        bucket = net.op("Add", side, _bucket(net, net.op("Abs", ahead), BUCKETS // 2))
    else:
        back = net.op("Neg", net.op("Min", ahead, _whole(net, 0)))
        bucket = _bucket(net, back, BUCKETS)
    return net.op("Transpose", net.op("Gather", net.weight((BUCKETS, HEADS), 1.0), bucket), perm=(0, 3, 1, 2))


def _attended(net: Network, n: str, memory: str, bias: str) -> str:
    """Attention without a scale, as T5 has it."""
    q, k, v = (heads(net, project(net, each, WIDTH, WIDTH), HEADS, PART) for each in (n, memory, memory))
    mixed = attention(net, net.op("Mul", q, net.number(1.0)), k, v, PART, bias)
    return project(net, joined(net, mixed, WIDTH), WIDTH, WIDTH)


def _feed_forward(net: Network, n: str) -> str:
    gate = net.gelu_tanh(project(net, n, WIDTH, HIDDEN))
    return project(net, net.op("Mul", gate, project(net, n, WIDTH, HIDDEN)), HIDDEN, WIDTH)


def _t5(net: Network) -> Sequence[str]:
    table = net.weight((WORDS, WIDTH), 1.0)
    memory, x = net.op("Gather", table, "ids"), net.op("Gather", table, "said")
    bias = _relative_bias(net, "positions", "positions", both_sides=True)
    for _ in range(2):
        n = rms_norm(net, memory, WIDTH)
        memory = net.op("Add", memory, _attended(net, n, n, bias))
        memory = net.op("Add", memory, _feed_forward(net, rms_norm(net, memory, WIDTH)))
    memory = rms_norm(net, memory, WIDTH)
    relative = _relative_bias(net, "said_positions", "said_positions", both_sides=False)
    bias = net.op("Add", relative, causal_bias(net, "said_seen", "said_positions"))
    n = rms_norm(net, x, WIDTH)
    x = net.op("Add", x, _attended(net, n, n, bias))
    x = net.op("Add", x, _attended(net, rms_norm(net, x, WIDTH), memory, ""))
    x = net.op("Add", x, _feed_forward(net, rms_norm(net, x, WIDTH)))
    return [project(net, rms_norm(net, x, WIDTH), WIDTH, WORDS)]


def _layer(net: Network, x: str) -> str:
    n = net.layer_norm(x, WIDTH)
    q, k, v = (heads(net, net.dense(n, WIDTH, WIDTH), HEADS, PART) for _ in range(3))
    x = net.op("Add", x, net.dense(joined(net, attention(net, q, k, v, PART), WIDTH), WIDTH, WIDTH))
    hidden = net.gelu(net.dense(net.layer_norm(x, WIDTH), WIDTH, HIDDEN))
    return net.op("Add", x, net.dense(hidden, HIDDEN, WIDTH))


def _heard(net: Network) -> str:
    """The encoder: two convolutions over time and a layer of attention."""
    x = net.gelu(convolution(net, "audio", (WIDTH, 8, 3)))
    x = net.gelu(convolution(net, x, (WIDTH, WIDTH, 3), stride=2))
    x = net.op("Transpose", x, perm=(0, 2, 1))
    x = net.op("Add", x, net.weight((FRAMES // 2, WIDTH), 0.5))
    return net.layer_norm(_layer(net, x), WIDTH)


def _whisper(net: Network) -> Sequence[str]:
    memory = _heard(net)
    x = net.op("Gather", net.weight((WORDS, WIDTH), 0.7), "ids")
    x = net.op("Add", x, net.op("Gather", net.weight((64, WIDTH), 0.7), "positions"))
    n = net.layer_norm(x, WIDTH)
    q, k, v = (heads(net, net.dense(n, WIDTH, WIDTH), HEADS, PART) for _ in range(3))
    keys, values = with_past(net, "past_k", k), with_past(net, "past_v", v)
    mixed = attention(net, q, keys, values, PART, causal_bias(net, "seen", "positions"))
    x = net.op("Add", x, net.dense(joined(net, mixed, WIDTH), WIDTH, WIDTH))
    q = heads(net, net.dense(net.layer_norm(x, WIDTH), WIDTH, WIDTH), HEADS, PART)
    k, v = (heads(net, net.dense(memory, WIDTH, WIDTH), HEADS, PART) for _ in range(2))
    x = net.op("Add", x, net.dense(joined(net, attention(net, q, k, v, PART), WIDTH), WIDTH, WIDTH))
    hidden = net.gelu(net.dense(net.layer_norm(x, WIDTH), WIDTH, HIDDEN))
    x = net.op("Add", x, net.dense(hidden, HIDDEN, WIDTH))
    return [project(net, net.layer_norm(x, WIDTH), WIDTH, WORDS), keys, values]


def _t5_sizes(batch: int, length: int, words: int) -> dict[str, int]:
    return {"batch": batch, "length": length, "words": words}


MODELS = (
    OnnxModel(
        "t5",
        (
            Input("ids", ("batch", "length"), Kind.WORDS),
            Input("positions", ("batch", "length"), Kind.POSITIONS),
            Input("said", ("batch", "words"), Kind.WORDS),
            Input("said_positions", ("batch", "words"), Kind.POSITIONS),
            Input("said_seen", ("batch", "words"), Kind.SEEN),
        ),
        _t5,
        forms_of(_t5_sizes(1, 24, 9), _t5_sizes(3, 7, 40), _t5_sizes(1, 1, 1)),
    ),
    OnnxModel(
        "whisper_decode",
        (
            Input("audio", ("batch", 8, FRAMES)),
            Input("ids", ("batch", "length"), Kind.WORDS),
            Input("positions", ("batch", "length"), Kind.POSITIONS),
            Input("seen", ("batch", "past + length"), Kind.SEEN),
            Input("past_k", ("batch", HEADS, "past", PART)),
            Input("past_v", ("batch", HEADS, "past", PART)),
        ),
        _whisper,
        DECODE_FORMS,
    ),
)
