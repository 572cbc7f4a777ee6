"""What several ONNX networks of the zoo are made of: heads, attention, positions, norms, activations."""

from __future__ import annotations

import numpy as np

from kits.onnx_network import Network

__all__ = [
    "FAR", "attention", "causal_bias", "convolution", "cosines_and_sines", "extent", "group_norm", "heads",
    "joined", "project", "repeated", "rms_norm", "rotated", "sigmoid_linear", "sliced", "with_past",
]  # fmt: skip

FAR = -3.4028234663852886e38
"""What a masked score becomes."""


def project(net: Network, value: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
    """A linear layer without a bias."""
    return net.op("MatMul", value, net.weight((inputs, outputs), gain / inputs**0.5))


def heads(net: Network, value: str, count: int, part: int) -> str:
    """From (batch, length, count x part) to (batch, count, length, part)."""
    split = net.op("Reshape", value, net.shape(0, 0, count, part))
    return net.op("Transpose", split, perm=(0, 2, 1, 3))


def joined(net: Network, value: str, width: int) -> str:
    """From (batch, head, length, part) to (batch, length, width)."""
    back = net.op("Transpose", value, perm=(0, 2, 1, 3))
    return net.op("Reshape", back, net.shape(0, 0, width))


def attention(net: Network, q: str, k: str, v: str, part: int, bias: str = "", cap: float = 0.0) -> str:
    """Scaled dot-product attention of heads, with an additive bias and a soft cap of the scores if given."""
    turned = net.op("Transpose", k, perm=(0, 1, 3, 2))
    scores = net.op("Mul", net.op("MatMul", q, turned), net.number(part**-0.5))
    if cap:
        bounded = net.op("Tanh", net.op("Div", scores, net.number(cap)))
        scores = net.op("Mul", bounded, net.number(cap))
    if bias:
        scores = net.op("Add", scores, bias)
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), v)


def extent(net: Network, value: str, axis: int) -> str:
    """One extent of a value, as a number without axes."""
    return net.op("Gather", net.op("Shape", value), net.constant(np.asarray(axis, "int64")), axis=0)


def sliced(net: Network, value: str, start: int, stop: int, axis: int) -> str:
    """Part of a value along an axis."""
    return net.op("Slice", value, net.shape(start), net.shape(stop), net.shape(axis))


def repeated(net: Network, value: str, pairs: int, group: int, part: int) -> str:
    """Each of the heads of keys or values, once for each of the `group` query heads that it serves."""
    shape = net.op("Shape", value)
    front, back = sliced(net, shape, 0, 2, 0), sliced(net, shape, 2, 4, 0)
    wide = net.op("Concat", front, net.shape(group), back, axis=0)
    apart = net.op("Expand", net.op("Unsqueeze", value, net.shape(2)), wide)
    return net.op("Reshape", apart, net.shape(0, pairs * group, -1, part))


def with_past(net: Network, past: str, new: str) -> str:
    """Keys or values of all steps, (batch, head, past + length, part)."""
    return net.op("Concat", past, new, axis=2)


def causal_bias(net: Network, seen: str, positions: str, window: int = 0) -> str:
    """What hides words behind each query, those `window` or more in front of it, and padding.

    `seen` is (batch, total) and tells padding from words, `positions` (batch, length); the result is
    (batch, 1, length, total).
    """
    counted = net.op("CumSum", seen, net.constant(np.asarray(1, "int64")))
    places = net.op("Sub", counted, net.constant(np.asarray(1, "int64")))
    places, queries = (
        net.op("Unsqueeze", places, net.shape(1, 2)),
        net.op("Unsqueeze", positions, net.shape(1, 3)),
    )
    visible = net.op("LessOrEqual", places, queries)
    if window:
        first = net.op("Sub", queries, net.constant(np.asarray(window, "int64")))
        visible = net.op("And", visible, net.op("Greater", places, first))
    words = net.op("Cast", net.op("Unsqueeze", seen, net.shape(1, 2)), to=9)
    return net.op("Where", net.op("And", visible, words), net.number(0.0), net.number(FAR))


def cosines_and_sines(net: Network, positions: str, part: int, base: float = 10000.0) -> tuple[str, str]:
    """Of rotary positions (batch, length) for heads of `part`: two tensors (batch, 1, length, part)."""
    half = part // 2
    frequencies = net.constant((base ** (-np.arange(half) / half)).astype("float32"))
    angles = net.op("Mul", net.op("Unsqueeze", net.op("Cast", positions, to=1), net.shape(1, 3)), frequencies)
    twice = net.op("Concat", angles, angles, axis=-1)
    return net.op("Cos", twice), net.op("Sin", twice)


def rotated(net: Network, value: str, part: int, turns: tuple[str, str]) -> str:
    """Halves of each head of width `part`, turned against each other."""
    low, high = sliced(net, value, 0, part // 2, -1), sliced(net, value, part // 2, part, -1)
    crossed = net.op("Concat", net.op("Neg", high), low, axis=-1)
    cosines, sines = turns
    return net.op("Add", net.op("Mul", value, cosines), net.op("Mul", crossed, sines))


def rms_norm(net: Network, value: str, width: int, epsilon: float = 1e-6) -> str:
    """A norm by the root of the mean square over the last axis."""
    mean = net.op("ReduceMean", net.op("Pow", value, net.number(2.0)), axes=[-1], keepdims=1)
    root = net.op("Sqrt", net.op("Add", mean, net.number(epsilon)))
    return net.op("Mul", net.op("Div", value, root), net.weight((width,), 0.1, 1.0))


def group_norm(net: Network, value: str, groups: int, width: int, *, rank: int = 4) -> str:
    """A norm over groups of channels as exporters write it: an instance norm of a reshaped value."""
    flat = net.op("Reshape", value, net.shape(0, groups, -1))
    ones, zeros = net.constant(np.ones(groups, "float32")), net.constant(np.zeros(groups, "float32"))
    normal = net.op("InstanceNormalization", flat, ones, zeros, epsilon=1e-5)
    back = net.op("Reshape", normal, net.op("Shape", value))
    tail = (1,) * (rank - 2)
    return net.op(
        "Add", net.op("Mul", back, net.weight((width, *tail), 0.1, 1.0)), net.weight((width, *tail), 0.1)
    )


def sigmoid_linear(net: Network, value: str) -> str:
    """SiLU in its parts."""
    return net.op("Mul", value, net.op("Sigmoid", value))


def convolution(
    net: Network, value: str, shape: tuple[int, ...], *, groups: int = 1, stride: int = 1, dilation: int = 1
) -> str:
    """A convolution of any rank with a bias, padded so that stride one keeps the extents."""
    pads = [(window - 1) * dilation // 2 for window in shape[2:]]
    rank = len(pads)
    return net.op(
        "Conv", value, net.weight(shape), net.weight((shape[0],), 0.02), kernel_shape=list(shape[2:]),
        strides=[stride] * rank, dilations=[dilation] * rank, pads=[*pads, *pads], group=groups,
    )  # fmt: skip
