"""Diffusion in PyTorch: a U-Net with time and text, a VAE's decoder, a DiT block."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, Kind, forms_of
from kits.zoo.torch_families.decode import heads, joined
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, GROUPS, HEADS, SIDE, TEXT = 32, 4, 4, 8, 12


class _Time(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        half = WIDTH // 2
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32) / half)
        angles = 100 * time[:, None].float() * frequencies[None, :]
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
        return self.second(functional.silu(self.first(waves)))


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, *, timed: bool = True) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(GROUPS, inputs), nn.GroupNorm(GROUPS, outputs)
        self.one, self.two = (
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.time = nn.Linear(WIDTH, outputs) if timed else None
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor | None = None) -> torch.Tensor:
        y = self.one(functional.silu(self.first(x)))
        if self.time is not None and time is not None:
            y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.two(functional.silu(self.second(y)))


class _Attention(nn.Module):
    def __init__(self, memory: int) -> None:
        super().__init__()
        self.q, self.output = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(memory, WIDTH, bias=False) for _ in range(2))

    def forward(self, n: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        q, k, v = heads(self.q(n), HEADS), heads(self.k(memory), HEADS), heads(self.v(memory), HEADS)
        return self.output(joined(functional.scaled_dot_product_attention(q, k, v)))


class _Texted(nn.Module):
    """A transformer block over the places of an image: attention to itself, to the text, a gated layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, WIDTH, eps=1e-6)
        self.input, self.output = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.own, self.cross = _Attention(WIDTH), _Attention(TEXT)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        batch, _, rows, columns = image.shape
        x = self.input(self.norm(image)).permute(0, 2, 3, 1).reshape(batch, rows * columns, WIDTH)
        n = self.norms[0](x)
        x = x + self.own(n, n)
        x = x + self.cross(self.norms[1](x), text)
        value, gate = self.up(self.norms[2](x)).chunk(2, dim=-1)
        x = x + self.down(value * functional.gelu(gate))
        return self.output(x.reshape(batch, rows, columns, WIDTH).permute(0, 3, 1, 2).contiguous()) + image


class _Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(functional.interpolate(x, scale_factor=2.0, mode="nearest"))


class _Last(nn.Sequential):
    def __init__(self, outputs: int) -> None:
        super().__init__(nn.GroupNorm(GROUPS, 16), nn.SiLU(), nn.Conv2d(16, outputs, 3, padding=1))


class _Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time, self.first = _Time(), nn.Conv2d(4, 16, 3, padding=1)
        self.fine, self.halve = _Residual(16, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, 2, 1)
        self.coarse, self.texted, self.enlarge = _Residual(WIDTH, WIDTH), _Texted(), _Doubled()
        self.up, self.last = _Residual(2 * WIDTH, 16), _Last(4)

    def forward(self, image: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        moment = self.time(time)
        fine = self.fine(self.first(image), moment)
        coarse = self.texted(self.coarse(self.halve(fine), moment), text)
        return self.last(self.up(torch.cat([self.enlarge(coarse), fine], dim=1), moment))


class _VaeDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(4, WIDTH, 3, padding=1), nn.GroupNorm(GROUPS, WIDTH, eps=1e-6)
        self.blocks = nn.ModuleList(_Residual(WIDTH, width, timed=False) for width in (WIDTH, WIDTH, 16))
        self.attention, self.enlarge, self.last = _Attention(WIDTH), _Doubled(), _Last(3)

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        x = self.blocks[0](self.first(latent))
        places = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(places, places).transpose(1, 2).reshape(x.shape)
        return self.last(self.blocks[2](self.enlarge(self.blocks[1](x))))


class _Dit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time, self.patches = _Time(), nn.Conv2d(4, WIDTH, 2, stride=2)
        self.places = nn.Parameter(0.5 * torch.randn(1, SIDE * SIDE // 4, WIDTH))
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.modulate, self.attention = nn.Linear(WIDTH, 6 * WIDTH), _Attention(WIDTH)
        self.up, self.down, self.last = (
            nn.Linear(*sizes) for sizes in ((WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH), (WIDTH, 16))
        )

    def forward(self, image: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2) + self.places
        parts = self.modulate(functional.silu(self.time(time))).chunk(6, dim=1)
        shift, scale, gate, late_shift, late_scale, late_gate = (part.unsqueeze(1) for part in parts)
        n = self.norm(x) * (1 + scale) + shift
        x = x + gate * self.attention(n, n)
        n = self.norm(x) * (1 + late_scale) + late_shift
        x = x + late_gate * self.down(functional.gelu(self.up(n), approximate="tanh"))
        apart = self.last(x).reshape(-1, SIDE // 2, SIDE // 2, 2, 2, 4)
        return torch.einsum("nhwpqc->nchpwq", apart).reshape(-1, 4, SIDE, SIDE)


IMAGE = Input("image", ("batch", 4, SIDE, SIDE))
TIME = Input("time", ("batch",), Kind.UNIT)
TEXTS = (
    forms_of({"batch": 1, "words": 5})[0],
    forms_of({"batch": 2, "words": 9}, {"batch": 3, "words": 4})[1],
)
FORMS = (forms_of({"batch": 1})[0], forms_of({"batch": 2}, {"batch": 3})[1])

MODELS = (
    TorchModel(
        "unet", (IMAGE, TIME, Input("text", ("batch", "words", TEXT))), _Unet,
        TEXTS,
    ),
    TorchModel(
        "vae_decoder", (Input("latent", ("batch", 4, 6, 8)),), _VaeDecoder, FORMS,
    ),
    TorchModel("dit", (IMAGE, TIME), _Dit, FORMS),
)  # fmt: skip
