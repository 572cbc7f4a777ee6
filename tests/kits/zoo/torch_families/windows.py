"""Windows of images in PyTorch: a Swin block with shifted windows, SAM's blocks with decomposed positions."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from kits.zoo.signature import Input, forms_of
from kits.zoo.torch_model import TorchModel

__all__ = ["MODELS"]

WIDTH, HEADS, PART = 16, 2, 8
SIDE, WINDOW, PADDED = 8, 4, 9


def _windows(x: torch.Tensor) -> torch.Tensor:
    """From (batch, row, column, width) to (batch x window, row, column, width)."""
    batch, rows, columns, width = x.shape
    apart = x.view(batch, rows // WINDOW, WINDOW, columns // WINDOW, WINDOW, width)
    return apart.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, WINDOW, WINDOW, width)


def _image(windows: torch.Tensor, side: int) -> torch.Tensor:
    count = side // WINDOW
    apart = windows.view(-1, count, count, WINDOW, WINDOW, windows.shape[-1])
    return apart.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, side, side, windows.shape[-1])


class _WindowAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(0.7 * torch.randn((2 * WINDOW - 1) ** 2, HEADS))
        grid = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(
            1
        )
        rows, columns = grid[:, :, None] - grid[:, None, :] + WINDOW - 1
        self.register_buffer("index", (rows * (2 * WINDOW - 1) + columns).view(-1), persistent=False)

    def forward(self, windows: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        count, places, _ = windows.shape
        q, k, v = self.qkv(windows).reshape(count, places, 3, HEADS, PART).permute(2, 0, 3, 1, 4)
        scores = (q * PART**-0.5) @ k.transpose(-2, -1)
        bias = self.table[self.index].view(places, places, HEADS).permute(2, 0, 1).contiguous()
        scores = scores + bias.unsqueeze(0)
        if mask is not None:
            apart = scores.view(-1, mask.shape[0], HEADS, places, places) + mask.unsqueeze(1).unsqueeze(0)
            scores = apart.view(-1, HEADS, places, places)
        mixed = (functional.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(count, places, WIDTH)
        return self.output(mixed)


class _FeedForward(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class _SwinBlock(nn.Module):
    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.norm, self.attention, self.feed_forward = nn.LayerNorm(WIDTH), _WindowAttention(), _FeedForward()
        part = torch.repeat_interleave(
            torch.arange(3), torch.tensor([SIDE - WINDOW, WINDOW // 2, WINDOW // 2])
        )
        image = (part[:, None] * 3 + part[None, :]).view(1, SIDE, SIDE, 1)
        windows = _windows(image).view(-1, WINDOW * WINDOW)
        mask = (windows[:, None] != windows[:, :, None]).float() * -100.0
        self.register_buffer("mask", mask if shift else None, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.norm(x)
        if self.shift:
            n = torch.roll(n, shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = self.attention(_windows(n).view(-1, WINDOW * WINDOW, WIDTH), self.mask)
        n = _image(windows.view(-1, WINDOW, WINDOW, WIDTH), SIDE)
        if self.shift:
            n = torch.roll(n, shifts=(self.shift, self.shift), dims=(1, 2))
        return self.feed_forward(x + n)


class _Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, WIDTH, 4, stride=4), nn.LayerNorm(WIDTH)
        self.blocks = nn.Sequential(_SwinBlock(0), _SwinBlock(WINDOW // 2))
        self.norm, self.reduction = nn.LayerNorm(4 * WIDTH), nn.Linear(4 * WIDTH, 2 * WIDTH, bias=False)
        self.last, self.head = nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.first(self.patches(image).permute(0, 2, 3, 1)))
        corners = [x[:, row::2, column::2] for column in range(2) for row in range(2)]
        x = self.reduction(self.norm(torch.cat(corners, dim=-1)))
        return self.head(self.last(x).mean(dim=(1, 2)))


class _SamAttention(nn.Module):
    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.rows, self.columns = (nn.Parameter(0.3 * torch.randn(2 * side - 1, PART)) for _ in range(2))
        distances = torch.arange(side)[:, None] - torch.arange(side)[None, :] + side - 1
        self.register_buffer("distances", distances, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, side, places = x.shape[0], self.side, self.side * self.side
        qkv = self.qkv(x).reshape(batch, places, 3, HEADS, PART).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, batch * HEADS, places, PART).unbind(0)
        apart = q.reshape(batch * HEADS, side, side, PART)
        by_row = torch.einsum("bhwc,hkc->bhwk", apart, self.rows[self.distances])
        by_column = torch.einsum("bhwc,wkc->bhwk", apart, self.columns[self.distances])
        scores = ((q * PART**-0.5) @ k.transpose(-2, -1)).view(-1, side, side, side, side)
        scores = scores + by_row[:, :, :, :, None] + by_column[:, :, :, None, :]
        mixed = scores.view(-1, places, places).softmax(dim=-1) @ v
        mixed = mixed.view(batch, HEADS, side, side, PART).permute(0, 2, 3, 1, 4)
        return self.output(mixed.reshape(batch, side, side, WIDTH))


class _SamBlock(nn.Module):
    def __init__(self, *, in_windows: bool) -> None:
        super().__init__()
        self.in_windows = in_windows
        self.norm, self.feed_forward = nn.LayerNorm(WIDTH), _FeedForward()
        self.attention = _SamAttention(WINDOW if in_windows else PADDED)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.in_windows:
            return self.feed_forward(x + self.attention(self.norm(x)))
        rest = -PADDED % WINDOW
        padded = functional.pad(self.norm(x), (0, 0, 0, rest, 0, rest))
        image = _image(self.attention(_windows(padded)), PADDED + rest)
        return self.feed_forward(x + image[:, :PADDED, :PADDED, :].contiguous())


class _ChannelNorm(nn.Module):
    """A layer norm over channels in front, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(1 + 0.1 * torch.randn(8)), nn.Parameter(0.1 * torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class _Sam(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.places = nn.Parameter(0.5 * torch.randn(1, PADDED, PADDED, WIDTH))
        self.blocks = nn.Sequential(_SamBlock(in_windows=True), _SamBlock(in_windows=False))
        self.neck = nn.Sequential(
            nn.Conv2d(WIDTH, 8, 1, bias=False), _ChannelNorm(), nn.Conv2d(8, 8, 3, padding=1), _ChannelNorm()
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.patches(image).permute(0, 2, 3, 1) + self.places)
        return self.neck(x.permute(0, 3, 1, 2))


def _image_input(side: int) -> tuple[Input, ...]:
    return (Input("image", ("batch", 3, 4 * side, 4 * side)),)


FORMS = (*forms_of({"batch": 1})[:1], forms_of({"batch": 2}, {"batch": 3})[1])

MODELS = (
    TorchModel("swin", _image_input(SIDE), _Swin, FORMS),
    TorchModel("sam_encoder", _image_input(PADDED), _Sam, FORMS),
)
