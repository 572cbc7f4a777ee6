"""Detection in PyTorch: a DETR, an RT-DETR that selects its queries, a CSP network with YOLO's head."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, forms_of
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, HEADS, CLASSES, QUERIES, SIDE, BINS = 32, 4, 6, 5, 8, 8


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        located = x + places
        x = self.first(x + self.attention(located, located, x, need_weights=False)[0])
        return self.second(x + self.down(functional.relu(self.up(x))))


class _Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own, self.cross = (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(
        self, x: torch.Tensor, queries: torch.Tensor, memory: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        located = x + queries
        x = self.norms[0](x + self.own(located, located, x, need_weights=False)[0])
        x = self.norms[1](x + self.cross(x + queries, memory + places, memory, need_weights=False)[0])
        return self.norms[2](x + self.down(functional.relu(self.up(x))))


def _boxes() -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4)
    )


class _Detr(nn.Module):
    def __init__(self, *, selects: bool) -> None:
        super().__init__()
        self.selects = selects
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(16, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU(),
        )  # fmt: skip
        self.places = nn.Parameter(0.5 * torch.randn(1, SIDE * SIDE, WIDTH))
        self.queries = nn.Parameter(torch.randn(1, QUERIES, WIDTH))
        self.encoder = _Encoder()
        self.decoders = nn.ModuleList(_Decoder() for _ in range(2))
        self.score, self.box, self.first_box = nn.Linear(WIDTH, CLASSES), _boxes(), _boxes()
        self.locate = nn.Sequential(nn.Linear(4, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        memory = self.encoder(self.backbone(image).flatten(2).permute(0, 2, 1), self.places)
        return self.selected(memory) if self.selects else self.learned(memory)

    def learned(self, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries that were learned look at the image."""
        queries = self.queries.expand(memory.shape[0], -1, -1)
        x = torch.zeros_like(queries)
        for decoder in self.decoders:
            x = decoder(x, queries, memory, self.places)
        return self.score(x), self.box(x).sigmoid()

    def selected(self, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The places that score best become queries, whose boxes are refined layer by layer."""
        _, chosen = torch.topk(self.score(memory).max(-1).values, QUERIES, dim=1)
        boxes = self.first_box(memory).gather(1, chosen.unsqueeze(-1).repeat(1, 1, 4)).sigmoid()
        x = memory.gather(1, chosen.unsqueeze(-1).repeat(1, 1, WIDTH))
        for decoder in self.decoders:
            x = decoder(x, self.locate(boxes), memory, self.places)
            bounded = boxes.clamp(min=0, max=1)
            inverse = torch.log(bounded.clamp(min=1e-5) / (1 - bounded).clamp(min=1e-5))
            boxes = (self.box(x) + inverse).sigmoid()
        return self.score(x), boxes


class _Step(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, window: int = 3, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3), nn.SiLU(inplace=True),
        )  # fmt: skip


class _CrossStage(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        self.wide, self.narrow = _Step(inputs, outputs, 1), _Step(3 * half, outputs, 1)
        self.inner = nn.Sequential(_Step(half, half), _Step(half, half))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.wide(x).chunk(2, 1))
        parts.append(parts[-1] + self.inner(parts[-1]))
        return self.narrow(torch.cat(parts, 1))


class _PyramidPooling(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = _Step(width, width // 2, 1), _Step(2 * width, width, 1)
        self.pool = nn.MaxPool2d(5, stride=1, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Yolo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(_Step(3, 8, stride=2), _Step(8, 16, stride=2), _CrossStage(16, 16))
        self.coarse = nn.Sequential(_Step(16, 32, stride=2), _CrossStage(32, 32), _PyramidPooling(32))
        self.up, self.down = _CrossStage(48, 16), _CrossStage(48, 32)
        self.halve = _Step(16, 16, stride=2)
        self.heads = nn.ModuleList(
            nn.Sequential(_Step(width, width), nn.Conv2d(width, outputs, 1))
            for width in (16, 32)
            for outputs in (4 * BINS, CLASSES)
        )
        self.register_buffer("bins", torch.arange(BINS, dtype=torch.float32), persistent=False)
        self.register_buffer(
            "anchors", torch.rand(1, 2, SIDE * SIDE + SIDE * SIDE // 4) * SIDE, persistent=False
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        fine = self.fine(image)
        coarse = self.coarse(fine)
        up = self.up(torch.cat([functional.interpolate(coarse, scale_factor=2.0, mode="nearest"), fine], 1))
        down = self.down(torch.cat([self.halve(up), coarse], 1))
        levels = [
            torch.cat([self.heads[2 * level](x), self.heads[2 * level + 1](x)], 1).view(
                x.shape[0], -1, side**2
            )
            for level, (x, side) in enumerate(((up, SIDE), (down, SIDE // 2)))
        ]
        bins, scores = torch.cat(levels, 2).split((4 * BINS, CLASSES), 1)
        likely = bins.view(image.shape[0], 4, BINS, -1).transpose(2, 1).softmax(1)
        distances = (likely * self.bins.view(1, BINS, 1, 1)).sum(1)
        before, behind = distances.chunk(2, 1)
        first, last = self.anchors - before, self.anchors + behind
        return torch.cat([(first + last) / 2, last - first, scores.sigmoid()], 1)


IMAGE = (Input("image", ("batch", 3, 4 * SIDE, 4 * SIDE)),)
FORMS = (forms_of({"batch": 1})[0], forms_of({"batch": 2}, {"batch": 3})[1])

MODELS = (
    TorchModel("detr", IMAGE, lambda: _Detr(selects=False), FORMS),
    TorchModel("rt_detr", IMAGE, lambda: _Detr(selects=True), FORMS),
    TorchModel("yolo", IMAGE, _Yolo, FORMS),
)
