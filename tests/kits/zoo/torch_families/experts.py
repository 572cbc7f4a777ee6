"""Mixtures of experts in dense form, in PyTorch: all experts run, and weights of zero drop most of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, forms_of
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, HIDDEN, EXPERTS, CHOSEN = 16, 24, 4, 2


class _Batched(nn.Module):
    """All experts as one batched product; weights of the best two by a one-hot of their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.router = nn.RMSNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * HIDDEN) * WIDTH**-0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * HIDDEN**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.norm(x).reshape(-1, WIDTH)
        best, which = torch.topk(self.router(n), CHOSEN, dim=-1)
        is_it = (which.unsqueeze(-1) == torch.arange(EXPERTS)).float()
        weights = (torch.softmax(best, dim=-1).unsqueeze(-1) * is_it).sum(dim=1)
        gate, up = torch.bmm(n.unsqueeze(0).expand(EXPERTS, -1, -1), self.up).chunk(2, dim=-1)
        said = torch.bmm(functional.silu(gate) * up, self.down)
        return x + (said * weights.t().unsqueeze(-1)).sum(dim=0).view(x.shape)


class _Soft(nn.Module):
    """Experts one by one, weighted by a softmax, beside one that all share."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
            for _ in range(EXPERTS + 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gates = functional.softmax(self.router(x), dim=-1)
        *some, shared = self.experts
        said = torch.stack([expert(x) for expert in some], dim=-2)
        return x + (said * gates.unsqueeze(-1)).sum(dim=-2) + torch.sigmoid(gates[..., :1]) * shared(x)


X = (Input("x", ("batch", "length", WIDTH)),)
FORMS = (
    forms_of({"batch": 1, "length": 1})[0],
    forms_of({"batch": 2, "length": 5}, {"batch": 3, "length": 2})[1],
)

MODELS = (TorchModel("mixtral_experts", X, _Batched, FORMS), TorchModel("soft_experts", X, _Soft, FORMS))
