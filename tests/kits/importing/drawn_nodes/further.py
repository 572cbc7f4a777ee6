"""Quantized operators, recurrent layers, attention."""

from __future__ import annotations

import numpy as np

from kits.importing.drawn_nodes.draw import NodeDraw, by_name

__all__ = ["FAMILIES"]

BYTES = ("int8", "uint8")


def quantize(draw: NodeDraw) -> None:
    """By tensor or by channel, with or without a zero point."""
    shape, dtype = draw.shape(1, 4), draw.one(BYTES)
    axis = draw.rng.randrange(len(shape)) if draw.maybe() else None
    count = () if axis is None else (shape[axis],)
    scale = np.asarray(np.exp2(draw.numbers.integers(-3, 2, count)), "float32")
    operands = [draw.given(scale), *([draw.given(draw.array(count, dtype))] if draw.maybe(0.8) else [])]
    place = {} if axis is None else {"axis": draw.axis_of(axis, len(shape))}
    if draw.maybe():
        draw.node("QuantizeLinear", draw.tensor(shape), *operands, **place)
    else:
        kind = (operands[1:] and dtype) or "uint8"
        draw.node("DequantizeLinear", draw.tensor(shape, kind), *operands, **place)


def dynamic_bytes(draw: NodeDraw) -> None:
    draw.results(draw.nodes("DynamicQuantizeLinear", [draw.input(draw.array(draw.shape(1, 3)))], 3, {}))


def byte_product(draw: NodeDraw) -> None:
    rows, depth, columns = draw.shape(3, 3, 5)
    left, right = draw.one(BYTES), draw.one(BYTES)
    operands = [
        draw.input(draw.array((rows, depth), left)),
        draw.given(draw.array((depth, columns), right), 0.6),
    ]
    if draw.maybe():
        operands.append(draw.given(draw.array((), left)))
        if draw.maybe():
            operands.append(draw.given(draw.array(draw.one([(), (columns,)]), right)))
    draw.node("MatMulInteger", *operands)


def byte_convolution(draw: NodeDraw) -> None:
    channels, made, size = draw.rng.randint(1, 3), draw.rng.randint(1, 3), draw.rng.randint(1, 3)
    data = draw.input(draw.array((1, channels, 5, 6), "uint8"))
    weight = draw.given(draw.array((made, channels, size, size), draw.one(["uint8", "uint8", "int8"])), 0.6)
    points = [draw.given(draw.array((), "uint8"))] if draw.maybe() else []
    attributes = draw.some(strides=[[1, 2]], pads=[[0, 1, 1, 0] if size > 1 else [0] * 4])
    draw.node("ConvInteger", data, weight, *points, **attributes)


def quantized_product(draw: NodeDraw) -> None:
    """No result is a tie, which oneDNN rounds with its zero point, as the README of dnnl says."""
    rows, depth, columns = draw.shape(3, 3, 5)
    dtype, weights = draw.one(BYTES), "int8"

    def parameters(kind: str, count: tuple[int, ...] = ()) -> list[str]:
        scale = np.asarray(np.exp2(draw.numbers.integers(-3, 0, count)), "float32")
        return [draw.constant(scale), draw.constant(draw.array(count, kind))]

    left = [draw.input(draw.array((rows, depth), dtype)), *parameters(dtype)]
    right = [
        draw.constant(draw.array((depth, columns), weights)),
        *parameters(weights, draw.one([(), (columns,)])),
    ]
    scale = draw.constant(np.array(draw.one([0.11, 0.57, 1.3]), "float32"))
    draw.node("QLinearMatMul", *left, *right, scale, draw.constant(draw.array((), dtype)))


def recurrent(draw: NodeDraw) -> None:
    """All directions and layouts, with lengths, states and peepholes."""
    kind = draw.one(["LSTM", "GRU", "RNN"])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    ways = draw.one(["forward", "reverse", "bidirectional"])
    both, hidden, width = 2 if ways == "bidirectional" else 1, draw.rng.randint(1, 3), draw.rng.randint(1, 3)
    steps, batch = draw.rng.randint(1, 4), draw.rng.randint(1, 3)
    operands = [
        draw.input(draw.array((steps, batch, width))),
        draw.constant(draw.array((both, gates * hidden, width)) / 2),
        draw.constant(draw.array((both, gates * hidden, hidden)) / 2),
        draw.constant(draw.array((both, 2 * gates * hidden))) if draw.maybe(0.7) else "",
        draw.given(draw.numbers.integers(1, steps + 1, batch).astype("int32"), 0.3)
        if draw.maybe(0.3)
        else "",
        draw.given(draw.array((both, batch, hidden)), 0.4) if draw.maybe() else "",
    ]
    if kind == "LSTM":
        operands.append(draw.given(draw.array((both, batch, hidden)), 0.4) if draw.maybe() else "")
        operands.append(draw.constant(draw.array((both, 3 * hidden))) if draw.maybe(0.3) else "")
    attributes: dict[str, object] = {"hidden_size": hidden, "direction": ways}
    if kind == "GRU":
        attributes |= draw.some(linear_before_reset=[0, 1])
    if draw.maybe(0.2):
        attributes["clip"] = 0.5
    if draw.maybe(0.25):
        names = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[kind]
        chosen = [draw.one([each, "Relu", "HardSigmoid"]) for each in names]
        attributes["activations"] = chosen * both
    count = 3 if kind == "LSTM" else 2
    draw.results(draw.nodes(kind, operands, count, attributes))


def grouped_attention(draw: NodeDraw) -> None:
    """Attention of opset 23, on three or four axes, with masks of both types."""
    batch, queries, keys = draw.shape(3, 3, 4)
    pairs, depth = draw.rng.randint(1, 2), draw.rng.randint(1, 4)
    heads, width = pairs * draw.rng.randint(1, 2), draw.rng.randint(1, 4)
    shapes = [(batch, heads, queries, depth), (batch, pairs, keys, depth), (batch, pairs, keys, width)]
    attributes: dict[str, object] = draw.some(is_causal=[0, 1], scale=[0.3, 1.0], softcap=[0.0, 2.0])
    if draw.maybe():
        shapes = [(each[0], each[2], each[1] * each[3]) for each in shapes]
        attributes |= {"q_num_heads": heads, "kv_num_heads": pairs}
    operands = [draw.input(draw.array(each)) for each in shapes]
    if draw.maybe():
        extents = draw.one([(queries, keys), (batch, 1, queries, keys), (1, heads, queries, keys)])
        mask = draw.array(extents, draw.one(["float32", "bool"]))
        if mask.dtype == bool:
            mask[..., 0] = True
        operands.append(draw.given(mask, 0.4))
    draw.node("Attention", *operands, **attributes)


FAMILIES = by_name(
    quantize,
    dynamic_bytes,
    byte_product,
    byte_convolution,
    quantized_product,
    recurrent,
    grouped_attention,
)
