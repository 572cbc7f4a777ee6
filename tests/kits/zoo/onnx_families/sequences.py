"""Networks that go along a sequence, as ONNX graphs: state spaces, retention, linear attention, GRU, LSTM.

A Mamba is written twice, as a loop unrolled over the steps and in closed form, by sums of logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import heads, joined, project, rms_norm, sigmoid_linear, sliced
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, forms_of

__all__ = ["MODELS"]

WIDTH, INNER, STATES, STEPS = 16, 32, 4, 6
HEADS, PART = 2, 8


def _causal_convolution(net: Network, x: str) -> str:
    """A depthwise convolution over time that sees the past only."""
    time = net.op("Transpose", x, perm=(0, 2, 1))
    deep = net.op(
        "Conv", time, net.weight((INNER, 1, 4), 0.5), net.weight((INNER,), 0.1),
        kernel_shape=[4], pads=[3, 0], group=INNER,
    )  # fmt: skip
    return sigmoid_linear(net, net.op("Transpose", deep, perm=(0, 2, 1)))


def _selective(net: Network, x: str) -> tuple[str, str, str, str]:
    """Step sizes (batch, time, channel), decays by state, and what goes into and comes out of the states."""
    low = project(net, x, INNER, 2)
    steps = net.op("Softplus", net.op("Add", project(net, low, 2, INNER), net.number(-1.0)))
    rates = net.constant(-np.tile(np.arange(1.0, STATES + 1), (INNER, 1)).astype("float32"))
    decays = net.op("Mul", net.op("Unsqueeze", steps, net.shape(3)), rates)
    return steps, decays, project(net, x, INNER, STATES), project(net, x, INNER, STATES)


def _unrolled(net: Network, x: str) -> str:
    steps, decays, entering, leaving = _selective(net, x)
    scaled = net.op("Unsqueeze", net.op("Mul", steps, x), net.shape(3))
    given = net.op("Mul", scaled, net.op("Unsqueeze", entering, net.shape(2)))
    kept = net.op("Exp", decays)
    found, state = [], ""
    for time in range(STEPS):
        now = net.op("Squeeze", sliced(net, given, time, time + 1, 1), net.shape(1))
        if state:
            keep = net.op("Squeeze", sliced(net, kept, time, time + 1, 1), net.shape(1))
            now = net.op("Add", net.op("Mul", keep, state), now)
        state = now
        out = net.op("Transpose", sliced(net, leaving, time, time + 1, 1), perm=(0, 2, 1))
        found.append(net.op("Transpose", net.op("MatMul", state, out), perm=(0, 2, 1)))
    return net.op("Concat", *found, axis=1)


def _closed(net: Network, x: str) -> str:
    """Each step sees each step before it by the decay between them: (batch, query, key, channel, state)."""
    steps, decays, entering, leaving = _selective(net, x)
    sums = net.op("CumSum", decays, net.constant(np.asarray(1, "int64")))
    between = net.op("Sub", net.op("Unsqueeze", sums, net.shape(2)), net.op("Unsqueeze", sums, net.shape(1)))
    past = np.tri(STEPS, dtype=bool).reshape(1, STEPS, STEPS, 1, 1)
    weights = net.op("Exp", net.op("Where", net.constant(past), between, net.number(-1e9)))
    scaled = net.op("Unsqueeze", net.op("Mul", steps, x), net.shape(3))
    given = net.op("Mul", scaled, net.op("Unsqueeze", entering, net.shape(2)))
    states = net.op(
        "ReduceSum",
        net.op("Mul", weights, net.op("Unsqueeze", given, net.shape(1))),
        net.shape(2),
        keepdims=0,
    )
    return net.op(
        "ReduceSum",
        net.op("Mul", states, net.op("Unsqueeze", leaving, net.shape(2))),
        net.shape(3),
        keepdims=0,
    )


def _mamba(net: Network, *, is_closed: bool) -> Sequence[str]:
    n = rms_norm(net, "x", WIDTH)
    x = _causal_convolution(net, project(net, n, WIDTH, INNER))
    y = _closed(net, x) if is_closed else _unrolled(net, x)
    y = net.op("Add", y, net.op("Mul", x, net.weight((INNER,), 0.1, 1.0)))
    gated = net.op("Mul", y, sigmoid_linear(net, project(net, n, WIDTH, INNER)))
    return [net.op("Add", "x", project(net, gated, INNER, WIDTH))]


def _retention(net: Network) -> Sequence[str]:
    """Attention without a softmax whose scores decay by distance, with a norm of each head behind it."""
    q, k, v = (heads(net, project(net, "x", WIDTH, WIDTH), HEADS, PART) for _ in range(3))
    distance = np.arange(STEPS)[:, None] - np.arange(STEPS)[None, :]
    decay = np.stack([np.where(distance >= 0, rate ** np.maximum(distance, 0), 0.0) for rate in (0.9, 0.7)])
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=(0, 1, 3, 2)))
    scores = net.op(
        "Mul", net.op("Mul", scores, net.number(PART**-0.5)), net.constant(decay.astype("float32"))
    )
    mixed = net.op("MatMul", scores, v)
    apart = net.op("Transpose", mixed, perm=(0, 2, 1, 3))
    normal = net.op("Reshape", rms_norm(net, apart, PART), net.shape(0, 0, WIDTH))
    return [
        project(
            net, net.op("Mul", sigmoid_linear(net, project(net, "x", WIDTH, WIDTH)), normal), WIDTH, WIDTH
        )
    ]


def _linear_attention(net: Network) -> Sequence[str]:
    """Queries and keys are made positive, and keys are multiplied by values first."""
    q, k, v = (heads(net, net.dense("x", WIDTH, WIDTH), HEADS, PART) for _ in range(3))
    q, k = (net.op("Add", net.op("Elu", each), net.number(1.0)) for each in (q, k))
    table = net.op("MatMul", net.op("Transpose", k, perm=(0, 1, 3, 2)), v)
    total = net.op("ReduceSum", k, net.shape(2), keepdims=1)
    norm = net.op("MatMul", q, net.op("Transpose", total, perm=(0, 1, 3, 2)))
    mixed = net.op("Div", net.op("MatMul", q, table), net.op("Add", norm, net.number(1e-6)))
    return [net.dense(joined(net, mixed, WIDTH), WIDTH, WIDTH)]


def _recurrent_steps(net: Network, gates: int) -> tuple[list[str], str, str]:
    """What the input gives to all gates, step by step, and the recurrent weight and bias."""
    given = net.dense("x", WIDTH, gates * INNER)
    weight, bias = net.weight((INNER, gates * INNER), INNER**-0.5), net.weight((gates * INNER,), 0.1)
    steps = [net.op("Squeeze", sliced(net, given, time, time + 1, 1), net.shape(1)) for time in range(STEPS)]
    return steps, weight, bias


def _gates(net: Network, value: str, count: int) -> list[str]:
    return net.ops("Split", count, value, net.shape(*[INNER] * count), axis=1)


def _gru(net: Network) -> Sequence[str]:
    steps, weight, bias = _recurrent_steps(net, 3)
    state, found = "state", []
    for given in steps:
        reset, update, new = _gates(net, given, 3)
        past = net.op("Add", net.op("MatMul", state, weight), bias)
        reset_past, update_past, new_past = _gates(net, past, 3)
        reset = net.op("Sigmoid", net.op("Add", reset, reset_past))
        update = net.op("Sigmoid", net.op("Add", update, update_past))
        new = net.op("Tanh", net.op("Add", new, net.op("Mul", reset, new_past)))
        difference = net.op("Sub", state, new)
        state = net.op("Add", new, net.op("Mul", update, difference))
        found.append(net.op("Unsqueeze", state, net.shape(1)))
    return [net.op("Concat", *found, axis=1), state]


def _lstm(net: Network) -> Sequence[str]:
    steps, weight, bias = _recurrent_steps(net, 4)
    state, cell, found = "state", "cell", []
    for given in steps:
        gates = net.op("Add", net.op("Add", given, net.op("MatMul", state, weight)), bias)
        entering, forgetting, new, leaving = _gates(net, gates, 4)
        kept = net.op("Mul", net.op("Sigmoid", forgetting), cell)
        cell = net.op("Add", kept, net.op("Mul", net.op("Sigmoid", entering), net.op("Tanh", new)))
        state = net.op("Mul", net.op("Sigmoid", leaving), net.op("Tanh", cell))
        found.append(net.op("Unsqueeze", state, net.shape(1)))
    return [net.op("Concat", *found, axis=1), state, cell]


def _speech(net: Network) -> Sequence[str]:
    """Two bidirectional LSTMs over the frames of a recording, behind a convolution."""
    frames = net.op("Transpose", "x", perm=(0, 2, 1))
    deep = net.op(
        "Relu", net.op("Conv", frames, net.weight((INNER, WIDTH, 3)), kernel_shape=[3], pads=[1, 1])
    )
    value, width = net.op("Transpose", deep, perm=(2, 0, 1)), INNER
    for _layer in range(2):
        weights = [net.weight((2, 4 * INNER, each), each**-0.5) for each in (width, INNER)]
        bias = net.weight((2, 8 * INNER), 0.1)
        attributes = {"hidden_size": INNER, "direction": "bidirectional"}
        both, *_last = net.ops("LSTM", 3, value, *weights, bias, **attributes)
        steps = net.op("Transpose", both, perm=(0, 2, 1, 3))
        value, width = net.op("Reshape", steps, net.shape(0, 0, 2 * INNER)), 2 * INNER
    return [net.op("LogSoftmax", net.dense(value, width, WIDTH), axis=-1)]


X = Input("x", ("batch", STEPS, WIDTH))
STATE = Input("state", ("batch", INNER))
BATCHES = forms_of({"batch": 1}, {"batch": 3})
LENGTHS = forms_of({"batch": 1, "length": 7}, {"batch": 3, "length": 12}, {"batch": 2, "length": 1})

MODELS = (
    OnnxModel("mamba_unrolled", (X,), lambda net: _mamba(net, is_closed=False), BATCHES),
    OnnxModel("mamba_closed", (X,), lambda net: _mamba(net, is_closed=True), BATCHES),
    OnnxModel("retention", (X,), _retention, BATCHES),
    OnnxModel("linear_attention", (Input("x", ("batch", "length", WIDTH)),), _linear_attention, LENGTHS),
    OnnxModel("gru", (X, STATE), _gru, BATCHES),
    OnnxModel("speech", (Input("x", ("batch", "length", WIDTH)),), _speech, LENGTHS),
    OnnxModel("lstm", (X, STATE, Input("cell", ("batch", INNER))), _lstm, BATCHES),
)
