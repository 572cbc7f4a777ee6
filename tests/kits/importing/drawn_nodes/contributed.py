"""Operators that ONNX Runtime adds: what its optimizer and its tools write."""

from __future__ import annotations

import numpy as np

from kits.importing.drawn_nodes.draw import NodeDraw, by_name

__all__ = ["FAMILIES"]

DOMAIN = {"domain": "com.microsoft"}


def gates(draw: NodeDraw) -> None:
    """GELU and its kind, with or without a bias of the rows."""
    shape = draw.shape(1, 4)
    kind = draw.one(["Gelu", "FastGelu", "QuickGelu", "BiasGelu"])
    operands = [draw.tensor(shape)]
    if kind == "BiasGelu" or (kind == "FastGelu" and draw.maybe()):
        operands.append(draw.given(draw.array(shape[-1:])))
    attributes = draw.some(alpha=[1.702, 0.5, -1.0]) if kind == "QuickGelu" else {}
    draw.node(kind, *operands, **attributes, **DOMAIN)


def skipped_norm(draw: NodeDraw) -> None:
    """Of a sum of two or three, with the sum as a result or without."""
    shape = draw.shape(3, 3)
    kind = draw.one(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
    operands = [draw.tensor(shape), draw.tensor(shape), draw.given(draw.array(shape[-1:]))]
    if kind == "SkipLayerNormalization":
        operands.append(draw.given(draw.array(shape[-1:])) if draw.maybe() else "")
    if draw.maybe():
        operands.append(draw.given(draw.array(shape[-1:])))
    made = draw.nodes(kind, operands, 4, {**draw.some(epsilon=[1e-5, 0.1]), **DOMAIN}, (1, 2))
    draw.results([made[0], made[3]] if draw.maybe() else made[:1])


def fused_product(draw: NodeDraw) -> None:
    rows, depth, columns = draw.shape(3, 3, 5)
    whole = draw.shape(0, 2, 3)
    flags = draw.some(transA=[0, 1], transB=[0, 1])
    left = (*whole, depth, rows) if flags.get("transA") else (*whole, rows, depth)
    matrix = (columns, depth) if flags.get("transB") else (depth, columns)
    right = (*whole, *matrix) if draw.maybe() else matrix
    operands = [draw.tensor(left), draw.given(draw.array(right), 0.5)]
    draw.node("FusedMatMul", *operands, **flags, **draw.some(alpha=[0.5, -2.0]), **DOMAIN)


def fused_convolution(draw: NodeDraw) -> None:
    channels, made, size = (draw.rng.randint(1, 3) for _ in range(3))
    activation, numbers = draw.one(
        [
            ("Relu", []),
            ("Tanh", []),
            ("Sigmoid", []),
            ("LeakyRelu", [0.1]),
            ("Clip", [-0.5, 1.0]),
            ("HardSigmoid", [0.3, 0.4]),
        ]
    )
    data = draw.tensor((1, channels, 5, 6))
    operands = [draw.constant(draw.array((made, channels, size, size))), draw.constant(draw.array((made,)))]
    known: dict[str, object] = {"activation_params": numbers} if numbers else {}
    window = draw.some(strides=[[1, 2]], pads=[[1, 0, 1, 1] if size > 1 else [0] * 4])
    draw.node("FusedConv", data, *operands, activation=activation, **known, **window, **DOMAIN)


def packed_product(draw: NodeDraw) -> None:
    """Weights of 4 or 8 bits by groups, with or without zero points."""
    bits, group, columns, groups = (
        draw.one([4, 8]),
        draw.one([16, 32]),
        draw.rng.randint(1, 5),
        draw.rng.randint(1, 3),
    )
    depth = group * groups - draw.one([0, 0, 3])
    words = draw.numbers.integers(0, 256, (columns, groups, group * bits // 8)).astype("uint8")
    scales = (np.abs(draw.array((columns, groups))) + np.float32(0.1)) / np.float32(1000)
    operands = [
        draw.input(draw.array((draw.rng.randint(1, 3), depth))),
        draw.constant(words),
        draw.constant(scales),
    ]
    if draw.maybe():
        count = (columns, (groups * bits + 7) // 8)
        operands.append(draw.constant(draw.numbers.integers(0, 256, count).astype("uint8")))
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": group}
    draw.node("MatMulNBits", *operands, **attributes, **DOMAIN)


def bytes_to_floats(draw: NodeDraw) -> None:
    rows, depth, columns = draw.shape(3, 3, 5)
    weight = draw.constant(draw.array((depth, columns), draw.one(["int8", "uint8"])))
    scale = draw.constant(
        np.asarray(np.abs(draw.array(draw.one([(), (columns,)]))) + np.float32(0.1), "float32")
    )
    if draw.maybe():
        operands = [draw.input(draw.array((rows, depth))), weight, scale]
        draw.node("DynamicQuantizeMatMul", *operands, **DOMAIN)
        return
    data = draw.input(draw.array((rows, depth), "uint8"))
    points = [draw.constant(draw.array((), "uint8"))] if draw.maybe() else []
    draw.node(
        "MatMulIntegerToFloat",
        data,
        weight,
        draw.constant(np.array(0.1, "float32")),
        scale,
        *points,
        **DOMAIN,
    )


def several_heads(draw: NodeDraw) -> None:
    """Queries, keys and values on three axes, with a bias, a mask of keys or additive scores."""
    batch, queries, keys, heads, depth = draw.shape(5, 5, 3)
    shapes = [(batch, queries, heads * depth), (batch, keys, heads * depth), (batch, keys, heads * depth)]
    operands = [draw.input(draw.array(each)) for each in shapes]
    operands.append(draw.constant(draw.array((3 * heads * depth,))) if draw.maybe() else "")
    operands.append(draw.input(np.full((batch,), keys, "int32")) if draw.maybe(0.3) else "")
    scores = draw.one([(1, 1, queries, keys), (batch, heads, queries, keys)])
    operands.append(draw.given(draw.array(scores), 0.4) if draw.maybe() else "")
    attributes = {"num_heads": heads, **draw.some(scale=[0.3, 1.0])}
    draw.node("MultiHeadAttention", *operands, **attributes, **DOMAIN)


FAMILIES = by_name(
    gates,
    skipped_norm,
    fused_product,
    fused_convolution,
    packed_product,
    bytes_to_floats,
    several_heads,
)
