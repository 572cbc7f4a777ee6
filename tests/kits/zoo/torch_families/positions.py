"""Positions that scores see, in PyTorch: linear biases, Conformers with rotary and relative positions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, forms_of
from kits.zoo.torch_families.decode import (
    DECODE_FORMS,
    IDS,
    heads,
    joined,
    past_of,
    rotated,
    seen,
    turns,
)
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, HEADS, PART, HIDDEN, WORDS = 32, 4, 8, 48, 32


class _Bloom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.first, self.before, self.between, self.last = (nn.LayerNorm(WIDTH) for _ in range(4))
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        slopes = 2.0 ** -torch.arange(2.0, 2.0 * HEADS + 1, 2.0)
        self.register_buffer("slopes", slopes.view(HEADS, 1, 1), persistent=False)

    def forward(self, ids: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, past, length = self.first(self.words(ids)), k.shape[2], ids.shape[1]
        parts = self.qkv(self.before(x)).view(ids.shape[0], length, HEADS, 3, PART)
        q, new_k, new_v = (parts[:, :, :, part].transpose(1, 2) for part in range(3))
        k, v = torch.cat([k, new_k], dim=2), torch.cat([v, new_v], dim=2)
        bias = self.slopes * torch.arange(past + length)
        scores = torch.matmul(q, k.transpose(2, 3)) * PART**-0.5 + bias
        scores = torch.where(seen(past, length), scores, torch.finfo(torch.float32).min)
        x = x + self.output(joined(functional.softmax(scores, dim=-1) @ v))
        x = x + self.down(functional.gelu(self.up(self.between(x)), approximate="tanh"))
        return self.head(self.last(x)), k, v


class _Rotary(nn.Module):
    """Positions turned in front of the projections, as Wav2Vec2's Conformer has them."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, n: torch.Tensor) -> torch.Tensor:
        batch, length, _ = n.shape
        cosines, sines = (by[:, None, None, :] for by in turns(torch.arange(length), PART))
        apart = rotated(n.transpose(0, 1).view(length, batch, HEADS, PART), (cosines, sines))
        turned = apart.reshape(length, batch, WIDTH).transpose(0, 1)
        q, k, v = heads(self.q(turned), HEADS), heads(self.k(turned), HEADS), heads(self.v(n), HEADS)
        scores = torch.matmul(q, k.transpose(-2, -1)) / PART**0.5
        return self.output(joined(torch.matmul(torch.softmax(scores, dim=-1), v)))


class _Relative(nn.Module):
    """Scores by content and by relative place, the second shifted into rows of keys (Transformer-XL)."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.place = nn.Linear(WIDTH, WIDTH, bias=False)
        self.by_content, self.by_place = (nn.Parameter(0.5 * torch.randn(HEADS, PART)) for _ in range(2))
        self.register_buffer("places", torch.randn(1, 2 * length - 1, WIDTH), persistent=False)

    def forward(self, n: torch.Tensor) -> torch.Tensor:
        batch, length, _ = n.shape
        q = self.q(n).view(batch, length, HEADS, PART)
        k, v = heads(self.k(n), HEADS), heads(self.v(n), HEADS)
        places = heads(self.place(self.places), HEADS)
        content = torch.matmul((q + self.by_content).transpose(1, 2), k.transpose(-2, -1))
        relative = torch.matmul((q + self.by_place).transpose(1, 2), places.transpose(-2, -1))
        padded = functional.pad(relative, (1, 0)).view(batch, HEADS, 2 * length, length)
        shifted = padded[:, :, 1:].reshape(batch, HEADS, length, 2 * length - 1)[..., :length]
        weights = torch.softmax((content + shifted) / (2 * PART) ** 0.5, dim=-1)
        return self.output(joined(torch.matmul(weights, v)))


class _FeedForward(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * super().forward(x) + x


class _Conformer(nn.Module):
    def __init__(self, attend: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.input, self.output = nn.Linear(16, WIDTH), nn.Linear(WIDTH, WORDS)
        self.first, self.second = _FeedForward(), _FeedForward()
        self.before, self.between, self.last = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.attention = attend()
        self.convolution = nn.Sequential(
            nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.GLU(dim=1),
            nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH), nn.BatchNorm1d(WIDTH), nn.SiLU(),
            nn.Conv1d(WIDTH, WIDTH, 1),
        )  # fmt: skip

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        x = self.first(self.input(sound))
        x = x + self.attention(self.before(x))
        x = x + self.convolution(self.between(x).transpose(1, 2)).transpose(1, 2)
        return self.output(self.last(self.second(x)))


FORMS = (
    forms_of({"batch": 1, "length": 10})[0],
    forms_of({"batch": 2, "length": 10}, {"batch": 3, "length": 7})[1],
)

MODELS = (
    TorchModel("bloom_decode", (IDS, *past_of(1, HEADS)), _Bloom, DECODE_FORMS),
    TorchModel(
        "conformer_rotary", (Input("sound", ("batch", "length", 16)),), lambda: _Conformer(_Rotary),
        FORMS,
    ),
    TorchModel(
        "conformer_relative", (Input("sound", ("batch", 10, 16)),), lambda: _Conformer(lambda: _Relative(10)),
        (forms_of({"batch": 1})[0], forms_of({"batch": 2}, {"batch": 3})[1]),
    ),
)  # fmt: skip
