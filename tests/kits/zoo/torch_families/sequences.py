"""Networks that go along a sequence, in PyTorch: state spaces (a loop, a closed form), GRU, LSTM, RWKV."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, forms_of
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, INNER, STATES, STEPS = 16, 32, 4, 6


class _Mamba(nn.Module):
    def __init__(self, *, is_closed: bool) -> None:
        super().__init__()
        self.is_closed = is_closed
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.input, self.output = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)
        self.convolution = nn.Conv1d(INNER, INNER, 4, padding=3, groups=INNER)
        self.selects, self.steps = nn.Linear(INNER, 2 + 2 * STATES, bias=False), nn.Linear(2, INNER)
        self.rates = nn.Parameter(-torch.arange(1.0, STATES + 1).repeat(INNER, 1))
        self.skip = nn.Parameter(1 + 0.1 * torch.randn(INNER))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner, gate = self.input(self.norm(x)).chunk(2, dim=-1)
        inner = functional.silu(self.convolution(inner.transpose(1, 2))[..., :STEPS]).transpose(1, 2)
        low, entering, leaving = self.selects(inner).split([2, STATES, STATES], dim=-1)
        steps = functional.softplus(self.steps(low))
        decays = steps.unsqueeze(-1) * self.rates
        given = (steps * inner).unsqueeze(-1) * entering.unsqueeze(2)
        states = self.closed(decays, given) if self.is_closed else self.looped(decays, given)
        y = torch.matmul(states, leaving.unsqueeze(-1)).squeeze(-1) + inner * self.skip
        return x + self.output(y * functional.silu(gate))

    def looped(self, decays: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """All states, (batch, time, channel, state), one after another."""
        state, found = torch.zeros_like(given[:, 0]), []
        for time in range(STEPS):
            state = torch.exp(decays[:, time]) * state + given[:, time]
            found.append(state)
        return torch.stack(found, dim=1)

    def closed(self, decays: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """The same at once: each step sees each step before it by the decay between them."""
        sums = torch.cumsum(decays, dim=1)
        between = sums[:, :, None] - sums[:, None, :]
        past = torch.ones(STEPS, STEPS, dtype=torch.bool).tril()[None, :, :, None, None]
        return (torch.exp(between.masked_fill(~past, -1e9)) * given[:, None]).sum(dim=2)


class _Cells(nn.Module):
    """A cell of PyTorch, called step by step."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        found = []
        for time in range(STEPS):
            state = self.cell(x[:, time], state)
            found.append(state)
        return torch.stack(found, dim=1)


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, INNER)

    def forward(
        self, x: torch.Tensor, state: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for time in range(STEPS):
            state, memory = self.cell(x[:, time], (state, memory))
        return state, memory


class _Rwkv(nn.Module):
    """Time mixing with a running maximum, so that no exponential overflows."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value, self.gate = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mix = nn.Parameter(torch.rand(3, WIDTH))
        self.decay, self.first = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        late = functional.pad(x, (0, 0, 1, 0))[:, :-1]
        k, v, r = (
            layer(x * self.mix[part] + late * (1 - self.mix[part]))
            for part, layer in enumerate((self.key, self.value, self.gate))
        )
        over, under = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
        most, found = torch.full_like(x[:, 0], -1e30), []
        for time in range(STEPS):
            now = self.first + k[:, time]
            best = torch.maximum(most, now)
            old, new = torch.exp(most - best), torch.exp(now - best)
            found.append((old * over + new * v[:, time]) / (old * under + new))
            faded = most - torch.exp(self.decay)
            best = torch.maximum(faded, k[:, time])
            old, new = torch.exp(faded - best), torch.exp(k[:, time] - best)
            over, under, most = old * over + new * v[:, time], old * under + new, best
        return self.output(torch.sigmoid(r) * torch.stack(found, dim=1))


X = Input("x", ("batch", STEPS, WIDTH))
STATE = Input("state", ("batch", INNER))
FORMS = (forms_of({"batch": 1})[0], forms_of({"batch": 2}, {"batch": 3})[1])

MODELS = (
    TorchModel("mamba_looped", (X,), lambda: _Mamba(is_closed=False), FORMS),
    TorchModel("mamba_closed", (X,), lambda: _Mamba(is_closed=True), FORMS),
    TorchModel("gru", (X, STATE), lambda: _Cells(nn.GRUCell(WIDTH, INNER)), FORMS),
    TorchModel("lstm", (X, STATE, Input("memory", ("batch", INNER))), _Lstm, FORMS),
    TorchModel("rwkv", (X,), _Rwkv, FORMS),
)
