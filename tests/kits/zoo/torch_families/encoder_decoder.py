"""Encoder-decoders in PyTorch: a T5 with buckets of relative positions, and a Whisper."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, Kind, forms_of
from kits.zoo.torch_families.decode import IDS, heads, joined
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, HEADS, HIDDEN, WORDS, BUCKETS, FARTHEST = 32, 4, 48, 32, 16, 32


def _bucket(distance: torch.Tensor, buckets: int) -> torch.Tensor:
    """Buckets of distances from zero on: one each up to half of them, then logarithmic ones."""
    exact = buckets // 2
    steps = torch.log(distance.float() / exact) / math.log(FARTHEST / exact) * (buckets - exact)
    far = torch.min(exact + steps.to(torch.long), torch.full_like(distance, buckets - 1))
    return torch.where(distance < exact, distance, far)


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, n: torch.Tensor, memory: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        q, k, v = heads(self.q(n), HEADS), heads(self.k(memory), HEADS), heads(self.v(memory), HEADS)
        scores = torch.matmul(q, k.transpose(3, 2)) * 0.3
        scores = scores if bias is None else scores + bias
        return self.output(joined(torch.matmul(functional.softmax(scores.float(), dim=-1), v)))


class _FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.norm(x)
        return x + self.down(functional.gelu(self.gate(n), approximate="tanh") * self.up(n))


class _T5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.near, self.back = nn.Embedding(BUCKETS, HEADS), nn.Embedding(BUCKETS, HEADS)
        self.attentions = nn.ModuleList(_Attention() for _ in range(3))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-6) for _ in range(5))
        self.layers = nn.ModuleList(_FeedForward() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def encoded(self, ids: torch.Tensor) -> torch.Tensor:
        x, places = self.words(ids), torch.arange(ids.shape[1])
        ahead = places[None, :] - places[:, None]
        half = BUCKETS // 2
        bucket = (ahead > 0).to(torch.long) * half + _bucket(torch.abs(ahead), half)
        bias = self.near(bucket).permute(2, 0, 1)[None]
        n = self.norms[0](x)
        return self.norms[1](self.layers[0](x + self.attentions[0](n, n, bias)))

    def forward(self, ids: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        memory, x, places = self.encoded(ids), self.words(said), torch.arange(said.shape[1])
        ahead = places[None, :] - places[:, None]
        bucket = _bucket(-torch.min(ahead, torch.zeros_like(ahead)), BUCKETS)
        hidden = (ahead > 0).float() * torch.finfo(torch.float32).min
        bias = self.back(bucket).permute(2, 0, 1)[None] + hidden
        n = self.norms[2](x)
        x = x + self.attentions[1](n, n, bias)
        x = x + self.attentions[2](self.norms[3](x), memory, None)
        return self.head(self.norms[4](self.layers[1](x)))


class _Whisper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(8, WIDTH, 3, padding=1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.encoder = nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, activation="gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerDecoderLayer(
            WIDTH, HEADS, HIDDEN, activation="gelu", batch_first=True, norm_first=True
        )
        self.words, self.places, self.times = (nn.Embedding(64, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, audio: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        sound = functional.gelu(self.second(functional.gelu(self.first(audio)))).permute(0, 2, 1)
        memory = self.encoder(sound + self.times(torch.arange(sound.shape[1])))
        length = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(length))
        hidden = torch.ones(length, length).triu(1).bool()
        return self.head(self.decoder(x, memory, tgt_mask=hidden))


MODELS = (
    TorchModel(
        "t5", (IDS, Input("said", ("batch", "words"), Kind.WORDS)), _T5,
        forms_of({"batch": 2, "length": 24, "words": 9}, {"batch": 3, "length": 7, "words": 40}),
    ),
    TorchModel(
        "whisper", (Input("audio", ("batch", 8, 20)), IDS), _Whisper,
        forms_of({"batch": 2, "length": 6}, {"batch": 3, "length": 9}),
    ),
)  # fmt: skip
