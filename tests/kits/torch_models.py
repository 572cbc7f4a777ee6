"""BERT, ViT, GPT-2, a Llama, ConvNeXt and MobileNetV2 as PyTorch users write them, and their import by TVM.

Needs the extra ``torch``. The sizes are those of `family_models`; the ways of writing differ on purpose, so
that the six together show what ``torch.export`` hands to TVM: BERT stands on ``nn.TransformerEncoder`` with a
padding mask, ViT on ``nn.MultiheadAttention``, GPT-2 on causal ``scaled_dot_product_attention`` of a joined
projection, the Llama on ``nn.RMSNorm``, rotary positions and keys that serve several heads.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import tvm
from torch import nn
from torch.nn import functional
from tvm.relax.frontend.torch import from_exported_program

from kits.family_sizes import (
    IMAGES,
    MOBILE_STAGES,
    TRANSFORMERS,
    Images,
    Transformer,
    require_known,
)

__all__ = ["any_size", "example_inputs", "imported", "torch_model"]


class _Bert(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.norm = nn.LayerNorm(size.width, eps=1e-12)
        layer = nn.TransformerEncoderLayer(
            size.width, size.heads, size.hidden, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.pool = nn.Linear(size.width, size.width)

    def forward(self, ids: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.words(ids) + self.places(places))
        x = self.encoder(x, src_key_padding_mask=seen == 0)
        return torch.tanh(self.pool(x[:, 0]))


class _VitLayer(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.before = nn.LayerNorm(size.width, eps=1e-6)
        self.attention = nn.MultiheadAttention(size.width, size.heads, dropout=0.1, batch_first=True)
        self.between = nn.LayerNorm(size.width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(size.width, size.hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(size.hidden, size.width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.before(x)
        mixed, _ = self.attention(normal, normal, normal, need_weights=False)
        x = x + mixed
        return x + self.mlp(self.between(x))


class _Vit(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size.width, kernel_size=16, stride=16)
        self.token = nn.Parameter(torch.zeros(1, 1, size.width))
        self.places = nn.Parameter(torch.zeros(1, size.length, size.width))
        self.layers = nn.Sequential(*(_VitLayer(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width, eps=1e-6)
        self.head = nn.Linear(size.width, size.vocabulary)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        rows = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(image.shape[0], -1, -1), rows], dim=1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """From (batch, length, width) to (batch, head, length, part)."""
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def _joined(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


class _Gpt2Layer(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.size = size
        self.before = nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.output = nn.Linear(size.width, size.width)
        self.between = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, size.hidden)
        self.down = nn.Linear(size.hidden, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (_heads(part, self.size.heads) for part in self.qkv(self.before(x)).chunk(3, dim=-1))
        x = x + self.output(_joined(functional.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.down(functional.gelu(self.up(self.between(x)), approximate="tanh"))


class _Gpt2(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.layers = nn.ModuleList(_Gpt2Layer(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return functional.linear(self.norm(x), self.words.weight)  # the head is the table of words


def _turned(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotary positions: halves of each head, turned against each other."""
    low, high = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-high, low], dim=-1) * sines


def _repeated(x: torch.Tensor, count: int) -> torch.Tensor:
    """Each head of keys or values, once for each query head that it serves."""
    batch, pairs, length, part = x.shape
    return x[:, :, None].expand(batch, pairs, count, length, part).reshape(batch, -1, length, part)


class _LlamaLayer(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.size = size
        narrow = size.pairs * size.part
        self.before = nn.RMSNorm(size.width, eps=1e-5)
        self.q = nn.Linear(size.width, size.width, bias=False)
        self.k = nn.Linear(size.width, narrow, bias=False)
        self.v = nn.Linear(size.width, narrow, bias=False)
        self.output = nn.Linear(size.width, size.width, bias=False)
        self.between = nn.RMSNorm(size.width, eps=1e-5)
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.up = nn.Linear(size.width, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        size, normal = self.size, self.before(x)
        q = _turned(_heads(self.q(normal), size.heads), cosines, sines)
        k = _turned(_heads(self.k(normal), size.pairs), cosines, sines)
        k, v = (_repeated(part, size.heads // size.pairs) for part in (k, _heads(self.v(normal), size.pairs)))
        x = x + self.output(_joined(functional.scaled_dot_product_attention(q, k, v, is_causal=True)))
        normal = self.between(x)
        return x + self.down(functional.silu(self.gate(normal)) * self.up(normal))


class _Llama(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(_LlamaLayer(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width, eps=1e-5)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        half = size.part // 2
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(half) / half), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        places = torch.arange(ids.shape[1], device=ids.device).to(x.dtype)
        angles = torch.outer(places, self.frequencies).repeat(1, 2)
        cosines, sines = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cosines, sines)
        return self.head(self.norm(x))


class _ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of (batch, channel, row, column)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.deep = nn.Conv2d(width, width, kernel_size=7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width, 1, 1), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        y = self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + self.scale * y


def _convnext(size: Images) -> nn.Module:
    layers: list[nn.Module] = []
    before = 0
    for blocks, width in zip(size.blocks, size.channels, strict=True):
        if before:
            layers += [_ChannelNorm(before, eps=1e-6), nn.Conv2d(before, width, kernel_size=2, stride=2)]
        else:
            layers += [nn.Conv2d(3, width, kernel_size=4, stride=4), _ChannelNorm(width, eps=1e-6)]
        layers += [_ConvNextBlock(width) for _ in range(blocks)]
        before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.LayerNorm(before, eps=1e-6)]
    return nn.Sequential(*layers, nn.Linear(before, size.classes))


def _step(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution with its batch norm and the bounded activation of MobileNets."""
    padding = kernel // 2
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True)]


class _InvertedResidual(nn.Module):
    def __init__(self, before: int, width: int, factor: int, stride: int) -> None:
        super().__init__()
        inner = before * factor
        wide = _step(before, inner, 1) if factor > 1 else []
        narrow = _step(inner, width, 1)[:2]
        self.layers = nn.Sequential(*wide, *_step(inner, inner, 3, stride, inner), *narrow)
        self.is_residual = stride == 1 and before == width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.is_residual else self.layers(x)


def _mobilenet(size: Images) -> nn.Module:
    before, *widths, last = size.channels
    layers = _step(3, before, 3, stride=2)
    for (factor, stride), blocks, width in zip(MOBILE_STAGES, size.blocks, widths, strict=True):
        for block in range(blocks):
            layers.append(_InvertedResidual(before, width, factor, 1 if block else stride))
            before = width
    layers += [*_step(before, last, 1), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(last, size.classes))


_TRANSFORMERS: Mapping[str, Callable[[Transformer], nn.Module]] = {
    "bert": _Bert, "vit": _Vit, "gpt2": _Gpt2, "llama": _Llama,
}  # fmt: skip
_IMAGES: Mapping[str, Callable[[Images], nn.Module]] = {"convnext": _convnext, "mobilenet_v2": _mobilenet}


def torch_model(name: str, size: str = "base", seed: int = 0) -> nn.Module:
    """A model of a family in evaluation mode, with seeded weights.

    Parameters
    ----------
    name
        One of `family_sizes.FAMILIES`.
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
    if name in TRANSFORMERS:
        model = _TRANSFORMERS[name](TRANSFORMERS[name][size])
    else:
        model = _IMAGES[name](IMAGES[name][size])
    _fill(model, torch.Generator().manual_seed(seed))
    return model.eval().requires_grad_(False)


def _fill(model: nn.Module, generator: torch.Generator) -> None:
    """Seeded weights under which the answers stay of order one."""
    for module in model.modules():
        is_norm = isinstance(module, nn.LayerNorm | nn.RMSNorm | nn.BatchNorm2d)
        for name, weight in module.named_parameters(recurse=False):
            noise = torch.randn(weight.shape, generator=generator)
            weight.data = _weight(noise, is_norm and name == "weight", isinstance(module, nn.Embedding))
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = 0.1 * torch.randn(module.num_features, generator=generator)
            module.running_var = 0.5 + torch.rand(module.num_features, generator=generator)


def _weight(noise: torch.Tensor, is_scale: bool, is_table: bool) -> torch.Tensor:
    if is_scale:
        return 1 + 0.1 * noise
    if is_table:
        return noise / math.sqrt(noise.shape[1])
    if noise.dim() < 2:
        return 0.1 * noise
    gain = 2 if noise.dim() == 4 else 1  # half of what a convolution computes is cut off behind it
    return noise * math.sqrt(gain / noise[0].numel())


def example_inputs(name: str, size: str = "base", seed: int = 0, batch: int = 1) -> tuple[torch.Tensor, ...]:
    """Seeded inputs: numbers of words, for BERT a mask that hides the last quarter of them; or normal images.

    Raises
    ------
    ModelError
        There is no such family or size.
    """
    require_known(name, size)
    generator = torch.Generator().manual_seed(seed)
    if name in IMAGES or name == "vit":
        side = IMAGES[name][size].side if name in IMAGES else _side(TRANSFORMERS[name][size])
        return (torch.randn((batch, 3, side, side), generator=generator),)
    length = TRANSFORMERS[name][size].length
    ids = torch.randint(1000, (batch, length), generator=generator)
    seen = (torch.arange(length) < length * 3 // 4).to(torch.int64).repeat(batch, 1)
    return (ids, seen) if name == "bert" else (ids,)


def _side(size: Transformer) -> int:
    return 16 * math.isqrt(size.length - 1)


def any_size(inputs: tuple[torch.Tensor, ...]) -> tuple[dict[int, Any], ...]:
    """For `imported`: any batch, and for words any length from two up to that of `inputs`."""
    batch = torch.export.Dim("batch", min=1)
    return tuple(
        {0: batch, 1: torch.export.Dim("length", min=2, max=value.shape[1])}
        if value.dim() == 2
        else {0: batch}
        for value in inputs
    )


def imported(
    model: nn.Module, inputs: tuple[torch.Tensor, ...], dynamic_shapes: Any = None, *, decomposed: bool = True
) -> tvm.IRModule:
    """What ``from_exported_program`` makes of a model; `decomposed` to core operators first as by default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own use of what it deprecates
        program = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
        return from_exported_program(program, run_ep_decomposition=decomposed, unwrap_unit_return_tuple=True)
