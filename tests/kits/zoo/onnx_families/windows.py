"""Windows of images, as ONNX graphs: a Swin that shifts them, SAM's blocks with decomposed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import convolution, sliced
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, forms_of

__all__ = ["MODELS"]

WIDTH, HEADS, PART = 16, 2, 8
SIDE, WINDOW = 8, 4
COUNT = SIDE // WINDOW
PADDED = 9


def _rolled(net: Network, value: str, by: int, axis: int) -> str:
    """A value turned around along an axis of `SIDE`; a positive `by` moves rows to the front."""
    by %= SIDE
    return net.op("Concat", sliced(net, value, by, SIDE, axis), sliced(net, value, 0, by, axis), axis=axis)


def _windows(net: Network, x: str, count: int) -> str:
    """From (batch, row, column, width) to (batch x window, place, width)."""
    apart = net.op("Reshape", x, net.shape(-1, count, WINDOW, count, WINDOW, WIDTH))
    together = net.op("Transpose", apart, perm=(0, 1, 3, 2, 4, 5))
    return net.op("Reshape", together, net.shape(-1, WINDOW * WINDOW, WIDTH))


def _image(net: Network, windows: str, count: int) -> str:
    apart = net.op("Reshape", windows, net.shape(-1, count, count, WINDOW, WINDOW, WIDTH))
    together = net.op("Transpose", apart, perm=(0, 1, 3, 2, 4, 5))
    return net.op("Reshape", together, net.shape(-1, count * WINDOW, count * WINDOW, WIDTH))


def _queries_keys_values(net: Network, x: str, places: int) -> list[str]:
    """Three times (batch, head, place, part) of one joined projection."""
    three = net.op("Reshape", net.dense(x, WIDTH, 3 * WIDTH), net.shape(-1, places, 3, HEADS, PART))
    turned = net.op("Transpose", three, perm=(2, 0, 3, 1, 4))
    return [net.op("Gather", turned, net.constant(np.asarray(part, "int64")), axis=0) for part in range(3)]


def _scores(net: Network, q: str, k: str) -> str:
    scaled = net.op("Mul", q, net.number(PART**-0.5))
    return net.op("MatMul", scaled, net.op("Transpose", k, perm=(0, 1, 3, 2)))


def _mixed(net: Network, scores: str, v: str, places: int) -> str:
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    back = net.op("Reshape", net.op("Transpose", mixed, perm=(0, 2, 1, 3)), net.shape(-1, places, WIDTH))
    return net.dense(back, WIDTH, WIDTH)


def _window_bias(net: Network) -> str:
    """A learned bias for each two places of a window, looked up by their distance."""
    places = np.stack(np.meshgrid(np.arange(WINDOW), np.arange(WINDOW), indexing="ij")).reshape(2, -1)
    rows, columns = places[:, :, None] - places[:, None, :] + WINDOW - 1
    table = net.weight(((2 * WINDOW - 1) ** 2, HEADS), 0.7)
    looked_up = net.op("Gather", table, net.constant((rows * (2 * WINDOW - 1) + columns).astype("int64")))
    return net.op("Unsqueeze", net.op("Transpose", looked_up, perm=(2, 0, 1)), net.shape(0))


def _shift_mask() -> np.ndarray:
    """What hides places of one shifted window from each other that are no neighbours in the image."""
    part = np.repeat([0, 1, 2], [SIDE - WINDOW, WINDOW // 2, WINDOW // 2])
    image = (part[:, None] * 3 + part[None, :]).reshape(COUNT, WINDOW, COUNT, WINDOW)
    windows = image.transpose(0, 2, 1, 3).reshape(COUNT * COUNT, WINDOW * WINDOW)
    return np.where(windows[:, None] == windows[:, :, None], 0.0, -100.0).astype("float32")


def _swin_attention(net: Network, n: str, *, is_shifted: bool) -> str:
    shift, places = WINDOW // 2, WINDOW * WINDOW
    if is_shifted:
        n = _rolled(net, _rolled(net, n, shift, 1), shift, 2)
    q, k, v = _queries_keys_values(net, _windows(net, n, COUNT), places)
    scores = net.op("Add", _scores(net, q, k), _window_bias(net))
    if is_shifted:
        apart = net.op("Reshape", scores, net.shape(-1, COUNT * COUNT, HEADS, places, places))
        masked = net.op("Add", apart, net.constant(_shift_mask()[None, :, None]))
        scores = net.op("Reshape", masked, net.shape(-1, HEADS, places, places))
    x = _image(net, _mixed(net, scores, v, places), COUNT)
    return _rolled(net, _rolled(net, x, -shift, 1), -shift, 2) if is_shifted else x


def _feed_forward(net: Network, x: str) -> str:
    hidden = net.gelu(net.dense(net.layer_norm(x, WIDTH), WIDTH, 2 * WIDTH))
    return net.op("Add", x, net.dense(hidden, 2 * WIDTH, WIDTH))


def _merged(net: Network, x: str) -> str:
    """Patch merging: four neighbours side by side, then a projection."""
    corners = [
        net.op("Slice", x, net.shape(row, column), net.shape(SIDE, SIDE), net.shape(1, 2), net.shape(2, 2))
        for column in range(2)
        for row in range(2)
    ]
    wide = net.layer_norm(net.op("Concat", *corners, axis=-1), 4 * WIDTH)
    return net.op("MatMul", wide, net.weight((4 * WIDTH, 2 * WIDTH), (4 * WIDTH) ** -0.5))


def _patches(net: Network) -> str:
    """The image (batch, 3, 4 x side, 4 x side) as (batch, side, side, width)."""
    patches = net.op(
        "Conv", "image", net.weight((WIDTH, 3, 4, 4)), net.weight((WIDTH,), 0.02), kernel_shape=[4, 4],
        strides=[4, 4],
    )  # fmt: skip
    return net.op("Transpose", patches, perm=(0, 2, 3, 1))


def _swin(net: Network) -> Sequence[str]:
    x = net.layer_norm(_patches(net), WIDTH)
    for is_shifted in (False, True):
        x = net.op("Add", x, _swin_attention(net, net.layer_norm(x, WIDTH), is_shifted=is_shifted))
        x = _feed_forward(net, x)
    pooled = net.op("ReduceMean", net.layer_norm(_merged(net, x), 2 * WIDTH), axes=[1, 2], keepdims=0)
    return [net.dense(pooled, 2 * WIDTH, 10)]


def _by_distance(net: Network, side: int) -> str:
    """Learned vectors by the distance of two rows (or columns): (query, key, part)."""
    distances = np.arange(side)[:, None] - np.arange(side)[None, :] + side - 1
    return net.op("Gather", net.weight((2 * side - 1, PART), 0.3), net.constant(distances.astype("int64")))


def _decomposed(net: Network, scores: str, q: str, side: int) -> str:
    """Scores with what rows and columns add to them, each by its distance from the query's."""
    apart = net.op("Reshape", q, net.shape(-1, side, side, PART))
    rows = net.op("Einsum", apart, _by_distance(net, side), equation="bhwc,hkc->bhwk")
    columns = net.op("Einsum", apart, _by_distance(net, side), equation="bhwc,wkc->bhwk")
    grid = net.op("Reshape", scores, net.shape(-1, side, side, side, side))
    grid = net.op("Add", grid, net.op("Unsqueeze", rows, net.shape(4)))
    grid = net.op("Add", grid, net.op("Unsqueeze", columns, net.shape(3)))
    return net.op("Reshape", grid, net.shape(-1, HEADS, side * side, side * side))


def _sam_attention(net: Network, x: str, side: int) -> str:
    places = side * side
    flat = net.op("Reshape", x, net.shape(-1, places, WIDTH))
    q, k, v = _queries_keys_values(net, flat, places)
    scores = _decomposed(net, _scores(net, q, k), q, side)
    return net.op("Reshape", _mixed(net, scores, v, places), net.shape(-1, side, side, WIDTH))


def _sam_windows(net: Network, n: str) -> str:
    """Attention within windows of an image that is padded until windows fill it."""
    count = -(-PADDED // WINDOW)
    rest = count * WINDOW - PADDED
    padded = net.op("Pad", n, net.shape(0, 0, 0, 0, 0, rest, rest, 0), net.number(0.0))
    square = net.op("Reshape", _windows(net, padded, count), net.shape(-1, WINDOW, WINDOW, WIDTH))
    image = _image(net, _sam_attention(net, square, WINDOW), count)
    return sliced(net, sliced(net, image, 0, PADDED, 1), 0, PADDED, 2)


def _sam(net: Network) -> Sequence[str]:
    x = net.op("Add", _patches(net), net.weight((1, PADDED, PADDED, WIDTH), 0.5))
    x = net.op("Add", x, _sam_windows(net, net.layer_norm(x, WIDTH)))
    x = _feed_forward(net, x)
    x = net.op("Add", x, _sam_attention(net, net.layer_norm(x, WIDTH), PADDED))
    x = net.op("Transpose", _feed_forward(net, x), perm=(0, 3, 1, 2))
    for inputs, window in ((WIDTH, 1), (8, 3)):
        x = convolution(net, x, (8, inputs, window, window))
        x = net.op(
            "Transpose", net.layer_norm(net.op("Transpose", x, perm=(0, 2, 3, 1)), 8), perm=(0, 3, 1, 2)
        )
    return [x]


def _model(name: str, write: Callable[[Network], Sequence[str]], side: int) -> OnnxModel:
    inputs = (Input("image", ("batch", 3, 4 * side, 4 * side)),)
    return OnnxModel(name, inputs, write, forms_of({"batch": 1}, {"batch": 3}))


MODELS = (_model("swin", _swin, SIDE), _model("sam_encoder", _sam, PADDED))
