"""Reads of elements by masks that a program contains, whose number PyTorch's exporter does not know."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from kits.importing.torch_blocks import Case, seeded

__all__ = ["KNOWN"]


class Known(nn.Module):
    """Columns, rows and single elements of masks, and a product of rows, which is of another shape within."""

    def __init__(self):
        super().__init__()
        self.register_buffer("some", torch.tensor([True, False, False, True, False, True, False, False]))
        self.register_buffer("both", torch.stack([self.some, ~self.some]))

    def forward(self, x):
        columns = x[..., self.some]
        table = torch.arange(16.0).reshape(2, 8) + x[0, 0]
        cubes = torch.arange(128.0).reshape(8, 4, 4) * x[0, 0, 0]
        product = cubes[self.some] @ torch.eye(4)[:, :3]
        return [columns, columns.sum(-1), x[:, :, self.some, None], table[self.both], product]


KNOWN = Case(Known(), ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},), [(seeded(*size, 8),) for size in ((2, 7), (3, 4))])
