"""Functions that need care near zeros or the ends of what they are defined for, and of bytes."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["SPECIAL"]

SPECIAL = {
    "bytes with another sign": lambda x: (-(x.abs() * 50).to(torch.uint8), -(x > 0).to(torch.uint8)),
    "a factor between bounds": lambda x: (functional.rrelu(x), functional.rrelu(x, 0.1, 0.2)),
    "small numbers beside one": lambda x: (
        torch.log1p(x.abs() * 1e-6) * 1e6,
        torch.expm1(x * 1e-6) * 1e6,
        torch.log1p(x.abs()),
        torch.expm1(x),
    ),
    "scaled exponents below 0": lambda x: (
        functional.selu(x),
        functional.elu(x, 0.5),
        functional.celu(x, 2.0),
    ),
    "complements of the error function": lambda x: (
        torch.erfc(3 * x),
        torch.erfc(3 * x.abs().clamp(max=2)) * torch.exp(9 * x.abs().clamp(max=2) ** 2),
        torch.special.erfcx(x),
        torch.special.log_ndtr(5 * x),
        torch.erfc((x > 0).long()),
    ),
    "hypotenuses": lambda x: (
        torch.hypot(x, x.flip(-1)),
        torch.hypot(x * 1e25, x * 1e24) * 1e-25,
        torch.hypot(x * 0, torch.tensor([0.0, 1e-30, torch.inf, -torch.inf, 3.0, 0.0, -0.0, 1.0])),
    ),
    "inverses of the error function": lambda x: (
        torch.erfinv(x / 3),
        torch.erfinv(1 - torch.exp(-4 - 3 * x.abs())),
        torch.erfinv(x * 1e-20) * 1e20,
        torch.erfinv(torch.tensor([1.0, -1.0, 0.0, -0.0, 1.5, -2.0, 0.9999999, 0.5]) + x * 0),
        torch.erfinv((x > 0).long()),
        torch.distributions.Normal(0.0, 1.0).icdf(torch.sigmoid(x)),
    ),
}
