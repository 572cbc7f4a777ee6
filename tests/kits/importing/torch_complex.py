"""Functions of PyTorch with complex numbers and spectra inside, of real inputs with real results."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

__all__ = ["FUNCTIONS", "REFUSED", "SHAPE", "Input", "Model", "edges", "pairs", "seeded"]

SHAPE = (2, 9, 8)
REAL = torch.view_as_real


class Model(torch.nn.Module):
    """Functions of one input, a table of angles and complex weights."""

    def __init__(self, functions):
        super().__init__()
        angles = torch.outer(torch.arange(10.0), torch.tensor([1.0, 0.3, 0.1, 0.03]))
        self.register_buffer("table", torch.polar(torch.ones(10, 4), angles))
        real, imaginary = seeded(3, 4, 3, 2), seeded(4, 3, 3, 2).transpose(0, 1)
        self.weights = torch.nn.Parameter(torch.complex(real, imaginary))
        self.functions = functions

    def forward(self, x):
        results = [function(self, x) for function in self.functions]
        return tuple(
            part for each in results for part in (each if isinstance(each, tuple | list) else (each,))
        )


def seeded(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def pairs(x):
    return torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))


def edges():
    """Parts of no size, of all sizes, and without bounds."""
    numbers = torch.tensor([0.0, -0.0, 1e-30, 3e30, math.inf, -1.0, math.nan, 2.0])
    return numbers.expand(SHAPE[1], 8).clone() * torch.cat([torch.ones(5, 1), -torch.ones(4, 1)])


def operator(model, x):
    """A layer of a Fourier neural operator."""
    image = x[:, :6].reshape(-1, 3, 2, 8).repeat(1, 1, 3, 1)
    spectrum = torch.fft.rfft2(image)[..., :3, :2]
    mixed = torch.einsum("bixy,ioxy->boxy", spectrum, model.weights)
    whole = functional.pad(mixed, (0, 3, 0, 3))
    return torch.fft.irfft2(whole, s=(6, 8))


def sounds(x):
    return torch.stft(
        x.flatten(1), 16, 4, window=torch.hann_window(16), return_complex=True, pad_mode="reflect"
    )


FUNCTIONS = {
    "rotary positions": lambda model, x: REAL(pairs(x) * model.table[: x.shape[1]]).flatten(2),
    "rotary positions that are computed": lambda _model, x: REAL(
        pairs(x) * torch.polar(torch.ones(x.shape[1], 4), torch.arange(4) * 0.1 + x[0, :, :1])
    ),
    "products": lambda model, x: (
        REAL(pairs(x) * x[..., :1]),
        REAL(2.5 * pairs(x)),
        REAL(pairs(x) * 1j),
        REAL(pairs(x)[:, :3, :3] @ model.weights[:, :3, 0, 0]),
        REAL(pairs(x) / 3),
        REAL(pairs(x) / (x[..., :4].abs() + 1)),
    ),
    "sums": lambda model, x: (
        REAL(pairs(x) + 1.5),
        REAL(pairs(x) - x[..., :4]),
        REAL(x[..., :4] - pairs(x)),
        REAL(pairs(x) + model.table[:1]),
        REAL(pairs(x).sum(2) - pairs(x).mean(2)),
        REAL(torch.complex(x[..., :1], x).sum(2)),
        REAL(torch.complex(x, x[0, 0]).flatten(1)),
        REAL(pairs(x) + True),
    ),
    "of real numbers": lambda _model, x: torch.fft.fft(x.to(torch.complex64), dim=2).real,
    "in another type": lambda model, x: REAL(pairs(x) * model.table[: x.shape[1]].to(x.device)).type_as(x),
    "views": lambda _model, x: (
        REAL(torch.cat([pairs(x), pairs(x.flip(1)), torch.complex(x[..., :1], x[..., 1:2])], -1)),
        REAL(torch.cat([pairs(x), x[..., :2]], -1)),
        REAL(functional.pad(pairs(x), (1, 2))[:, 1:, None].transpose(1, 3)),
        REAL(pairs(x)[:, torch.tensor([3, 1])]),
    ),
    "of one number": lambda _model, x: (
        REAL(torch.full_like(x, 1.5 - 2j, dtype=torch.complex64) * pairs(x).sum()),
        REAL(torch.full(pairs(x).shape, 2, dtype=torch.complex64) + pairs(x)),
        REAL(torch.zeros_like(pairs(x)) - pairs(x)),
        REAL(torch.ones_like(pairs(x)) * pairs(x)),
    ),
    "parts and sizes": lambda _model, x: (
        pairs(x).real * pairs(x).imag,
        pairs(x).abs(),
        pairs(x).angle(),
        REAL(pairs(x).conj() * pairs(x.flip(1))),
        torch.exp(1j * x).imag,
    ),
    "spectra": lambda _model, x: [
        REAL(each)
        for each in (
            torch.fft.rfft(x),
            torch.fft.rfft(x, dim=1, norm="ortho"),
            torch.fft.fft(x, n=12, norm="forward"),
            torch.fft.rfft2(x),
            torch.fft.fftn(pairs(x), dim=(1, 2)),
            torch.fft.ifft(pairs(x), dim=1),
        )
    ],
    "spectra along an axis of any length": lambda _model, x: [
        REAL(each)
        for each in (
            torch.fft.rfft(x, dim=1),
            torch.fft.rfft(x, dim=1, norm="ortho"),
            torch.fft.fft2(x, dim=(1, 2), norm="forward"),
            torch.fft.ifft(pairs(x), dim=1),
        )
    ],
    "numbers of spectra": lambda _model, x: (
        torch.fft.irfft(pairs(x), n=6, dim=2),
        torch.fft.irfft(pairs(x), n=7, dim=2, norm="ortho"),
        torch.fft.ifft(torch.fft.fft(x, dim=1), dim=1).real,
        torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
    ),
    "an operator": operator,
    "spectra of float64": lambda _model, x: REAL(torch.fft.rfft(x.double())),
    "sounds": lambda _model, x: (REAL(sounds(x)), sounds(x).abs()),
    "sounds again": lambda _model, x: torch.istft(sounds(x), 16, 4, window=torch.hann_window(16), length=64),
}

REFUSED = {
    "a result": lambda _model, x: pairs(x),
    "a function": lambda _model, x: torch.sin(pairs(x)).real,
    "a divisor": lambda _model, x: (1 / pairs(x)).real,
    "padding that is no zero": lambda _model, x: functional.pad(pairs(x), (1, 1), value=1.0).real,
    "a line of many places": lambda _model, x: REAL(torch.fft.rfft(x.new_zeros(10_000))),
    "numbers of a symbolic spectrum": lambda _model, x: torch.fft.irfft(pairs(x), dim=1),
}


class Input(torch.nn.Module):
    """A complex input."""

    def forward(self, x):
        return REAL(x)
