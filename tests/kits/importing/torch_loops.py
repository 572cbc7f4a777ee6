"""Programs of PyTorch with `while_loop`."""

from __future__ import annotations

import importlib

import torch
from torch import nn
from torch.export import Dim

from kits.importing.torch_blocks import seeded

__all__ = ["CASES", "exported_case", "unequal_program"]

while_loop = importlib.import_module("torch._higher_order_ops.while_loop").while_loop


class Counted(nn.Module):
    """As many steps as the elements of an input say; each reads weights."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, n):
        def body(i, v):
            return i + 1, torch.tanh(self.layer(v)) + v * 0.1

        return while_loop(lambda i, _v: i < n.sum(), body, (torch.zeros((), dtype=torch.int64), x))


class Shrinking(nn.Module):
    """Until no element is large; another input is read in each step."""

    def forward(self, x, y):
        return while_loop(lambda v: (v - y).abs().max() > 0.5, lambda v: (v * 0.7 + y * 0.3,), (x,))


class Unequal(nn.Module):
    """A step whose operands have the same extent only in some calls."""

    def forward(self, x, y):
        return while_loop(lambda v: v.max() > 9, lambda v: (v + y.reshape(-1)[: v.shape[0]],), (x,))


CASES = {
    "counted": (
        Counted,
        lambda rows, n: (seeded(rows, 8) * 5, torch.tensor([n, 1])),
        ({0: Dim.DYNAMIC}, None),
    ),
    "shrinking": (
        Shrinking,
        lambda rows, n: (seeded(rows, 8) * n, seeded(rows, 1)),
        ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),
    ),
}
"""By name, a module, its inputs for numbers of rows and steps, and its dynamic extents."""


def exported_case(name, *, strict=False):
    """The module of a case, and its program."""
    kind, inputs, shapes = CASES[name]
    torch.manual_seed(0)
    model = kind().eval()
    with torch.no_grad():
        program = torch.export.export(model, inputs(3, 2), dynamic_shapes=shapes, strict=strict)
    return model, program


def unequal_program():
    """The program of `Unequal`."""
    shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    with torch.no_grad():
        return torch.export.export(Unequal(), (seeded(6), seeded(2, 3)), dynamic_shapes=shapes)
