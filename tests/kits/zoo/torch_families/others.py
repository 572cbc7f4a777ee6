"""Graphs, sound and ranking in PyTorch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, Kind, forms_of
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, HEADS, PART = 16, 2, 8


class _GraphConvolution(nn.Module):
    """Messages over a dense adjacency that is normalized by the degrees on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(2 * WIDTH, 5)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        root = edges.sum(dim=-1, keepdim=True).rsqrt()
        scaled, x = edges * root * root.transpose(1, 2), nodes
        for layer in self.layers:
            x = functional.relu(torch.bmm(scaled, layer(x)))
        return self.head(torch.cat([x.max(dim=1).values, x.mean(dim=1)], dim=1))


class _GraphAttention(nn.Module):
    """Attention by the sum of two scores, one of each end of an edge."""

    def __init__(self) -> None:
        super().__init__()
        self.input, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 5)
        self.here, self.there = (nn.Parameter(torch.randn(HEADS, PART) * PART**-0.5) for _ in range(2))

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = self.input(nodes).view(*nodes.shape[:2], HEADS, PART)
        here, there = ((x * each).sum(dim=-1) for each in (self.here, self.there))
        scores = functional.leaky_relu(there[:, :, None] + here[:, None, :], 0.2)
        scores = scores.masked_fill(edges[..., None] == 0, float("-inf"))
        mixed = torch.einsum("bijh,bjhp->bihp", torch.softmax(scores, dim=2), x)
        return self.head(functional.elu(mixed.flatten(2)))


class _Sound(nn.Module):
    """Spoken words by depthwise and pointwise convolutions over time and frequency."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(1, 16, (10, 4), stride=2, padding=(5, 1)),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        ]
        for _ in range(2):
            layers += [nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU()]
            layers += [nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 6))

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        return self.layers(sound.unsqueeze(1))


class _Wave(nn.Module):
    """Gated convolutions over time whose dilation doubles, with residuals and a sum of skips."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(1, WIDTH, 1), nn.Conv1d(WIDTH, 4, 1)
        self.gates = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 2, dilation=rate) for rate in (1, 2, 4))
        self.skips, self.onward = (
            nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(3)) for _ in range(2)
        )

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        x, skips = self.first(wave), torch.zeros_like(self.first(wave))
        for rate, gates, skip, onward in zip((1, 2, 4), self.gates, self.skips, self.onward, strict=True):
            value, gate = gates(functional.pad(x, (rate, 0))).chunk(2, dim=1)
            gated = torch.tanh(value) * torch.sigmoid(gate)
            skips, x = skips + skip(gated), x + onward(gated)
        return self.last(functional.relu(skips))


class _Ranked(nn.Module):
    """A recommender: tables of words, all products of two of them, a tower above."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.tables = (
            nn.Linear(8, WIDTH),
            nn.ModuleList(nn.Embedding(32, WIDTH) for _ in range(3)),
        )
        self.tower, self.last = nn.Linear(WIDTH + 6, WIDTH), nn.Linear(WIDTH, 3)
        below = torch.tril_indices(4, 4, offset=-1)
        self.register_buffer("below", below[0] * 4 + below[1], persistent=False)

    def forward(self, features: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        dense = functional.relu(self.dense(features))
        words = [0.25 * table(ids[:, column]) for column, table in enumerate(self.tables)]
        together = torch.stack([dense, *words], dim=1)
        products = torch.bmm(together, together.transpose(1, 2)).flatten(1)
        pairs = products.index_select(1, self.below)
        return torch.sigmoid(self.last(functional.relu(self.tower(torch.cat([dense, 0.2 * pairs], dim=1)))))


GRAPH = (Input("nodes", ("batch", "nodes", WIDTH)), Input("edges", ("batch", "nodes", "nodes"), Kind.EDGES))
GRAPHS = (
    forms_of({"batch": 1, "nodes": 7})[0],
    forms_of({"batch": 2, "nodes": 5}, {"batch": 3, "nodes": 4})[1],
)
FORMS = (forms_of({"batch": 1})[0], forms_of({"batch": 2}, {"batch": 3})[1])

MODELS = (
    TorchModel("graph_convolution", GRAPH, _GraphConvolution, GRAPHS),
    TorchModel("graph_attention", GRAPH, _GraphAttention, GRAPHS),
    TorchModel("sound", (Input("sound", ("batch", 20, 10)),), _Sound, FORMS),
    TorchModel("wavenet", (Input("wave", ("batch", 1, 9)),), _Wave, FORMS),
    TorchModel(
        "recommender",
        (Input("features", ("batch", 8)), Input("ids", ("batch", 3), Kind.WORDS)),
        _Ranked,
        FORMS,
    ),
)
