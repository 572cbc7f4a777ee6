"""A network of the zoo that is a PyTorch module: its inputs, forms, seeded weights, and its import by TVM."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import tvm
from torch import nn

from kits.torch_models import imported
from kits.zoo.signature import Form, Input, Sizes, arrays, forms_of

__all__ = ["TorchModel"]

NORMS = (nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A network as a PyTorch module.

    Attributes
    ----------
    name
        Tells it from the zoo's other PyTorch networks.
    inputs
        What it takes, in the order of its arguments.
    make
        Makes the module.
    forms
        How it is imported.
    """

    name: str
    inputs: tuple[Input, ...]
    make: Callable[[], nn.Module]
    forms: tuple[Form, ...] = forms_of({})

    def module(self) -> nn.Module:
        """The module in evaluation mode, with seeded weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(self.name.encode()))
            model = self.make()
            for each in model.modules():
                _fill(each)
        return model.eval().requires_grad_(False)

    def given(self, sizes: Sizes) -> tuple[torch.Tensor, ...]:
        """Seeded arguments of one call."""
        return tuple(torch.from_numpy(value) for value in arrays(self.inputs, sizes).values())

    def imported(self, form: Form) -> tvm.IRModule:
        """What TVM makes of the exported module; it is traced with the largest of the form's calls."""
        largest = max(form.calls, key=lambda sizes: min((*sizes.values(), math.inf)))
        given = self.given(largest)
        return imported(self.module(), given, self._dynamic_shapes(form))

    def _dynamic_shapes(self, form: Form) -> tuple[dict[int, Any], ...] | None:
        free = tuple(
            {
                axis: torch.export.Dim.DYNAMIC
                for axis, extent in enumerate(each.known(form.bound))
                if isinstance(extent, str)
            }
            for each in self.inputs
        )
        return free if any(free) else None


def _fill(module: nn.Module) -> None:
    """Weights under which answers stay of order one; a network's own classes fill what they hold."""
    if not type(module).__module__.startswith("torch.nn"):
        return
    for name, weight in module.named_parameters(recurse=False):
        noise = torch.randn(weight.shape)
        if isinstance(module, NORMS):
            weight.data = 0.1 * noise + float(name == "weight")
        elif noise.dim() < 2:
            weight.data = 0.1 * noise
        elif not isinstance(module, nn.Embedding):
            gain = 2 if noise.dim() > 2 else 1  # half of what a convolution computes is cut off behind it
            weight.data = noise * math.sqrt(gain / noise[0].numel())
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        module.running_mean = 0.1 * torch.randn(module.num_features)
        module.running_var = 0.5 + torch.rand(module.num_features)
