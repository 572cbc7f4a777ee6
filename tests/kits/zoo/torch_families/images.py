"""Networks for images, in PyTorch: squeeze and excitation, responses, shuffles, dilation, upscaling."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, forms_of
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]


class _Excited(nn.Module):
    """Channels weighted by what their means say."""

    def __init__(self, width: int, *, is_hard: bool) -> None:
        super().__init__()
        self.low, self.gate = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)
        self.inner = nn.ReLU() if is_hard else nn.SiLU()
        self.outer = nn.Hardsigmoid() if is_hard else nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = functional.adaptive_avg_pool2d(x, 1)
        return x * self.outer(self.gate(self.inner(self.low(mean))))


class _Inverted(nn.Module):
    def __init__(self, width: int, window: int, *, is_hard: bool) -> None:
        super().__init__()
        inner = 4 * width
        activation = nn.Hardswish if is_hard else nn.SiLU
        self.layers = nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), activation(),
            nn.Conv2d(inner, inner, window, padding=window // 2, groups=inner, bias=False),
            nn.BatchNorm2d(inner), activation(), _Excited(inner, is_hard=is_hard),
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def _mobile(*, is_hard: bool) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish() if is_hard else nn.SiLU(),
        _Inverted(8, 3, is_hard=is_hard), _Inverted(8, 5, is_hard=is_hard),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


class _ConvNext(nn.Module):
    """A block of ConvNeXt V2, whose responses are normalized over the image."""

    def __init__(self) -> None:
        super().__init__()
        width = 16
        self.patches, self.deep = (
            nn.Conv2d(3, width, 4, 4),
            nn.Conv2d(width, width, 7, padding=3, groups=width),
        )
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 64), nn.Linear(64, width)
        self.scale, self.shift = (nn.Parameter(0.5 * torch.randn(1, 1, 1, 64)) for _ in range(2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image)
        y = functional.gelu(self.up(self.norm(self.deep(x).permute(0, 2, 3, 1))))
        strength = torch.sqrt((y * y).sum(dim=(1, 2), keepdim=True))
        relative = strength / (strength.mean(dim=-1, keepdim=True) + 1e-6)
        y = self.scale * (y * relative) + self.shift + y
        return x + self.down(y).permute(0, 3, 1, 2)


class _Shuffled(nn.Module):
    """Units of ShuffleNet V2: half of the channels pass, then both halves are interleaved."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU())
        self.units = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(8, 8, 1),
                nn.ReLU(),
                nn.Conv2d(8, 8, 3, padding=1, groups=8),
                nn.Conv2d(8, 8, 1),
                nn.ReLU(),
            )
            for _ in range(2)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image)
        for unit in self.units:
            left, right = x.chunk(2, dim=1)
            x = functional.channel_shuffle(torch.cat([left, unit(right)], dim=1), 2)
        return x


class _Upscaled(nn.Module):
    """Super-resolution by residual blocks and a pixel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 12, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(16, 16, 3, padding=1))
            for _ in range(2)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = first = self.first(image)
        for block in self.blocks:
            x = x + 0.2 * block(x)
        return functional.pixel_shuffle(self.last(x + first), 2)


class _Segmented(nn.Module):
    """Pyramid pooling with dilation, image pooling, bilinear resizing and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 2, 1)
        self.rates = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=rate, dilation=rate) for rate in (1, 2, 3))
        self.whole, self.joined = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 8, 1)
        self.twice = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.first(image))
        branches = [functional.relu(branch(x)) for branch in self.rates]
        whole = functional.relu(self.whole(x.mean(dim=(2, 3), keepdim=True)))
        branches.append(functional.interpolate(whole, size=(8, 8), mode="bilinear", align_corners=False))
        return torch.softmax(self.twice(functional.relu(self.joined(torch.cat(branches, dim=1)))), dim=1)


IMAGE = (Input("image", ("batch", 3, 16, 16)),)
FORMS = (forms_of({"batch": 1})[0], forms_of({"batch": 2}, {"batch": 3})[1])

MODELS = (
    TorchModel("efficientnet", IMAGE, lambda: _mobile(is_hard=False), FORMS),
    TorchModel("mobilenet_v3", IMAGE, lambda: _mobile(is_hard=True), FORMS),
    TorchModel("convnext_v2", IMAGE, _ConvNext, FORMS),
    TorchModel("shufflenet_v2", IMAGE, _Shuffled, FORMS),
    TorchModel("super_resolution", IMAGE, _Upscaled, FORMS),
    TorchModel("segmentation", IMAGE, _Segmented, FORMS),
)
