"""Detection as ONNX graphs: a DETR, an RT-DETR that selects its queries, a CSP network with YOLO's head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import (
    attention,
    convolution,
    heads,
    joined,
    sigmoid_linear,
    sliced,
)
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, forms_of

__all__ = ["MODELS"]

WIDTH, HEADS, PART, CLASSES = 32, 4, 8, 6
SIDE, QUERIES = 8, 5
BINS = 8


def _attended(net: Network, q: str, k: str, v: str) -> str:
    q, k, v = (heads(net, net.dense(each, WIDTH, WIDTH), HEADS, PART) for each in (q, k, v))
    return net.dense(joined(net, attention(net, q, k, v, PART), WIDTH), WIDTH, WIDTH)


def _added(net: Network, x: str, y: str) -> str:
    """A residual sum and its norm behind it."""
    return net.layer_norm(net.op("Add", x, y), WIDTH)


def _feed_forward(net: Network, x: str) -> str:
    return _added(net, x, net.dense(net.op("Relu", net.dense(x, WIDTH, 2 * WIDTH)), 2 * WIDTH, WIDTH))


def _encoded(net: Network, x: str, places: str) -> str:
    located = net.op("Add", x, places)
    return _feed_forward(net, _added(net, x, _attended(net, located, located, x)))


def _decoded(net: Network, x: str, queries: str, memory: str, places: str) -> str:
    located = net.op("Add", x, queries)
    x = _added(net, x, _attended(net, located, located, x))
    x = _added(net, x, _attended(net, net.op("Add", x, queries), net.op("Add", memory, places), memory))
    return _feed_forward(net, x)


def _tokens(net: Network, image: str) -> str:
    flat = net.op("Reshape", image, net.shape(0, WIDTH, -1))
    return net.op("Transpose", flat, perm=(0, 2, 1))


def _places() -> np.ndarray:
    """Sines and cosines of rows and columns: (1, SIDE x SIDE, WIDTH)."""
    angles = np.outer(np.arange(1, SIDE + 1), 100.0 ** (-np.arange(WIDTH // 4) / (WIDTH // 4)))
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    rows, columns = np.repeat(waves[:, None], SIDE, 1), np.repeat(waves[None], SIDE, 0)
    return np.concatenate([rows, columns], -1).reshape(1, SIDE * SIDE, WIDTH).astype("float32")


def _box_steps(net: Network, x: str) -> str:
    for _ in range(2):
        x = net.op("Relu", net.dense(x, WIDTH, WIDTH))
    return net.dense(x, WIDTH, 4)


def _backbone(net: Network) -> str:
    x = net.op("Relu", convolution(net, "image", (16, 3, 3, 3), stride=2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return net.op("Relu", convolution(net, x, (WIDTH, 16, 3, 3)))


def _detr(net: Network) -> Sequence[str]:
    places = net.constant(_places())
    memory = _encoded(net, _tokens(net, _backbone(net)), places)
    queries = net.weight((1, QUERIES, WIDTH), 1.0)
    x = net.op(
        "Mul", net.op("Add", net.op("ReduceMean", memory, axes=[1], keepdims=1), queries), net.number(0.0)
    )
    for _ in range(2):
        x = _decoded(net, x, queries, memory, places)
    return [net.dense(x, WIDTH, CLASSES), net.op("Sigmoid", _box_steps(net, x))]


def _inverse_sigmoid(net: Network, x: str) -> str:
    x = net.op("Clip", x, net.number(0.0), net.number(1.0))
    rest = net.op("Sub", net.number(1.0), x)
    bounded = [net.op("Clip", each, net.number(1e-5), "") for each in (x, rest)]
    return net.op("Log", net.op("Div", *bounded))


def _selected(net: Network, memory: str) -> tuple[str, str]:
    """The tokens that score best and their boxes; both (batch, QUERIES, ...)."""
    best = net.op("ReduceMax", net.dense(memory, WIDTH, CLASSES), axes=[-1], keepdims=0)
    _, chosen = net.ops("TopK", 2, best, net.shape(QUERIES), axis=1)
    index = net.op("Unsqueeze", chosen, net.shape(-1))
    taken = []
    for value, width in ((memory, WIDTH), (_box_steps(net, memory), 4)):
        wide = net.op("Tile", index, net.shape(1, 1, width))
        taken.append(net.op("GatherElements", value, wide, axis=1))
    return taken[0], taken[1]


def _rt_detr(net: Network) -> Sequence[str]:
    places = net.constant(_places())
    memory = _encoded(net, _tokens(net, _backbone(net)), places)
    x, steps = _selected(net, memory)
    boxes = net.op("Sigmoid", steps)
    for _ in range(2):
        hidden = net.op("Relu", net.dense(boxes, 4, 2 * WIDTH))
        x = _decoded(net, x, net.dense(hidden, 2 * WIDTH, WIDTH), memory, places)
        moved = net.op("Add", _box_steps(net, x), _inverse_sigmoid(net, boxes))
        boxes = net.op("Sigmoid", moved)
    return [net.dense(x, WIDTH, CLASSES), boxes]


def _step(net: Network, x: str, inputs: int, outputs: int, window: int = 3, stride: int = 1) -> str:
    return sigmoid_linear(net, convolution(net, x, (outputs, inputs, window, window), stride=stride))


def _cross_stage(net: Network, x: str, inputs: int, outputs: int) -> str:
    """Half of the channels pass two convolutions; all that came up on the way is joined again."""
    half = outputs // 2
    wide = _step(net, x, inputs, outputs, 1)
    first, second = net.ops("Split", 2, wide, net.shape(half, half), axis=1)
    inner = net.op("Add", second, _step(net, _step(net, second, half, half), half, half))
    return _step(net, net.op("Concat", first, second, inner, axis=1), 3 * half, outputs, 1)


def _pyramid_pooled(net: Network, x: str, width: int) -> str:
    """Max pooling of growing windows, one behind another, joined."""
    half = width // 2
    pooled = [_step(net, x, width, half, 1)]
    for _ in range(3):
        pooled.append(net.op("MaxPool", pooled[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    return _step(net, net.op("Concat", *pooled, axis=1), 4 * half, width, 1)


def _doubled(net: Network, x: str) -> str:
    scales = net.constant(np.asarray([1, 1, 2, 2], "float32"))
    return net.op(
        "Resize",
        x,
        "",
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _expected_bins(net: Network, x: str, places: int) -> str:
    """Distances as expectations over bins: (batch, 4, places)."""
    apart = net.op("Reshape", x, net.shape(0, 4, BINS, places))
    likely = net.op("Softmax", net.op("Transpose", apart, perm=(0, 2, 1, 3)), axis=1)
    numbers = net.constant(np.arange(BINS, dtype="float32").reshape(1, BINS, 1, 1))
    expected = net.op("Conv", likely, numbers, kernel_shape=[1, 1])
    return net.op("Reshape", expected, net.shape(0, 4, places))


def _anchors(sides: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each cell, (1, 2, places), and how many pixels it is wide, (1, places)."""
    middles, strides = [], []
    for level, side in enumerate(sides):
        axis = np.arange(side) + 0.5
        rows, columns = np.meshgrid(axis, axis, indexing="ij")
        middles.append(np.stack([columns.ravel(), rows.ravel()]))
        strides.append(np.full((1, side * side), 1.0 * 2 ** (level - 1)))
    return np.concatenate(middles, 1)[None].astype("float32"), np.concatenate(strides, 1).astype("float32")


def _head(net: Network, x: str, width: int, side: int) -> tuple[str, str]:
    """Scores and bins of one level, by place."""
    found = []
    for outputs in (CLASSES, 4 * BINS):
        last = convolution(net, _step(net, x, width, width), (outputs, width, 1, 1))
        found.append(net.op("Reshape", last, net.shape(0, outputs, side * side)))
    return found[0], found[1]


def _yolo(net: Network) -> Sequence[str]:
    x = _step(net, "image", 3, 8, stride=2)
    fine = _cross_stage(net, _step(net, x, 8, 16, stride=2), 16, 16)
    coarse = _pyramid_pooled(net, _cross_stage(net, _step(net, fine, 16, 32, stride=2), 32, 32), 32)
    up = _cross_stage(net, net.op("Concat", _doubled(net, coarse), fine, axis=1), 48, 16)
    down = _cross_stage(net, net.op("Concat", _step(net, up, 16, 16, stride=2), coarse, axis=1), 48, 32)
    levels = [_head(net, up, 16, SIDE), _head(net, down, 32, SIDE // 2)]
    places = SIDE * SIDE + (SIDE // 2) ** 2
    scores, bins = (net.op("Concat", *(level[part] for level in levels), axis=2) for part in range(2))
    distances = _expected_bins(net, bins, places)
    middles, strides = (net.constant(each) for each in _anchors((SIDE, SIDE // 2)))
    first = net.op("Sub", middles, sliced(net, distances, 0, 2, 1))
    last = net.op("Add", middles, sliced(net, distances, 2, 4, 1))
    center = net.op("Div", net.op("Add", first, last), net.number(2.0))
    boxes = net.op("Concat", center, net.op("Sub", last, first), axis=1)
    return [net.op("Concat", net.op("Mul", boxes, strides), net.op("Sigmoid", scores), axis=1)]


def _model(name: str, write: Callable[[Network], Sequence[str]]) -> OnnxModel:
    inputs = (Input("image", ("batch", 3, 4 * SIDE, 4 * SIDE)),)
    return OnnxModel(name, inputs, write, forms_of({"batch": 1}, {"batch": 3}))


MODELS = (_model("detr", _detr), _model("rt_detr", _rt_detr), _model("yolo", _yolo))
