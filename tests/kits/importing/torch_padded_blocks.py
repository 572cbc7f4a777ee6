"""Programs of PyTorch that compute extents step by step: of sequences padded to blocks, of halved images."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

from kits.importing.torch_blocks import Case, seeded

__all__ = ["CASES", "REST"]


class Chunks(nn.Module):
    """A product within each block; its size is the padded length divided by the number of blocks."""

    def forward(self, x):
        batch, length = x.shape[:2]
        more = (4 - length % 4) % 4
        padded = functional.pad(x, (0, 0, 0, more))
        blocks = padded.reshape(batch, -1, 4, 8)
        count = (length + more) // 4
        size = (length + more) // count
        weights = blocks.sum(-1)[..., None].expand(batch, count, size, size)
        weights = weights.masked_fill(torch.ones(size, size).tril() == 0, 0)
        mixed = torch.matmul(weights, blocks).reshape(batch, length + more, 8)
        return [(mixed + padded)[:, :length]]


class Windows(nn.Module):
    """Attention of each block to itself and the one before; an exporter computes the size of blocks again."""

    def forward(self, x):
        batch, length = x.shape[:2]
        blocks = x.reshape(batch, -1, 4, 8)
        both = torch.cat([torch.cat([blocks[:, -1:], blocks[:, :-1]], 1), blocks], 2)
        scores = torch.matmul(blocks, both.transpose(2, 3))
        return [torch.matmul(torch.softmax(scores, 3), both).reshape(batch, length, 8)]


class Neighbours(nn.Module):
    """Sums of five rows in a row, of five and more, beside the last two; four tokens stand in front."""

    def forward(self, x):
        torch._check(x.shape[1] >= 5)
        batch = x.shape[0]
        rows = torch.cat([x[:, :-4], x[:, 1:-3], x[:, 2:-2], x[:, 3:-1], x[:, 4:]], 2)
        behind = torch.cat([x.new_zeros(batch, 4, 8), x], 1)[:, 4:] * x
        return [torch.cat([rows.reshape(batch, -1, 5, 8).sum(2), x[:, -5:-3], behind, x[:, -2:]], 1)]


class Differences(nn.Module):
    """How positions rise: a column is put in front, and all columns behind the first one are read."""

    def forward(self, x):
        rise = torch.diff(x, prepend=x[..., :1] - 1, dim=-1)
        return [torch.cumsum(rise, -1) * (torch.diff(x, dim=1, append=x[:, -1:]) > 0)]


class Rest(nn.Module):
    """A loop over blocks, whose last one is a part; its size is fixed while the program is decomposed."""

    def __init__(self):
        super().__init__()
        self.register_buffer("factors", torch.arange(16.0).reshape(4, 4))

    def forward(self, x):
        length, results = x.shape[1], []
        for begin in range(0, (length + 3) // 4 * 4, 4):
            end = min(begin + 4, length)
            block, count = x[:, begin:end], end - begin
            scores = block @ block.transpose(1, 2) * self.factors[:count, :count]
            results.append(scores @ block)
        return [torch.cat(results, 1)]


class Nothing(nn.Module):
    """Rows behind the first one, each repeated, of sequences of one row, which have no other rows."""

    def forward(self, x):
        return [torch.cat([x[:, 1:].repeat_interleave(4, dim=1), x], 1)]


class Loop(nn.Module):
    """A loop over blocks, which runs once when it is exported: longer sequences are another model."""

    def forward(self, x):
        batch, length = x.shape[:2]
        more = (16 - length % 16) % 16
        blocks = functional.pad(x, (0, 0, 0, more)).reshape(batch, -1, 16, 8)
        result = torch.zeros_like(blocks)
        for place in range((length + more) // 16):
            one = blocks[:, place : place + 1]
            result[:, place] = torch.matmul(one @ one.transpose(-1, -2), blocks)[:, 0]
        return [result.reshape(batch, -1, 8)[:, :length]]


class Steps(nn.Module):
    """A loop over whole blocks, which an exporter records as often as it runs; the rest is dropped."""

    def forward(self, x):
        return [torch.cat([x[:, 4 * k : 4 * k + 4] * (k + 1) for k in range(x.shape[1] // 4)], 1)]


class Skip(nn.Module):
    """An image beside its own half, enlarged again: a level of a U-Net, for sizes whose halves are whole."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, 2, 1)
        self.second = nn.Conv2d(4, 4, 3, 2, 1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        half = self.first(x)
        enlarged = functional.interpolate(self.second(half), scale_factor=2.0)
        return [self.norm(torch.cat([half, enlarged], 1))]


SHAPES = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
CASES = {
    "chunks": Case(Chunks(), SHAPES, [(seeded(2, length, 8),) for length in (13, 5, 18, 4)]),
    "nothing": Case(Nothing(), ({0: Dim.DYNAMIC},), [(seeded(batch, 1, 8),) for batch in (2, 3)]),
    "skip": Case(
        Skip().eval(),
        ({2: Dim.DYNAMIC, 3: Dim.DYNAMIC},),
        [(seeded(1, 4, height, width),) for height, width in ((16, 16), (8, 24), (20, 4))],
    ),
    "neighbours": Case(Neighbours(), SHAPES, [(seeded(2, length, 8),) for length in (9, 5, 16)]),
    "windows": Case(Windows(), SHAPES, [(seeded(2, length, 8),) for length in (16, 8, 20)]),
    "steps": Case(Steps(), SHAPES, [(seeded(2, length, 8),) for length in (8, 11)]),
    "differences": Case(
        Differences(),
        ({1: Dim.DYNAMIC, 2: Dim.DYNAMIC},),
        [(seeded(2, *shape),) for shape in ((4, 6), (5, 3))],
    ),
    "loop": Case(Loop(), SHAPES, [(seeded(2, length, 8),) for length in (13, 5, 16)]),
}

REST = Case(Rest(), ({1: Dim.AUTO},), [(seeded(2, 9, 8),)])
