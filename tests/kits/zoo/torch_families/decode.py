"""Decode steps in PyTorch: new words, the keys and values of all words before, and both grown by one step.

Positions and masks follow from the extents, so that nothing but words and past is handed over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Form, Input, Kind, Sizes
from kits.zoo.torch_model import TorchModel

__all__ = ["DECODE_FORMS", "IDS", "MODELS", "heads", "joined", "past_of", "rotated", "seen", "turns"]

WIDTH, HEADS, PAIRS, PART, HIDDEN, WORDS = 32, 4, 2, 8, 48, 32


def step(batch: int, past: int, length: int) -> Sizes:
    """The sizes of one call."""
    return {"batch": batch, "past": past, "length": length}


ONE, FEW, LATER = step(1, 5, 1), step(3, 6, 4), step(1, 11, 1)

DECODE_FORMS = (
    Form("one_word", ONE, (ONE,)),
    Form("few_words", FEW, (FEW,)),
    Form("any_past", {"batch": 1, "length": 1}, (ONE, LATER)),
    Form("symbolic", {}, (FEW, step(2, 9, 2))),
)
"""One word, a few words, one word after any past, everything symbolic (from two on, as export asks)."""

IDS = Input("ids", ("batch", "length"), Kind.WORDS)


def past_of(layers: int, pairs: int) -> tuple[Input, ...]:
    """The keys and the values of the words before, layer by layer."""
    shape = ("batch", pairs, "past", PART)
    return tuple(Input(f"past_{kind}_{layer}", shape) for layer in range(layers) for kind in "kv")


def heads(x: torch.Tensor, count: int) -> torch.Tensor:
    """From (batch, length, width) to (batch, count, length, part)."""
    batch, length, _ = x.shape
    return x.view(batch, length, count, -1).transpose(1, 2)


def joined(x: torch.Tensor) -> torch.Tensor:
    """From (batch, head, length, part) to (batch, length, width)."""
    return x.transpose(1, 2).flatten(2)


def turns(positions: torch.Tensor, part: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of rotary positions: two tensors (length, part)."""
    half = part // 2
    frequencies = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(10000.0) / half))
    angles = torch.outer(positions.float(), frequencies)
    twice = torch.cat([angles, angles], dim=-1)
    return twice.cos(), twice.sin()


def rotated(x: torch.Tensor, by: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Halves of each head, turned against each other."""
    low, high = x.chunk(2, dim=-1)
    return x * by[0] + torch.cat([-high, low], dim=-1) * by[1]


def seen(past: int, length: int, window: int = 0) -> torch.Tensor:
    """Which words each new word sees: (length, past + length)."""
    places = torch.arange(past + length)
    queries = torch.arange(past, past + length)[:, None]
    visible = places <= queries
    return visible & (places > queries - window) if window else visible


@dataclass(frozen=True, slots=True)
class Manner:
    """How a decoder differs from the Llama.

    Attributes
    ----------
    norms_heads
        Whether queries and keys pass a norm.
    cap
        The bound that scores approach; 0 for none, then attention is PyTorch's own.
    windows
        How many words each layer sees; 0 for all.
    """

    norms_heads: bool = False
    cap: float = 0.0
    windows: tuple[int, ...] = (0, 0)


class _Layer(nn.Module):
    def __init__(self, manner: Manner, window: int) -> None:
        super().__init__()
        self.manner, self.window = manner, window
        self.before, self.between = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.q_norm, self.k_norm = nn.RMSNorm(PART, eps=1e-6), nn.RMSNorm(PART, eps=1e-6)
        self.q = nn.Linear(WIDTH, HEADS * PART, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, PAIRS * PART, bias=False) for _ in range(2))
        self.output = nn.Linear(HEADS * PART, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def mixed(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if not self.manner.cap:
            return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        scores = self.manner.cap * torch.tanh(q @ k.transpose(2, 3) * PART**-0.5 / self.manner.cap)
        scores = scores.masked_fill(~mask, torch.finfo(torch.float32).min)
        return functional.softmax(scores, dim=-1) @ v

    def forward(
        self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        past, length, n = k.shape[2], x.shape[1], self.before(x)
        q, new_k, new_v = heads(self.q(n), HEADS), heads(self.k(n), PAIRS), heads(self.v(n), PAIRS)
        if self.manner.norms_heads:
            q, new_k = self.q_norm(q), self.k_norm(new_k)
        by = turns(torch.arange(past, past + length), PART)
        k, v = torch.cat([k, rotated(new_k, by)], dim=2), torch.cat([v, new_v], dim=2)
        wide_k, wide_v = (each.repeat_interleave(HEADS // PAIRS, dim=1) for each in (k, v))
        mixed = self.mixed(rotated(q, by), wide_k, wide_v, seen(past, length, self.window))
        x = x + self.output(joined(mixed))
        n = self.between(x)
        return x + self.down(functional.silu(self.gate(n)) * self.up(n)), k, v


class _Decoder(nn.Module):
    def __init__(self, manner: Manner) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(_Layer(manner, window) for window in manner.windows)
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(
        self, ids: torch.Tensor, k0: torch.Tensor, v0: torch.Tensor, k1: torch.Tensor, v1: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        x, k0, v0 = self.layers[0](self.words(ids), k0, v0)
        x, k1, v1 = self.layers[1](x, k1, v1)
        return self.head(self.norm(x)), k0, v0, k1, v1


class _Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.before, self.between, self.last = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        past, length = k.shape[2], ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(past, past + length))
        q, new_k, new_v = (heads(each, HEADS) for each in self.qkv(self.before(x)).split(WIDTH, dim=2))
        k, v = torch.cat([k, new_k], dim=2), torch.cat([v, new_v], dim=2)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen(past, length))
        x = x + self.output(joined(mixed))
        x = x + self.down(functional.gelu(self.up(self.between(x)), approximate="tanh"))
        return self.head(self.last(x)), k, v


def _model(name: str, manner: Manner) -> TorchModel:
    return TorchModel(
        name, (IDS, *past_of(len(manner.windows), PAIRS)), lambda: _Decoder(manner), DECODE_FORMS
    )


MODELS = (
    _model("llama_decode", Manner()),
    _model("qwen_decode", Manner(norms_heads=True)),
    _model("gemma_decode", Manner(norms_heads=True, cap=5.0, windows=(4, 0))),
    TorchModel("gpt2_decode", (IDS, *past_of(1, HEADS)), _Gpt2, DECODE_FORMS),
)
