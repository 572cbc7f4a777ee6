"""BERT, ViT, GPT-2, a Llama, ConvNeXt and MobileNetV2 as modules of TVM's ``relax.frontend.nn``.

The sizes are those of `family_models`. The frontend has no batch norm, so that the biases of MobileNetV2
stand for it; its attention takes no mask, so that BERT's is written out.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from kits.family_sizes import (
    IMAGES,
    MOBILE_STAGES,
    TRANSFORMERS,
    Images,
    Transformer,
    require_known,
)

__all__ = ["relax_inputs", "relax_model"]

FAR = -1e9  # what is added to a masked score


class _Bert(nn.Module):
    def __init__(self, size: Transformer) -> None:
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.norm = nn.LayerNorm(size.width, 1e-12)
        self.layers = nn.ModuleList([_BertLayer(size) for _ in range(size.layers)])
        self.pool = nn.Linear(size.width, size.width)

    def forward(self, ids: nn.Tensor, seen: nn.Tensor) -> nn.Tensor:
        batch, length = ids.shape
        x = self.norm(self.words(ids) + self.places(op.arange(0, length, dtype="int64")))
        unseen = op.reshape(
            op.astype(op.equal(seen, nn.Tensor.from_scalar(0, "int64")), "float32"), (batch, 1, 1, length)
        )
        for layer in self.layers:
            x = layer(x, unseen * FAR)
        return op.tanh(self.pool(_first(x)))


def _first(x: nn.Tensor) -> nn.Tensor:
    """Of (batch, length, width) the first of each length."""
    return op.take(x, nn.Tensor.from_scalar(0, "int64"), axis=1)


def _apart(x: nn.Tensor, heads: int) -> nn.Tensor:
    """From (batch, length, width) to (batch, length, head, part)."""
    batch, length, width = x.shape
    return op.reshape(x, (batch, length, heads, width // heads))


def _joined(x: nn.Tensor) -> nn.Tensor:
    batch, length, heads, part = x.shape
    return op.reshape(x, (batch, length, heads * part))


class _BertLayer(nn.Module):
    def __init__(self, size: Transformer) -> None:
        self.size = size
        self.q, self.k, self.v, self.output = (nn.Linear(size.width, size.width) for _ in range(4))
        self.middle = nn.LayerNorm(size.width, 1e-12)
        self.up = nn.Linear(size.width, size.hidden)
        self.down = nn.Linear(size.hidden, size.width)
        self.last = nn.LayerNorm(size.width, 1e-12)

    def forward(self, x: nn.Tensor, mask: nn.Tensor) -> nn.Tensor:
        q, k, v = (
            op.permute_dims(_apart(part(x), self.size.heads), [0, 2, 1, 3])
            for part in (self.q, self.k, self.v)
        )
        scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])) / math.sqrt(self.size.part)
        mixed = op.matmul(op.softmax(scores + mask, axis=-1), v)
        x = self.middle(x + self.output(_joined(op.permute_dims(mixed, [0, 2, 1, 3]))))
        return self.last(x + self.down(op.gelu(self.up(x))))


class _Layer(nn.Module):
    """A layer of ViT and GPT-2: norms first, queries, keys and values by one product."""

    def __init__(self, size: Transformer, is_causal: bool) -> None:
        self.size, self.is_causal = size, is_causal
        self.before = nn.LayerNorm(size.width, 1e-6)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.output = nn.Linear(size.width, size.width)
        self.between = nn.LayerNorm(size.width, 1e-6)
        self.up = nn.Linear(size.width, size.hidden)
        self.down = nn.Linear(size.hidden, size.width)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        q, k, v = (_apart(part, self.size.heads) for part in op.split(self.qkv(self.before(x)), 3, axis=-1))
        x = x + self.output(_joined(op.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)))
        curve = "tanh" if self.is_causal else None
        return x + self.down(op.gelu(self.up(self.between(x)), approximate=curve))


class _Vit(nn.Module):
    def __init__(self, size: Transformer) -> None:
        self.size = size
        self.patches = nn.Conv2D(3, size.width, 16, stride=16)
        self.token = nn.Parameter((1, 1, size.width))
        self.places = nn.Parameter((1, size.length, size.width))
        self.layers = nn.ModuleList([_Layer(size, is_causal=False) for _ in range(size.layers)])
        self.norm = nn.LayerNorm(size.width, 1e-6)
        self.head = nn.Linear(size.width, size.vocabulary)

    def forward(self, image: nn.Tensor) -> nn.Tensor:
        batch, size = image.shape[0], self.size
        rows = op.reshape(self.patches(image), (batch, size.width, size.length - 1))
        token = op.broadcast_to(self.token, (batch, 1, size.width))
        x = op.concat([token, op.permute_dims(rows, [0, 2, 1])], dim=1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(_first(self.norm(x)))


class _Gpt2(nn.Module):
    def __init__(self, size: Transformer) -> None:
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.layers = nn.ModuleList([_Layer(size, is_causal=True) for _ in range(size.layers)])
        self.norm = nn.LayerNorm(size.width, 1e-5)

    def forward(self, ids: nn.Tensor) -> nn.Tensor:
        x = self.words(ids) + self.places(op.arange(0, ids.shape[1], dtype="int64"))
        for layer in self.layers:
            x = layer(x)
        return op.matmul(self.norm(x), op.permute_dims(self.words.weight, [1, 0]))


class _LlamaLayer(nn.Module):
    def __init__(self, size: Transformer) -> None:
        self.size = size
        self.before, self.between = (nn.RMSNorm(size.width, -1, 1e-5, bias=False) for _ in range(2))
        self.q, self.output = (nn.Linear(size.width, size.width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(size.width, size.pairs * size.part, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(size.width, size.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: nn.Tensor, cosines: nn.Tensor, sines: nn.Tensor) -> nn.Tensor:
        size, normal = self.size, self.before(x)
        q = _turned(_apart(self.q(normal), size.heads), cosines, sines)
        k = _turned(_apart(self.k(normal), size.pairs), cosines, sines)
        group = size.heads // size.pairs
        k, v = (op.repeat(part, group, axis=2) for part in (k, _apart(self.v(normal), size.pairs)))
        x = x + self.output(_joined(op.scaled_dot_product_attention(q, k, v, is_causal=True)))
        normal = self.between(x)
        return x + self.down(op.silu(self.gate(normal)) * self.up(normal))


def _turned(x: nn.Tensor, cosines: nn.Tensor, sines: nn.Tensor) -> nn.Tensor:
    """Rotary positions: halves of each head, turned against each other."""
    low, high = op.split(x, 2, axis=-1)
    return x * cosines + op.concat([op.negative(high), low], dim=-1) * sines


class _Llama(nn.Module):
    def __init__(self, size: Transformer) -> None:
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.cosines, self.sines = (nn.Parameter((size.length, 1, size.part)) for _ in range(2))
        self.layers = nn.ModuleList([_LlamaLayer(size) for _ in range(size.layers)])
        self.norm = nn.RMSNorm(size.width, -1, 1e-5, bias=False)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, ids: nn.Tensor) -> nn.Tensor:
        x, places = self.words(ids), op.arange(0, ids.shape[1], dtype="int64")
        cosines, sines = (op.take(table, places, axis=0) for table in (self.cosines, self.sines))
        for layer in self.layers:
            x = layer(x, cosines, sines)
        return self.head(self.norm(x))


class _ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        self.deep = nn.Conv2D(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, 1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter((width,))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        y = self.norm(op.permute_dims(self.deep(x), [0, 2, 3, 1]))
        return x + op.permute_dims(self.scale * self.down(op.gelu(self.up(y))), [0, 3, 1, 2])


class _ChannelNorm(nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width, 1e-6)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return op.permute_dims(self.norm(op.permute_dims(x, [0, 2, 3, 1])), [0, 3, 1, 2])


class _Pooled(nn.Module):
    """The mean over the image, and what follows it."""

    def __init__(self, layers: list[nn.Module], behind: list[nn.Module]) -> None:
        self.layers, self.behind = nn.ModuleList(layers), nn.ModuleList(behind)

    def forward(self, image: nn.Tensor) -> nn.Tensor:
        x = image
        for layer in self.layers:
            x = layer(x)
        x = op.wrap_nested(relax.op.mean(x._expr, [2, 3]), "mean")
        for layer in self.behind:
            x = layer(x)
        return x


def _convnext(size: Images) -> nn.Module:
    layers: list[nn.Module] = []
    before = 0
    for blocks, width in zip(size.blocks, size.channels, strict=True):
        if before:
            layers += [_ChannelNorm(before), nn.Conv2D(before, width, 2, stride=2)]
        else:
            layers += [nn.Conv2D(3, width, 4, stride=4), _ChannelNorm(width)]
        layers += [_ConvNextBlock(width) for _ in range(blocks)]
        before = width
    return _Pooled(layers, [nn.LayerNorm(before, 1e-6), nn.Linear(before, size.classes)])


class _Step(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        self.conv = nn.Conv2D(inputs, outputs, kernel, stride, kernel // 2, groups=groups)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return op.relu6(self.conv(x))


class _InvertedResidual(nn.Module):
    def __init__(self, before: int, width: int, factor: int, stride: int) -> None:
        inner = before * factor
        wide = [_Step(before, inner, 1)] if factor > 1 else []
        self.layers = nn.ModuleList(
            [*wide, _Step(inner, inner, 3, stride, inner), nn.Conv2D(inner, width, 1)]
        )
        self.is_residual = stride == 1 and before == width

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        y = x
        for layer in self.layers:
            y = layer(y)
        return x + y if self.is_residual else y


def _mobilenet(size: Images) -> nn.Module:
    before, *widths, last = size.channels
    layers: list[nn.Module] = [_Step(3, before, 3, stride=2)]
    for (factor, stride), blocks, width in zip(MOBILE_STAGES, size.blocks, widths, strict=True):
        for block in range(blocks):
            layers.append(_InvertedResidual(before, width, factor, 1 if block else stride))
            before = width
    return _Pooled([*layers, _Step(before, last, 1)], [nn.Linear(last, size.classes)])


_TRANSFORMERS: Mapping[str, Callable[[Transformer], nn.Module]] = {
    "bert": _Bert, "vit": _Vit, "gpt2": _Gpt2, "llama": _Llama,
}  # fmt: skip
_IMAGES: Mapping[str, Callable[[Images], nn.Module]] = {"convnext": _convnext, "mobilenet_v2": _mobilenet}


def relax_model(name: str, size: str = "base", seed: int = 0, *, any_size: bool = False) -> tvm.IRModule:
    """A model of a family with seeded weights; its function is ``forward``.

    Parameters
    ----------
    name
        One of `family_sizes.FAMILIES`.
    size
        ``"base"`` or ``"small"``.
    seed
        Models of different seeds have different weights.
    any_size
        Whether the batch and the number of words are symbolic, or those of `relax_inputs`.

    Raises
    ------
    ModelError
        There is no such family or size.
    """
    inputs = relax_inputs(name, size)
    make = _TRANSFORMERS[name] if name in TRANSFORMERS else _IMAGES[name]
    sizes: Any = TRANSFORMERS[name][size] if name in TRANSFORMERS else IMAGES[name][size]
    symbols = [tvm.tirx.Var(symbol, "int64") for symbol in ("batch", "length")] if any_size else []
    spec = {key: nn.spec.Tensor(_shape(array, symbols), str(array.dtype)) for key, array in inputs.items()}
    module, weights = make(sizes).export_tvm({"forward": spec})
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = {key: _weight(key, weight, generator) for key, weight in weights}
    return relax.transform.BindParams("forward", values)(module)


def _shape(array: np.ndarray, symbols: list[Any]) -> list[Any]:
    known = len(symbols) if array.ndim == 2 else min(len(symbols), 1)
    return [*symbols[:known], *array.shape[known:]]


def _weight(key: str, parameter: nn.Parameter, generator: np.random.Generator) -> np.ndarray:
    """Numbers under which the answers stay of order one."""
    shape = tuple(int(extent) for extent in parameter.shape)
    noise = generator.standard_normal(shape, dtype=np.float32)
    name = key.rsplit(".", maxsplit=1)[-1]
    if name in ("cosines", "sines"):
        half = shape[-1] // 2
        angles = np.outer(np.arange(shape[0]), 10000.0 ** (-np.arange(half) / half))
        turned = np.cos(angles) if name == "cosines" else np.sin(angles)
        return np.concatenate([turned, turned], axis=-1)[:, None].astype("float32")
    if len(shape) == 1:
        return 0.1 * noise + np.float32(name == "weight")
    if key in ("words.weight", "places.weight"):
        return noise / np.float32(math.sqrt(shape[1]))
    gain = 2 if len(shape) == 4 else 1  # half of what a convolution computes is cut off behind it
    return noise * np.float32(math.sqrt(gain / math.prod(shape[1:])))


def relax_inputs(name: str, size: str = "base", seed: int = 0, batch: int = 1) -> dict[str, np.ndarray]:
    """Seeded inputs: numbers of words, for BERT a mask that hides the last quarter of them; or normal images.

    Raises
    ------
    ModelError
        There is no such family or size.
    """
    require_known(name, size)
    generator = np.random.default_rng([seed, zlib.crc32(b"family")])
    if name in IMAGES or name == "vit":
        side = (
            IMAGES[name][size].side
            if name in IMAGES
            else 16 * math.isqrt(TRANSFORMERS[name][size].length - 1)
        )
        return {"image": generator.standard_normal((batch, 3, side, side), dtype=np.float32)}
    length = TRANSFORMERS[name][size].length
    ids = generator.integers(0, 1000, (batch, length))
    if name != "bert":
        return {"ids": ids}
    seen = (np.arange(length) < length * 3 // 4).astype("int64")
    return {"ids": ids, "seen": np.repeat(seen[None], batch, axis=0)}
