"""Assignments to slices with steps, in place."""

from __future__ import annotations

__all__ = ["every_other", "every_third_column"]


def every_other(x):
    """Pairs of neighbours, turned as rotary positions are."""
    one, other = x[..., ::2] * 2, x[..., 1::2] * 3
    x[..., ::2], x[..., 1::2] = one - other, one + other
    return x


def every_third_column(x):
    """Columns from the second on and before the last one, replaced by the first ones."""
    x[:, :, 1:-1:3] = x[:, :, :2] * 5
    return x
