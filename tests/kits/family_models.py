"""BERT, ViT, GPT-2, a Llama, ConvNeXt and MobileNetV2 with seeded weights, as PyTorch's exporter writes them.

``base`` is the size that the families are known for (BERT-base, ViT-B/16, GPT-2 small, two layers of a Llama
of TinyLlama's width, ConvNeXt-T, MobileNetV2 1.0); ``small`` has the same graph with few layers and narrow
ones, for tests. Deviations are chosen so that answers stay of order one in both.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import numpy as np
import onnx

from kits.family_sizes import (
    FAMILIES,
    IMAGES,
    MOBILE_STAGES,
    TRANSFORMERS,
    Images,
    Transformer,
    require_known,
)
from kits.onnx_network import Network

__all__ = ["FAMILIES", "family_model", "inputs_of"]

FAR = -3.4028234663852886e38  # what a masked score becomes


def _attention(net: Network, q: str, k: str, v: str, size: Transformer, mask: Callable[[str], str]) -> str:
    """Scaled dot-product attention of heads split from and joined to (batch, length, width)."""
    queries = _heads(net, q, size, size.heads, (0, 2, 1, 3))
    keys = _heads(net, k, size, size.heads, (0, 2, 3, 1))
    values = _heads(net, v, size, size.heads, (0, 2, 1, 3))
    return _mixed(net, queries, keys, values, size, mask)


def _heads(net: Network, value: str, size: Transformer, heads: int, order: tuple[int, ...]) -> str:
    split = net.op("Reshape", value, net.shape(0, 0, heads, size.part))
    return net.op("Transpose", split, perm=order)


def _mixed(net: Network, q: str, k: str, v: str, size: Transformer, mask: Callable[[str], str]) -> str:
    scores = net.op("Div", net.op("MatMul", q, k), net.number(size.part**0.5))
    mixed = net.op("MatMul", net.op("Softmax", mask(scores), axis=-1), v)
    back = net.op("Transpose", mixed, perm=(0, 2, 1, 3))
    return net.op("Reshape", back, net.shape(0, 0, size.heads * size.part))


def _unmasked(scores: str) -> str:
    return scores


def _bert(net: Network, size: Transformer) -> onnx.ModelProto:
    ids = net.input("ids", (1, size.length), whole=True)
    seen = net.input("seen", (1, size.length), whole=True)
    words = net.op("Gather", net.weight((size.vocabulary, size.width), 0.5), ids)
    places = net.weight((1, size.length, size.width), 0.5)
    x = net.layer_norm(net.op("Add", words, places), size.width, 1e-12)
    unseen = net.op("Sub", net.number(1), net.op("Cast", net.op("Unsqueeze", seen, net.shape(1, 2)), to=1))
    far = net.op("Mul", unseen, net.number(FAR))
    for _ in range(size.layers):
        q, k, v = (net.dense(x, size.width, size.width) for _ in range(3))
        mixed = _attention(net, q, k, v, size, lambda scores: net.op("Add", scores, far))
        x = net.layer_norm(net.op("Add", net.dense(mixed, size.width, size.width), x), size.width, 1e-12)
        hidden = net.gelu(net.dense(x, size.width, size.hidden))
        x = net.layer_norm(net.op("Add", net.dense(hidden, size.hidden, size.width), x), size.width, 1e-12)
    first = net.op("Gather", x, net.constant(np.asarray(0, "int64")), axis=1)
    pooled = net.op(
        "Gemm", first, net.weight((size.width, size.width), size.width**-0.5), net.weight((size.width,), 0.1),
        transB=1,
    )  # fmt: skip
    return net.model(net.op("Tanh", pooled), (1, size.width))


def _vit(net: Network, size: Transformer) -> onnx.ModelProto:
    side = round((size.length - 1) ** 0.5)
    image = net.input("image", (1, 3, 16 * side, 16 * side))
    patches = net.conv(image, (size.width, 3, 16, 16), stride=16)
    rows = net.op("Transpose", net.op("Reshape", patches, net.shape(0, size.width, -1)), perm=(0, 2, 1))
    tokens = net.op("Concat", net.weight((1, 1, size.width), 0.5), rows, axis=1)
    x = net.op("Add", tokens, net.weight((1, size.length, size.width), 0.5))
    for _ in range(size.layers):
        n = net.layer_norm(x, size.width, 1e-6)
        q, k, v = (net.dense(n, size.width, size.width) for _ in range(3))
        mixed = _attention(net, q, k, v, size, _unmasked)
        x = net.op("Add", net.dense(mixed, size.width, size.width, 0.5), x)
        hidden = net.gelu(net.dense(net.layer_norm(x, size.width, 1e-6), size.width, size.hidden))
        x = net.op("Add", net.dense(hidden, size.hidden, size.width, 0.5), x)
    first = net.op("Gather", net.layer_norm(x, size.width), net.constant(np.asarray(0, "int64")), axis=1)
    return _classified(net, first, size.width, size.vocabulary)


def _classified(net: Network, value: str, width: int, classes: int) -> onnx.ModelProto:
    weight, bias = net.weight((classes, width), width**-0.5), net.weight((classes,), 0.1)
    return net.model(net.op("Gemm", value, weight, bias, transB=1), (1, classes))


def _gpt2(net: Network, size: Transformer) -> onnx.ModelProto:
    ids = net.input("ids", (1, size.length), whole=True)
    words = net.op("Gather", net.weight((size.vocabulary, size.width), 0.5), ids)
    x = net.op("Add", words, net.weight((1, size.length, size.width), 0.5))
    causal = net.constant(np.tri(size.length, dtype=bool)[None, None])
    for _ in range(size.layers):
        joined = net.dense(net.layer_norm(x, size.width), size.width, 3 * size.width)
        q, k, v = net.ops("Split", 3, joined, net.shape(*[size.width] * 3), axis=2)
        mixed = _attention(
            net, q, k, v, size, lambda scores: net.op("Where", causal, scores, net.number(FAR))
        )
        x = net.op("Add", net.dense(mixed, size.width, size.width, 0.5), x)
        hidden = net.gelu_tanh(net.dense(net.layer_norm(x, size.width), size.width, size.hidden))
        x = net.op("Add", net.dense(hidden, size.hidden, size.width, 0.5), x)
    head = net.weight((size.width, size.vocabulary), size.width**-0.5)
    return net.model(net.op("MatMul", net.layer_norm(x, size.width), head), (1, size.length, size.vocabulary))


def _rms_norm(net: Network, value: str, width: int) -> str:
    mean = net.op("ReduceMean", net.op("Pow", value, net.number(2.0)), axes=[-1], keepdims=1)
    root = net.op("Sqrt", net.op("Add", mean, net.number(1e-5)))
    return net.op("Mul", net.op("Div", value, root), net.weight((width,), 0.1, 1.0))


def _turned(net: Network, value: str, size: Transformer) -> str:
    """Rotary positions: halves of each head, turned against each other."""
    half, last = size.part // 2, net.shape(-1)
    angles = np.outer(np.arange(size.length), 10000.0 ** (-np.arange(half) / half))
    twice = np.concatenate([angles, angles], axis=-1)[None, None].astype("float32")
    low = net.op("Slice", value, net.shape(0), net.shape(half), last)
    high = net.op("Slice", value, net.shape(half), net.shape(size.part), last)
    crossed = net.op("Concat", net.op("Neg", high), low, axis=-1)
    straight = net.op("Mul", value, net.constant(np.cos(twice)))
    return net.op("Add", straight, net.op("Mul", crossed, net.constant(np.sin(twice))))


def _repeated(net: Network, value: str, size: Transformer) -> str:
    """Each head of keys or values, once for each query head that it serves."""
    group, tail = size.heads // size.pairs, (size.length, size.part)
    apart = net.op("Unsqueeze", value, net.shape(2))
    wide = net.op("Expand", apart, net.shape(1, size.pairs, group, *tail))
    return net.op("Reshape", wide, net.shape(1, size.heads, *tail))


def _llama(net: Network, size: Transformer) -> onnx.ModelProto:
    ids = net.input("ids", (1, size.length), whole=True)
    x = net.op("Gather", net.weight((size.vocabulary, size.width), 1.0), ids)
    mask = net.constant(np.triu(np.full((size.length, size.length), FAR, "float32"), 1)[None, None])

    def project(value: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        return net.op("MatMul", value, net.weight((inputs, outputs), gain / inputs**0.5))

    narrow = size.pairs * size.part
    for _ in range(size.layers):
        n = _rms_norm(net, x, size.width)
        q = _heads(net, project(n, size.width, size.width), size, size.heads, (0, 2, 1, 3))
        k = _heads(net, project(n, size.width, narrow), size, size.pairs, (0, 2, 1, 3))
        v = _heads(net, project(n, size.width, narrow), size, size.pairs, (0, 2, 1, 3))
        q, k = _turned(net, q, size), _turned(net, k, size)
        k = net.op("Transpose", _repeated(net, k, size), perm=(0, 1, 3, 2))
        mixed = _mixed(net, q, k, _repeated(net, v, size), size, lambda scores: net.op("Add", scores, mask))
        x = net.op("Add", x, project(mixed, size.width, size.width, 0.5))
        n = _rms_norm(net, x, size.width)
        gate = project(n, size.width, size.hidden)
        silu = net.op("Mul", gate, net.op("Sigmoid", gate))
        inner = net.op("Mul", silu, project(n, size.width, size.hidden))
        x = net.op("Add", x, project(inner, size.hidden, size.width, 0.5))
    scores = project(_rms_norm(net, x, size.width), size.width, size.vocabulary)
    return net.model(scores, (1, size.length, size.vocabulary))


def _convnext(net: Network, size: Images) -> onnx.ModelProto:
    x = net.conv(net.input("image", (1, 3, size.side, size.side)), (size.channels[0], 3, 4, 4), stride=4)
    before = 0
    for blocks, width in zip(size.blocks, size.channels, strict=True):
        last = net.op("Transpose", x, perm=(0, 2, 3, 1))
        x = net.op("Transpose", net.layer_norm(last, before or width, 1e-6), perm=(0, 3, 1, 2))
        x = net.conv(x, (width, before, 2, 2), stride=2) if before else x
        before = width
        for _ in range(blocks):
            deep = net.op("Transpose", net.conv(x, (width, 1, 7, 7), groups=width), perm=(0, 2, 3, 1))
            hidden = net.gelu(net.dense(net.layer_norm(deep, width, 1e-6), width, 4 * width))
            scaled = net.op("Mul", net.weight((width,), 0.1, 0.5), net.dense(hidden, 4 * width, width))
            x = net.op("Add", net.op("Transpose", scaled, perm=(0, 3, 1, 2)), x)
    pooled = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return _classified(net, net.layer_norm(pooled, before, 1e-6), before, size.classes)


def _mobilenet(net: Network, size: Images) -> onnx.ModelProto:
    def bounded(value: str) -> str:
        return net.op("Clip", value, net.number(0.0), net.number(6.0))

    image = net.input("image", (1, 3, size.side, size.side))
    before, *widths, last = size.channels
    x = bounded(net.conv(image, (before, 3, 3, 3), stride=2))
    for (factor, stride), blocks, width in zip(MOBILE_STAGES, size.blocks, widths, strict=True):
        for block in range(blocks):
            inner = before * factor
            y = bounded(net.conv(x, (inner, before, 1, 1))) if factor > 1 else x
            y = bounded(net.conv(y, (inner, 1, 3, 3), stride=1 if block else stride, groups=inner))
            y = net.conv(y, (width, inner, 1, 1))
            x = net.op("Add", x, y) if block else y
            before = width
    x = bounded(net.conv(x, (last, before, 1, 1)))
    return _classified(net, net.op("Flatten", net.op("GlobalAveragePool", x), axis=1), last, size.classes)


_MAKE_TRANSFORMER: Mapping[str, Callable[[Network, Transformer], onnx.ModelProto]] = {
    "bert": _bert, "vit": _vit, "gpt2": _gpt2, "llama": _llama,
}  # fmt: skip
_MAKE_IMAGES: Mapping[str, Callable[[Network, Images], onnx.ModelProto]] = {
    "convnext": _convnext, "mobilenet_v2": _mobilenet,
}  # fmt: skip


def family_model(name: str, size: str = "base", seed: int = 0) -> onnx.ModelProto:
    """A model of a family at opset 17, its weights stored as initializers.

    Parameters
    ----------
    name
        One of `FAMILIES`.
    size
        ``"base"`` or ``"small"``.
    seed
        Models of different seeds have different weights.

    Raises
    ------
    ModelError
        There is no such family or size.
    """
    require_known(name, size)
    net = Network(name, seed)
    if name in TRANSFORMERS:
        return _MAKE_TRANSFORMER[name](net, TRANSFORMERS[name][size])
    return _MAKE_IMAGES[name](net, IMAGES[name][size])


def inputs_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded inputs: numbers of tokens, a mask that hides the last quarter of them, a normal image."""
    generator = np.random.default_rng([seed, zlib.crc32(b"family")])
    found: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if value.name == "seen":
            found[value.name] = (np.arange(shape[-1]) < shape[-1] * 3 // 4).astype("int64")[None]
        elif value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            found[value.name] = generator.integers(0, 1000, shape)
        else:
            found[value.name] = generator.standard_normal(shape, dtype=np.float32)
    return found
