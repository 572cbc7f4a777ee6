"""Programs of PyTorch whose inputs have extents that are computed from a symbol."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

__all__ = ["CASES", "GUARDED", "seeded"]


@dataclass(frozen=True)
class Case:
    """A module, its dynamic shapes, and calls of it, the first of which it is exported with."""

    module: nn.Module
    shapes: object
    calls: list[tuple[torch.Tensor, ...]]

    def program(self):
        return torch.export.export(self.module, self.calls[0], dynamic_shapes=self.shapes, strict=False)

    def answers(self, given):
        with torch.no_grad():
            return [each.numpy() for each in self.module(*given)]


class Images(nn.Module):
    """Halved and doubled images beside themselves."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, 2, 1), nn.ConvTranspose2d(4, 3, 2, 2)

    def forward(self, x):
        small = functional.relu(self.down(x))
        return x + self.up(small), small.mean((2, 3))


class Lines(nn.Module):
    """Lines of an odd number of places, of which each second one is taken."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        rest = self.linear(x)[:, 1:]
        pairs = rest.reshape(x.shape[0], -1, 2, 4)
        return torch.softmax(pairs.sum(2), 1), pairs.flatten(1, 2) + rest


class Pairs(nn.Module):
    """Rows beside twice and four times as many."""

    def forward(self, one, other):
        return one + other.reshape(-1, 2, 3).sum(1), torch.cat([one, other]) @ torch.ones(3, 2)


class Levels(nn.Module):
    """Images beside the means of their parts, enlarged to their size, as in the pyramids of segmentation."""

    def forward(self, x):
        parts = functional.adaptive_avg_pool2d(x, 2)
        enlarged = functional.interpolate(parts, size=x.shape[2:], mode="bilinear")
        return (torch.cat([x, enlarged], 1).flatten(2),)


class Counted(nn.Module):
    """The sum of whole blocks of eight rows, which PyTorch counts while it exports."""

    def forward(self, x):
        return (sum(x[:, 8 * block] for block in range(x.shape[1] // 8)),)


class Shared(nn.Module):
    """The first rows, by a quotient of floats that is a number while PyTorch exports."""

    def forward(self, x):
        return (x[:, : int(x.shape[1] / 12)] + 1,)


def seeded(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


N = Dim("n", min=2, max=20)
GUARDED = {
    name: Case(module, ({1: 4 * Dim("n", min=4, max=50)},), [(seeded(2, size),) for size in (16, 20, 24)])
    for name, module in (("equation", Counted()), ("range", Shared()))
}
CASES = {
    "images": Case(
        Images().eval(),
        ({2: 2 * Dim("rows", min=2, max=50), 3: 2 * Dim("columns", min=1, max=50)},),
        [(seeded(1, 3, *size),) for size in ((8, 8), (4, 10), (12, 2))],
    ),
    "levels": Case(
        Levels(),
        ({2: 4 * Dim("rows", min=2, max=50), 3: 4 * Dim("columns", min=2, max=50)},),
        [(seeded(1, 3, *size),) for size in ((8, 12), (16, 8))],
    ),
    "lines": Case(Lines().eval(), ({1: 2 * N + 1},), [(seeded(2, size, 4),) for size in (7, 5, 13)]),
    "pairs": Case(
        Pairs().eval(),
        ({0: 2 * N}, {0: 4 * N}),
        [(seeded(2 * size, 3), seeded(4 * size, 3)) for size in (3, 2, 5)],
    ),
}
