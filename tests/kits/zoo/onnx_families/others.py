"""Graphs, sound, ranking and mixers as ONNX graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import FAR, attention, convolution, heads, joined
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, Kind, forms_of

__all__ = ["MODELS"]

WIDTH, HEADS, PART = 16, 2, 8


def _graph_convolution(net: Network) -> Sequence[str]:
    """Messages over a dense adjacency that is normalized by the degrees on both sides."""
    degree = net.op("ReduceSum", "edges", net.shape(-1), keepdims=1)
    root = net.op("Reciprocal", net.op("Sqrt", degree))
    scaled = net.op("Mul", net.op("Mul", "edges", root), net.op("Transpose", root, perm=(0, 2, 1)))
    x = "nodes"
    for _ in range(2):
        x = net.op("Relu", net.op("MatMul", scaled, net.dense(x, WIDTH, WIDTH)))
    best = net.op("ReduceMax", x, axes=[1], keepdims=0)
    pooled = net.op("Concat", best, net.op("ReduceMean", x, axes=[1], keepdims=0), axis=1)
    return [net.dense(pooled, 2 * WIDTH, 5)]


def _graph_attention(net: Network) -> Sequence[str]:
    """Attention by the sum of two scores, one of each end of an edge."""
    x = heads(net, net.dense("nodes", WIDTH, WIDTH), HEADS, PART)
    there, here = (net.op("MatMul", x, net.weight((HEADS, PART, 1), PART**-0.5)) for _ in range(2))
    sums = net.op("Add", there, net.op("Transpose", here, perm=(0, 1, 3, 2)))
    scores = net.op("LeakyRelu", sums, alpha=0.2)
    is_edge = net.op("Greater", net.op("Unsqueeze", "edges", net.shape(1)), net.number(0.0))
    weights = net.op("Softmax", net.op("Where", is_edge, scores, net.number(FAR)), axis=-1)
    mixed = joined(net, net.op("MatMul", weights, x), WIDTH)
    return [net.dense(net.op("Elu", mixed), WIDTH, 5)]


def _sound(net: Network) -> Sequence[str]:
    """Spoken words by depthwise and pointwise convolutions over time and frequency."""
    planes, bias = net.op("Unsqueeze", "sound", net.shape(1)), net.weight((16,), 0.02)
    x = net.op(
        "Conv", planes, net.weight((16, 1, 10, 4)), bias,
        kernel_shape=[10, 4], strides=[2, 2], pads=[4, 1, 5, 1],
    )  # fmt: skip
    x = net.op("Relu", x)
    for _ in range(2):
        x = net.op("Relu", convolution(net, x, (16, 1, 3, 3), groups=16))
        x = net.op("Relu", convolution(net, x, (16, 16, 1, 1)))
    mean = net.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    return [net.dense(mean, 16, 6)]


def _wave(net: Network) -> Sequence[str]:
    """Gated convolutions over time whose dilation doubles, with residuals and a sum of skips."""
    x, skips = convolution(net, "wave", (WIDTH, 1, 1)), ""
    for dilation in (1, 2, 4):
        padded = net.op("Pad", x, net.shape(0, 0, dilation, 0, 0, 0), net.number(0.0))
        value, gate = (
            net.op(
                "Conv", padded, net.weight((WIDTH, WIDTH, 2)), net.weight((WIDTH,), 0.02), kernel_shape=[2],
                dilations=[dilation],
            )
            for _ in range(2)
        )  # fmt: skip
        gated = net.op("Mul", net.op("Tanh", value), net.op("Sigmoid", gate))
        skip = convolution(net, gated, (WIDTH, WIDTH, 1))
        skips = net.op("Add", skips, skip) if skips else skip
        x = net.op("Add", x, convolution(net, gated, (WIDTH, WIDTH, 1)))
    return [convolution(net, net.op("Relu", skips), (4, WIDTH, 1))]


def _ranked(net: Network) -> Sequence[str]:
    """A recommender: tables of words, all products of two of them, a tower above."""
    dense = net.op("Relu", net.dense("features", 8, WIDTH))
    vectors = [net.op("Unsqueeze", dense, net.shape(1))]
    for column in range(3):
        index = net.constant(np.asarray(column, "int64"))
        words = net.op("Gather", net.weight((32, WIDTH), 0.5), net.op("Gather", "ids", index, axis=1))
        vectors.append(net.op("Unsqueeze", words, net.shape(1)))
    all_of_them = net.op("Concat", *vectors, axis=1)
    products = net.op("MatMul", all_of_them, net.op("Transpose", all_of_them, perm=(0, 2, 1)))
    flat = net.op("Reshape", products, net.shape(0, 16))
    below = np.flatnonzero(np.tri(4, k=-1).ravel())
    pairs = net.op("Gather", flat, net.constant(below.astype("int64")), axis=1)
    tower = net.op("Relu", net.dense(net.op("Concat", dense, pairs, axis=1), WIDTH + 6, WIDTH))
    return [net.op("Sigmoid", net.dense(tower, WIDTH, 1))]


def _mixer(net: Network) -> Sequence[str]:
    """A block of an MLP-Mixer: one network over the places, one over the channels."""
    x = "x"
    n = net.op("Transpose", net.layer_norm(x, WIDTH), perm=(0, 2, 1))
    over_places = net.dense(net.gelu(net.dense(n, 9, 24)), 24, 9)
    x = net.op("Add", x, net.op("Transpose", over_places, perm=(0, 2, 1)))
    hidden = net.gelu(net.dense(net.layer_norm(x, WIDTH), WIDTH, 32))
    return [net.op("Add", x, net.dense(hidden, 32, WIDTH))]


def _perceiver(net: Network) -> Sequence[str]:
    """A few learned queries read any number of inputs, then each other."""
    queries = net.weight((1, 4, WIDTH), 1.0)
    q = heads(net, net.dense(queries, WIDTH, WIDTH), HEADS, PART)
    k, v = (heads(net, net.dense("x", WIDTH, WIDTH), HEADS, PART) for _ in range(2))
    x = net.op("Add", queries, net.dense(joined(net, attention(net, q, k, v, PART), WIDTH), WIDTH, WIDTH))
    n = net.layer_norm(x, WIDTH)
    q, k, v = (heads(net, net.dense(n, WIDTH, WIDTH), HEADS, PART) for _ in range(3))
    return [net.op("Add", x, net.dense(joined(net, attention(net, q, k, v, PART), WIDTH), WIDTH, WIDTH))]


GRAPH = (Input("nodes", ("batch", "nodes", WIDTH)), Input("edges", ("batch", "nodes", "nodes"), Kind.EDGES))
GRAPHS = forms_of({"batch": 1, "nodes": 7}, {"batch": 3, "nodes": 4}, {"batch": 2, "nodes": 1})
BATCHES = forms_of({"batch": 1}, {"batch": 3})
LENGTHS = forms_of({"batch": 1, "length": 9}, {"batch": 3, "length": 5}, {"batch": 2, "length": 1})

MODELS = (
    OnnxModel("graph_convolution", GRAPH, _graph_convolution, GRAPHS),
    OnnxModel("graph_attention", GRAPH, _graph_attention, GRAPHS),
    OnnxModel("sound", (Input("sound", ("batch", 20, 10)),), _sound, BATCHES),
    OnnxModel("wavenet", (Input("wave", ("batch", 1, "length")),), _wave, LENGTHS),
    OnnxModel(
        "recommender",
        (Input("features", ("batch", 8)), Input("ids", ("batch", 3), Kind.WORDS)),
        _ranked,
        BATCHES,
    ),
    OnnxModel("mixer", (Input("x", ("batch", 9, WIDTH)),), _mixer, BATCHES),
    OnnxModel("perceiver", (Input("x", ("batch", "length", WIDTH)),), _perceiver, LENGTHS),
)
