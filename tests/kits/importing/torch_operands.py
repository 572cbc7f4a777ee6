"""What functions of PyTorch are applied to."""

from __future__ import annotations

import torch

__all__ = ["numbers", "roots", "table", "tenths", "zeros_among"]


def numbers(x):
    """From x, whole numbers between -5 and 5 or so."""
    return (x * 3).long()


def zeros_among(x):
    """Where x is small, zeros of both signs."""
    return torch.where(x.abs() < 0.7, torch.tensor([0.0, -0.0, -0.0, 0.0, 0.0, 0.0, -0.0, -0.0]), x)


def roots(x):
    """Roots, which are no numbers where x is negative."""
    return torch.sqrt(x)


def table(x):
    """Twenty rows of three numbers."""
    return torch.arange(60.0).reshape(20, 3) * x[0, 0, 0]


def tenths(x):
    """Quotients that a division rounds to the next integer."""
    y = -x.flip(0) + 0.05
    return x % 0.1, x // 0.1, x % y, torch.div(x, y, rounding_mode="floor"), x % -0.3, x // 0.25
